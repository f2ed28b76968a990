"""The lists of everything that is measured. To measure something else, add an entry."""

from functools import partial

from benchmarks.crossover import measure_crossover
from benchmarks.fast import measure_fast
from benchmarks.generation import measure_generation
from benchmarks.gpu import measure_gpu
from benchmarks.growth import measure_growth
from benchmarks.matmuls import measure_over_matmuls
from benchmarks.measurement import Measurement
from benchmarks.peak import measure_peak
from benchmarks.rival import measure_coarse, measure_defaults, measure_paper
from benchmarks.streaming import measure_stream
from benchmarks.training import measure_depth, measure_relatives

MEASUREMENTS = [
    Measurement(
        name="paper",
        title="training step: speed over titans-pytorch, paper's rule",
        must=40,
        aim=100,
        measure=measure_paper,
    ),
    Measurement(
        name="defaults",
        title="training step: speed over titans-pytorch, our defaults",
        must=25,
        aim=40,
        measure=measure_defaults,
    ),
    Measurement(
        name="peak",
        title="the paper's step: titans-pytorch's extra memory over ours",
        must=20,
        aim=30,
        measure=measure_peak,
    ),
    Measurement(
        name="coarse",
        title="training step: speed over titans-pytorch, its coarse rule",
        must=1.5,
        aim=3,
        measure=measure_coarse,
    ),
    Measurement(
        name="matmuls",
        title="forward: time of the memory's rule over its matmuls alone",
        must=2.5,
        aim=1.5,
        better="less",
        measure=measure_over_matmuls,
    ),
    Measurement(
        name="fast",
        title="training step: speed of fast over chunked, 2nd of three shapes",
        must=1.5,
        aim=2,
        measure=measure_fast,
    ),
    Measurement(
        name="stream",
        title="streaming: speed at 1,000,000 tokens over that at 4,096",
        must=0.9,
        aim=1.0,
        measure=measure_stream,
    ),
    Measurement(
        name="growth",
        title="streaming: memory gained from 4,096 to 1,000,000 tokens",
        must=50,
        aim=0,
        unit="MB",
        better="less",
        measure=measure_growth,
    ),
    Measurement(
        name="gpu",
        title="training step on a GPU: speed of the Triton kernels over chunked",
        must=1,
        aim=3,
        measure=measure_gpu,
    ),
]

VARIANTS = ("mac", "mag", "mal", "lmm")

# The models over long sequences: tens of minutes, so they are asked for with `--long`.
LONG = [
    *(
        Measurement(
            name=f"stream-{variant}",
            title=f"{variant.upper()}: speed at 2,097,152 tokens over that at 4,096",
            must=0.9,
            aim=1.0,
            measure=partial(measure_stream, reader=variant),
        )
        for variant in VARIANTS
    ),
    *(
        Measurement(
            name=f"growth-{variant}",
            title=f"{variant.upper()}: memory gained from 4,096 to 2,097,152 tokens",
            must=100,
            aim=0,
            unit="MB",
            better="less",
            measure=partial(measure_growth, reader=variant),
        )
        for variant in VARIANTS
    ),
    *(
        Measurement(
            name=f"token-{variant}",
            title=f"{variant.upper()}: time of a token at 100 over that at 100,000",
            must=0.9,
            aim=1.0,
            measure=partial(measure_generation, variant=variant),
        )
        for variant in VARIANTS
    ),
    Measurement(
        name="crossover",
        title="forward: time of full attention over the memory's, 16,384 tokens",
        must=1,
        aim=4,
        measure=measure_crossover,
    ),
    Measurement(
        name="depth",
        title="training step: time at depth 4 over depth 1",
        must=5,
        aim=3,
        better="less",
        measure=measure_depth,
    ),
    Measurement(
        name="relatives",
        title="training step: time of LMM (depth 1) over DeltaNet's",
        must=3,
        aim=1,
        better="less",
        measure=measure_relatives,
    ),
]
