"""On a GPU: a training step of the memory rule as Triton kernels, as `chunked`, and as compiled.

The three take turns on the same inputs, forward and backward; `chunked` also under
`torch.compile`, which fuses what it can without knowing the rule. Without an NVIDIA GPU the line
says so and nothing is measured.
"""

import torch
import torch.nn.functional as F

from benchmarks.measurement import Measured, Progress, Unavailable
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans.memory import Gates, MemoryState, chunked
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
    inputs = random_inputs(time, device)
    rules = {"triton": fused, "chunked": chunked, "compiled": torch.compile(chunked)}
    sides = {name: Side(lambda rule=rule: step(rule, *inputs)) for name, rule in rules.items()}
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


def random_inputs(time: int, device: torch.device) -> tuple[list[torch.Tensor], Gates, list]:
    """q, k, v; gates; weights: leaves with numbers like those from a `NeuralMemory`."""
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, BATCH, HEADS, time, DIM, generator=random)
    theta, eta, alpha = torch.rand(3, BATCH, HEADS, time, generator=random)
    weights = [torch.randn(HEADS, DIM, DIM, generator=random) / DIM**0.5 for _ in range(DEPTH)]
    gates = Gates(theta, 0.7 * eta, alpha / 50).in_shares()
    tokens = [F.normalize(q, dim=-1), F.normalize(k, dim=-1), v]
    return (
        [x.to(device, DTYPE).requires_grad_() for x in tokens],
        gates.map(lambda gate: gate.to(device).requires_grad_()),
        [w.to(device).requires_grad_() for w in weights],
    )


def step(rule, tokens: list[torch.Tensor], gates: Gates, weights: list[torch.Tensor]) -> None:
    """Forward and backward; wait until both are done."""
    y, _ = rule(*tokens, gates, MemoryState.start(weights, BATCH), CHUNK)
    torch.autograd.grad(y.float().square().sum(), [*tokens, *vars(gates).values(), *weights])
    torch.cuda.synchronize()
