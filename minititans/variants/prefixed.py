"""Attention alone, with persistent tokens before the sequence: Attn(p || x), (19) and (2)."""

from torch import Tensor, nn

from minititans.attention import WindowAttention, WindowState
from minititans.variants.persistent import Persistent


class PrefixedAttention(nn.Module):
    """A Transformer's attention, or a sliding window's, in which every token also sees p."""

    def __init__(self, dim: int, heads: int, window: int | None, persistent: int = 4):
        super().__init__()
        self.persistent = Persistent(persistent, dim)
        self.attention = WindowAttention(dim, heads, window)

    def forward(self, x: Tensor, state: WindowState | None = None) -> tuple[Tensor, WindowState]:
        return self.attention(x, state, prefix=self.persistent.tokens)
