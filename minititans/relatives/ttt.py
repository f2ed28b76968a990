"""TTT (Sun et al. 2024): not a linear rule, but the memory of Titans with two gates shut.

Its inner model answers `x + LayerNorm(f(x))` and takes a gradient step on `½‖answer(k) − v‖²`
at the weights with which a mini-batch began, without momentum (eta = 0) and without forgetting
(alpha = 0). `f` is a matrix in TTT-linear and an MLP of two layers in TTT-MLP.

What we leave out: the learned scale and shift of the inner LayerNorm, and biases. The MLP has
SiLU where theirs has GELU.
"""

from minititans.memory import NeuralMemory

SHUT = {"momentum": False, "forgetting": False, "residual_norm": True, "clip": None}


def ttt_linear(dim: int, heads: int = 4, chunk_size: int = 16, conv: int = 4) -> NeuralMemory:
    """TTT-linear; chunk_size is its mini-batch, 16 in the paper.

    >>> import torch
    >>> y, state = ttt_linear(dim=32, heads=2)(torch.randn(1, 5, 32))
    """
    return NeuralMemory(dim, heads, depth=1, chunk_size=chunk_size, conv=conv, **SHUT)


def ttt_mlp(
    dim: int, heads: int = 4, chunk_size: int = 16, conv: int = 4, expansion: int = 1
) -> NeuralMemory:
    """TTT-MLP. Its paper has `expansion=4`; 1 has as many parameters as the other layers.

    >>> import torch
    >>> y, state = ttt_mlp(dim=32, heads=2)(torch.randn(1, 5, 32))
    """
    return NeuralMemory(dim, heads, 2, expansion, chunk_size=chunk_size, conv=conv, **SHUT)
