"""TTT (Sun et al. 2024): not a linear rule, but the memory of Titans with two gates closed.

Its inner model answers `x + LayerNorm(f(x))` and takes a gradient step on `½‖answer(k) − v‖²`
at the weights a mini-batch started with, without momentum (eta = 0) and without forgetting
(alpha = 0). `f` is a matrix in TTT-linear and an MLP of two layers in TTT-MLP.

What we leave out: the learned scale and shift of the inner LayerNorm, and biases. The MLP has
SiLU where theirs has GELU.
"""

from typing import Any

import torch
from torch import Tensor, nn

from minititans.memory import Gates, MemoryState, NeuralMemory, network
from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunked import over_chunks
from minititans.memory.gates import Before
from minititans.memory.network import errors_below, path

NORM_EPS = 1e-5  # LayerNorm's usual guard against a variance of zero


class TTT(NeuralMemory):
    """The layer around the rule is that of `NeuralMemory`; only the rule differs.

    >>> y, state = TTT(dim=32, heads=2, depth=1)(torch.randn(1, 5, 32))
    """

    def __init__(self, dim: int, heads: int, depth: int, expansion: int = 1, **options):
        shut: dict[str, Any] = {
            "momentum": False,
            "forgetting": False,
            "exact": False,
            "residual": False,
        }
        super().__init__(dim, heads, depth, expansion, backend="chunked", **shut, **options)
        self.rules = {"chunked": ttt}
        for W in self.start_weights:  # not zeros: nothing is learned through the norm of zero
            nn.init.normal_(W, std=W.shape[-1] ** -0.5)

    def recall(self, weights: list[Tensor], q: Tensor) -> Tensor:
        """This rule's answer: `q + norm(f(q))`."""
        return q + normalised(network.read(weights, q, residual=False))[0]


def ttt_linear(dim: int, heads: int = 4, chunk_size: int = 16, conv: int = 4) -> TTT:
    """TTT-linear; chunk_size is its mini-batch, 16 in the paper."""
    return TTT(dim, heads, depth=1, chunk_size=chunk_size, conv=conv)


def ttt_mlp(
    dim: int, heads: int = 4, chunk_size: int = 16, conv: int = 4, expansion: int = 1
) -> TTT:
    """TTT-MLP. Its paper has `expansion=4`; with 1 it is about as large as the other layers."""
    return TTT(dim, heads, 2, expansion, chunk_size=chunk_size, conv=conv)


def ttt(
    q: Tensor, k: Tensor, v: Tensor, gates: Gates, state: MemoryState, chunk_size: int = 16,
    *, exact: bool = False, residual: bool = False, trace: bool = False,
):  # fmt: skip
    """Arguments and results are those of `sequential`; mini-batches, `exact=False`, are TTT's."""
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], k.shape[-1], residual=False)
    steps = [1.0] * len(state.weights)
    y, *rest = over_chunks(
        surprise, q, k, v, gates, state, chunk_size, steps, residual=False, trace=trace
    )
    return q + normalised(y)[0], *rest


def surprise(
    k: Tensor, v: Tensor, before: Before, W: list[Tensor], S: list[Tensor], W_start: list[Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Inputs and errors of all layers, and `v − answer(k)`, as `chunked.surprise` gives them."""
    way = path(W_start, k, residual=False)
    y, inverse_std = normalised(way.inputs[-1] @ W_start[-1].mT)
    error = v - k - y
    # Back through the norm, which has removed the mean and the scale.
    along = (error * y).mean(-1, keepdim=True)
    E = (error - error.mean(-1, keepdim=True) - y * along) * inverse_std
    return way.inputs, [*errors_below(W_start, way, E @ W_start[-1]), E], error


def normalised(y: Tensor) -> tuple[Tensor, Tensor]:
    """LayerNorm without learned scale, and the 1/std that its backward pass needs."""
    variance, mean = torch.var_mean(y, dim=-1, correction=0, keepdim=True)
    inverse_std = (variance + NORM_EPS).rsqrt()
    return (y - mean) * inverse_std, inverse_std
