"""A relative as a layer, built like `NeuralMemory`, so that like is compared with like.

Only what lies between the convolution and the norm differs from relative to relative: a
`projection` that turns q, k, v and x into the rule's `Tokens`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from minititans.arguments import check
from minititans.frame import Frame
from minititans.precision import full_precision
from minititans.relatives.chunked import chunked
from minititans.relatives.gates import at_least_float32
from minititans.state import State
from minititans.tensors import POSITION, check_kept, check_sequence


@dataclass(frozen=True)
class RelativeState(State):
    """A relative after the tokens read so far.

    S:        the memory, `[batch, heads, dim_head, dim_head]`
    position: how many tokens have been read
    conv:     the last inputs of the convolution, `[batch, conv - 1, channels]`
    """

    S: Tensor
    position: int
    conv: Tensor | None = None


class Relative(Frame):
    """A layer that reads a sequence with a linear rule.

    dim:        size of a token's vector, in and out
    heads:      independent memories, each for its own slice of `dim`
    chunk_size: tokens that are read at once; it changes the speed, not the result
    conv:       width of the causal convolution after each projection; 0 for none
    projection: `(dim, heads)` to a module `(x, q, k, v, position) -> Tokens`

    >>> import torch
    >>> from minititans.relatives import RELATIVES
    >>> layer = RELATIVES["gated_deltanet"](dim=32, heads=2)
    >>> y, state = layer(torch.randn(3, 10, 32))
    >>> more, state = layer(torch.randn(3, 5, 32), state)  # carries on
    >>> y.shape, more.shape, state.position
    (torch.Size([3, 10, 32]), torch.Size([3, 5, 32]), 15)
    """

    def __init__(
        self,
        dim: int,
        heads: int = 4,
        chunk_size: int = 16,
        conv: int = 4,
        *,
        projection: Callable[[int, int], nn.Module],
    ):
        super().__init__(dim, heads, conv)
        check(chunk_size=chunk_size)
        if not callable(projection):
            raise TypeError(
                f"projection: got {type(projection).__name__}, expected a module's class, such as "
                "those in minititans.relatives.projections"
            )
        self.chunk_size = chunk_size
        self.projection = projection(dim, heads)
        self.add_output()

    def forward(
        self, x: Tensor, state: RelativeState | None = None
    ) -> tuple[Tensor, RelativeState]:
        """Read x, `[batch, time, dim]`, continuing from `state`; return y, of the same shape.

        Any split of a sequence into calls gives the same y.
        """
        check_sequence(x, self.dim, self.to_qkv.weight)
        RelativeState.expect(state)
        qkv = self.to_qkv(x)
        S, position, conv = None, 0, None
        if state is not None:
            self._check(state, qkv)
            S, position, conv = state.S, state.position, state.conv
        qkv, conv = self.convolve(qkv, conv)
        tokens = self.projection(x, *self.in_heads(at_least_float32(qkv)), position)
        with full_precision(x.device):
            y, S = chunked(tokens, S, self.chunk_size)
        return self.answer(x, y), RelativeState(S, position + x.shape[1], conv)

    def _check(self, state: RelativeState, qkv: Tensor) -> None:
        """The state was made by a layer of this configuration, for this batch and device."""
        POSITION.check("state.position", state.position)
        dim_head = self.dim // self.heads
        like = at_least_float32(qkv[:0])
        check_kept("S", state.S, (len(qkv), self.heads, dim_head, dim_head), like, exact=True)
        width, conv = self.conv_width, state.conv
        found = conv.shape[1] + 1 if isinstance(conv, Tensor) and conv.ndim == 3 else 0
        if width != found:
            raise ValueError(f"state: made by a layer with conv={found}, expected conv={width}")
        if width:
            check_kept("conv", conv, (len(qkv), width - 1, qkv.shape[-1]), qkv)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, heads={self.heads}, chunk_size={self.chunk_size}"
