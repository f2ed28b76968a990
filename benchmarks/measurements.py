"""The list of everything that is measured. To measure something more, add an entry."""

from benchmarks.growth import measure_growth
from benchmarks.matmuls import measure_over_matmuls
from benchmarks.measurement import Measurement
from benchmarks.peak import measure_peak
from benchmarks.rival import measure_coarse, measure_paper
from benchmarks.streaming import measure_stream

MEASUREMENTS = [
    Measurement(
        name="paper",
        title="training step: speed over titans-pytorch, paper's rule",
        must=40,
        aim=100,
        measure=measure_paper,
    ),
    Measurement(
        name="peak",
        title="the same step: titans-pytorch's extra memory over ours",
        must=10,
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
        title="forward: time of chunked over its matmuls alone",
        must=2.5,
        aim=1.5,
        better="less",
        measure=measure_over_matmuls,
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
]
