"""A block of the model, and which layer a variant's name stands for."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from minititans.attention import WindowAttention
from minititans.config import ATTENTIONS, MEMORY, VARIANTS, TitansConfig
from minititans.memory import NeuralMemory
from minititans.relatives import RELATIVES
from minititans.state import State
from minititans.variants import LMM, MAC, MAG, MAL, PrefixedAttention


class Block(nn.Module):
    """A mixer, which lets tokens see each other, and a SwiGLU, which does not; both residual."""

    def __init__(self, config: TitansConfig, layer: int):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(config.dim), make_mixer(config, layer)
        self.ff_norm, self.ff = nn.RMSNorm(config.dim), SwiGLU(config.dim, config.ff_size)

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        y, state = self.mixer(self.norm(x), state)
        x = x + y
        return x + self.ff(self.ff_norm(x)), state


class SwiGLU(nn.Module):
    """`(silu(x A) ⊙ x B) C`"""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


def make_mixer(config: TitansConfig, layer: int) -> nn.Module:
    """The layer that `config.variant` names: `y, state = mixer(x, state)`."""
    names = config.variant.split("+")
    name = names[layer % len(names)]
    c = config
    if name in VARIANTS:
        memory = NeuralMemory(
            c.dim, c.heads, backend=c.backend, **{name: getattr(c, name) for name in MEMORY}
        )
        makers: dict[str, Callable[[], nn.Module]] = {
            "mac": lambda: MAC(c.dim, c.heads, memory, c.segment, c.persistent, c.literal),
            "mag": lambda: MAG(c.dim, c.heads, memory, c.window, c.persistent),
            "mal": lambda: MAL(c.dim, c.heads, memory, c.window, c.persistent),
            "lmm": lambda: LMM(c.dim, memory, c.persistent),
        }
        return makers[name]()
    if name in ATTENTIONS:
        window = c.window if name.endswith("swa") else None
        if name.startswith("persistent_"):
            return PrefixedAttention(c.dim, c.heads, window, c.persistent)
        return WindowAttention(c.dim, c.heads, window)
    if name in RELATIVES:
        return RELATIVES[name](c.dim, heads=c.heads, chunk_size=c.chunk_size, conv=c.conv)
    known = ", ".join(map(repr, (*VARIANTS, *ATTENTIONS, *RELATIVES)))
    raise ValueError(f"variant: got {config.variant!r}, expected one of {known}")
