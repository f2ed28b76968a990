"""How much of `fast` is matmuls: its time over that of its matmuls and nothing else.

We do not choose the list of matmuls. A dispatch mode records every one that a real forward pass
makes, with the shapes and strides of its operands, and `replay` makes them again in that order, on
operands and results that are already allocated. The triangular solve of the exact layer is one of
them. Operands of the same shape and strides are the same tensor, so they stay in the cache: the
result is a lower bound, not an estimate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.measurement import Measured, Progress
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans.memory import Gates, MemoryState, fast

BATCH, HEADS, TIME, DIM, DEPTH, CHUNK = 4, 4, 1024, 64, 2, 64

aten = torch.ops.aten
# Adding to what is there is not part of a bare product.
OPERATIONS = {aten.mm: torch.mm, aten.addmm: torch.mm}
OPERATIONS |= dict.fromkeys((aten.bmm, aten.baddbmm, aten.baddbmm_), torch.bmm)
OPERATIONS |= {aten.linalg_solve_triangular: torch.linalg.solve_triangular}
# What would hide matmuls from the recorder if it ever came through undivided.
UNDIVIDED = (aten.matmul, aten.einsum, aten.linear, aten.addbmm, aten.mv, aten.dot)


class Layout(NamedTuple):
    """What a matmul's speed can depend on, apart from the numbers."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Matmul:
    """One recorded product, or one triangular solve."""

    run: Callable[..., Tensor]
    operands: tuple[Layout, ...]
    result: Layout
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def solves(self) -> bool:
        return self.run is torch.linalg.solve_triangular

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each entry of the result and each inner index.

        Half of a triangular matrix is zero, so a solve takes half as many.
        """
        left, _ = self.operands
        return (1 if self.solves else 2) * prod(self.result.shape) * left.shape[-1]


class Recorder(TorchDispatchMode):
    """Records every matmul made inside a `with` block. Needs `no_grad`, not inference mode: there,
    `matmul` would arrive undivided.

    >>> with torch.no_grad(), Recorder() as recorder:
    ...     _ = torch.ones(2, 3) @ torch.ones(3, 5)
    >>> [matmul.flops for matmul in recorder.matmuls]
    [60]
    """

    def __init__(self):
        super().__init__()
        self.matmuls: list[Matmul] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        operation = function.overloadpacket
        if operation in UNDIVIDED:
            raise RuntimeError(f"{operation} cannot be replayed: teach the recorder to")
        if operation in OPERATIONS:
            operands = tuple(layout(arg) for arg in args if isinstance(arg, Tensor))[-2:]
            run = OPERATIONS[operation]
            options = {name: value for name, value in (kwargs or {}).items() if name != "out"}
            self.matmuls.append(Matmul(run, operands, layout(result), options))
        return result


def layout(tensor: Tensor) -> Layout:
    return Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype)


def replay(matmuls: list[Matmul]) -> Callable[[], None]:
    """A function that makes the same matmuls again. What they need is allocated now."""
    pool: dict[tuple[str, Layout], Tensor] = {}

    def tensor(role: str, like: Layout) -> Tensor:
        if (role, like) not in pool:
            made = torch.empty_strided(like.shape, like.stride, dtype=like.dtype)
            whole = sum((n - 1) * s for n, s in zip(like.shape, like.stride)) + 1
            flat = made.as_strided((whole,), (1,))  # an expanded tensor cannot be filled itself
            flat.normal_(std=1 / like.shape[-1])  # so small that no solve overflows
            pool[role, like] = made
        return pool[role, like]

    calls = [
        (
            matmul.run,
            [tensor(f"operand {i}", operand) for i, operand in enumerate(matmul.operands)],
            tensor("result", matmul.result),
            matmul.options,
        )
        for matmul in matmuls
    ]

    def run() -> None:
        for function, operands, result, options in calls:
            function(*operands, out=result, **options)

    return run


def measure_over_matmuls(quick: bool, progress: Progress) -> Measured:
    """`fast` over its own matmuls: by default, and with `exact` and `residual` off beside it."""
    time, rounds = (256, 5) if quick else (TIME, 50)
    inputs = random_inputs(time)
    plain = {"exact": False, "residual": False}
    with torch.no_grad():
        with Recorder() as recorder:
            fast(*inputs, CHUNK)
        with Recorder() as plain_recorder:
            fast(*inputs, CHUNK, **plain)
        sides = {
            "rule": Side(lambda: fast(*inputs, CHUNK)),
            "matmuls": Side(replay(recorder.matmuls)),
            "plain rule": Side(lambda: fast(*inputs, CHUNK, **plain)),
            "plain matmuls": Side(replay(plain_recorder.matmuls)),
        }
        seconds = interleaved(sides, rounds, progress)
    flops = sum(matmul.flops for matmul in recorder.matmuls)
    return ratio(
        seconds["rule"],
        seconds["matmuls"],
        batch=BATCH,
        heads=HEADS,
        time=time,
        dim_head=DIM,
        depth=DEPTH,
        chunk_size=CHUNK,
        matmuls=len(recorder.matmuls),
        gigaflops=flops / 1e9,
        seconds={side: summary(each) for side, each in seconds.items()},
        gigaflops_per_second={
            side: summary(flops / 1e9 / s for s in seconds[side]) for side in ("rule", "matmuls")
        },
        ratio_of_the_plain_rule=ratio(seconds["plain rule"], seconds["plain matmuls"]).value,
    )


def random_inputs(time: int) -> tuple[Tensor, Tensor, Tensor, Gates, MemoryState]:
    """q, k, v, gates and a state, with numbers like those from a `NeuralMemory`."""
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, BATCH, HEADS, time, DIM, generator=random)
    theta, eta, alpha = torch.rand(3, BATCH, HEADS, time, generator=random)
    weights = [torch.randn(HEADS, DIM, DIM, generator=random) / DIM**0.5 for _ in range(DEPTH)]
    gates = Gates(theta, 0.7 * eta, alpha / 50).in_shares()
    return (
        F.normalize(q, dim=-1),
        F.normalize(k, dim=-1),
        v,
        gates,
        MemoryState.start(weights, BATCH),
    )
