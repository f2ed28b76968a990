"""On a GPU: a training step of the memory rule as Triton kernels, as `chunked`, and as compiled.

The three take turns on the same inputs, forward and backward; `chunked` also under
`torch.compile`, which fuses what it can without knowing the rule. Without an NVIDIA GPU the line
says so and nothing is measured.
"""

import torch

from benchmarks.measurement import Measured, Progress, Unavailable
from benchmarks.rule import Inputs, random_inputs, train_step
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans.memory import chunked
from minititans.memory.triton import fused, why_not

BATCH, HEADS, TIME, DIM, DEPTH, CHUNK = 8, 16, 4096, 64, 2, 32
DTYPE = torch.bfloat16


def measure_gpu(quick: bool, progress: Progress) -> Measured:
    """Seconds of `chunked` over seconds of the kernels."""
    if not torch.cuda.is_available() or torch.version.cuda is None:
        raise Unavailable("needs an NVIDIA GPU that torch can use, but there is none here")
    device = torch.device("cuda")
    reason = why_not([DIM] * (DEPTH + 1), CHUNK, True, True, torch.float32, device, DTYPE)
    if reason is not None:
        raise Unavailable(f"the kernels do not run here: {reason}")
    time, rounds = (512, 3) if quick else (TIME, 20)
    inputs = random_inputs(BATCH, HEADS, time, DIM, DEPTH, device=device, dtype=DTYPE)
    rules = {"triton": fused, "chunked": chunked, "compiled": torch.compile(chunked)}
    sides = {name: Side(lambda rule=rule: step(rule, inputs)) for name, rule in rules.items()}
    seconds = interleaved(sides, rounds, progress)
    return ratio(
        seconds["chunked"],
        seconds["triton"],
        gpu=torch.cuda.get_device_name(device),
        batch=BATCH,
        heads=HEADS,
        time=time,
        dim_head=DIM,
        depth=DEPTH,
        chunk_size=CHUNK,
        dtype=str(DTYPE),
        compiled_over_triton=ratio(seconds["compiled"], seconds["triton"]).value,
        seconds={side: summary(each) for side, each in seconds.items()},
        tokens_per_second={
            side: summary(BATCH * time / s for s in each) for side, each in seconds.items()
        },
    )


def step(rule, inputs: Inputs) -> None:
    """Forward and backward; wait until both are done."""
    train_step(rule, inputs, CHUNK)
    torch.cuda.synchronize()
