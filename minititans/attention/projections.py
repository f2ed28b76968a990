"""What the two kinds of attention share: projections, and a state of keys and values."""

from einops import rearrange
from torch import Tensor, nn

from minititans.arguments import check_heads
from minititans.state import State
from minititans.tensors import check_kept, check_sequence


class Projections(nn.Module):
    """Queries, keys and values from a sequence (1), and back to one."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        check_heads(dim, heads)
        if dim // heads % 2:
            raise ValueError(
                f"dim: got {dim}, expected heads, {heads}, times an even number: "
                "rotary positions rotate channels in pairs"
            )
        self.dim, self.heads = dim, heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[batch, time, dim]` to three tensors `[batch, heads, time, dim_head]`."""
        return rearrange(self.to_qkv(x), "b t (qkv h d) -> qkv b h t d", qkv=3, h=self.heads)

    def check_input(self, x: Tensor, name: str = "x", axes: str = "batch time dim") -> None:
        check_sequence(x, self.dim, self.to_qkv.weight, name, axes)

    def join(self, y: Tensor) -> Tensor:
        return self.to_out(rearrange(y, "b h t d -> b t (h d)"))


class KeysAndValues(State):
    """Keys and values of what can still be seen: `[batch, heads, tokens, dim_head]`."""

    keys: Tensor

    @property
    def tokens(self) -> int:
        four_axes = isinstance(self.keys, Tensor) and self.keys.dim() == 4
        return self.keys.shape[2] if four_axes else 0

    def check(self, k: Tensor) -> None:
        """Every tensor holds the same number of tokens and can be joined to k, a new key."""
        for name, tensor in vars(self).items():
            if name != "position":
                check_kept(name, tensor, (*k.shape[:2], self.tokens, k.shape[3]), k)
