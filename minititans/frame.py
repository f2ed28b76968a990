"""What lies around a memory's rule in a layer, the same for Titans and for its relatives.

Before the rule: projections to queries, keys and values, and a short causal convolution after
each. After it: a norm and a gate before the output projection (section 4.4).
"""

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from minititans.arguments import check, check_heads
from minititans.convolution import CausalConv


class Frame(nn.Module):
    """dim: of a token's vector; heads: each has its own slice of it; conv: width, 0 for none.

    A subclass makes its own parameters and then calls `add_output`: in the order of the data, so
    that a seed always gives the same layer.
    """

    def __init__(self, dim: int, heads: int, conv: int):
        super().__init__()
        check_heads(dim, heads)
        check(conv=conv)
        self.dim, self.heads = dim, heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.conv = CausalConv(3 * dim, conv) if conv else None

    def add_output(self) -> None:
        self.out_norm = nn.RMSNorm(self.dim // self.heads)
        self.out_gate = nn.Linear(self.dim, self.dim, bias=False)
        self.to_out = nn.Linear(self.dim, self.dim, bias=False)

    @property
    def conv_width(self) -> int:
        return 0 if self.conv is None else len(self.conv.taps)

    def convolve(self, qkv: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What `to_qkv` gave, after the convolution, `[batch, time, 3 dim]`.

        kept: the convolution's last inputs from the call before; what to keep now comes second.
        """
        return (qkv, None) if self.conv is None else self.conv(qkv, kept)

    def in_heads(self, qkv: Tensor) -> list[Tensor]:
        """q, k and v of every head, each `[batch, heads, time, dim_head]`."""
        return [rearrange(x, "b t (h d) -> b h t d", h=self.heads) for x in qkv.chunk(3, -1)]

    def answer(self, x: Tensor, y: Tensor) -> Tensor:
        """From the heads' readings, `[batch, heads, time, dim_head]`, to the layer's output."""
        y = rearrange(self.out_norm(y.to(x.dtype)), "b h t d -> b t (h d)")
        return self.to_out(y * F.silu(self.out_gate(x)))
