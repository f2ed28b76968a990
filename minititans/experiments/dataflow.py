"""Inside the four variants while they read a sentence: what each part gives at every word.

The layers are not trained. To make what their memory recalls readable, three things in it are set
by hand: the key is the word before, the value is the word itself, and queries are made like
keys. Such a memory stores what came after each word: asked "red", it answers with what followed
"red". All four variants have the same memory and the same persistent tokens.

`follow` goes through a layer part by part, as its equations say. What comes out at the end is what
the layer itself answers, as a test checks.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minititans.memory import MemoryState, NeuralMemory
from minititans.memory.network import bounded, unit
from minititans.memory.neural_memory import LONGEST_VALUE
from minititans.variants import LMM, MAC, MAG, MAL

SENTENCE = (
    "red", "fox", "and", "grey", "owl", "met", "at", "night",
    "the", "red", "fox", "ran", "and", "grey", "owl", "flew",
)  # fmt: skip
NAMES = ("MAC", "MAG", "MAL", "LMM")
SPAN = 4  # the number of words in a segment and in a window
PERSISTENT, DIM = 2, 96


@dataclass(frozen=True)
class Flow:
    """What every part of a layer gave at every word.

    parts:    the vectors on the arrows, by their names in the paper's equations, `[time, dim]`
    recalled: what the memory's answers are made of, by the same names, `[time, vocabulary]`: how
              much of the value of each word is in them
    surprise: the size of the surprise that the memory writes at the word, `[time]`
    attended: attention's weights, 0 where it may not look, `[time, slots]`; the slots are the
              persistent tokens, in MAC what was recalled for each word, and the words. None
              without attention
    """

    name: str
    words: tuple[str, ...]
    vocabulary: tuple[str, ...]
    parts: dict[str, Tensor]
    recalled: dict[str, Tensor]
    surprise: Tensor
    attended: Tensor | None = None


def sentence_vectors(words: tuple[str, ...], dim: int = DIM, seed: int = 0) -> Tensor:
    """A random vector for every different word: `[1, time, dim]`, in float64."""
    rng = torch.Generator().manual_seed(seed)
    vocabulary = tuple(dict.fromkeys(words))
    vectors = torch.randn(len(vocabulary), dim, generator=rng, dtype=torch.float64)
    of = dict(zip(vocabulary, F.normalize(vectors, dim=-1) * dim**0.5))
    return torch.stack([of[word] for word in words])[None]


def readable_memory(dim: int = DIM) -> NeuralMemory:
    """A matrix memory with one head that stores each word under the word before it."""
    memory = NeuralMemory(
        dim, heads=1, depth=1, chunk_size=SPAN, conv=2, theta_start=0.9, eta_start=0.05
    )
    keys = slice(dim, 2 * dim)
    with torch.no_grad():
        memory.to_qkv.weight[:dim] = memory.to_qkv.weight[keys]  # queries are made like keys
        before, now = memory.conv.taps  # [3 · dim] each: of queries, keys, values
        before.fill_(0.0)
        now.fill_(1.0)
        before[keys], now[keys] = 1.0, 0.0  # the key is the word before
    return memory


def variants(dim: int = DIM, seed: int = 0) -> dict[str, nn.Module]:
    """The four by their names, around equal memories and equal persistent tokens, in float64."""
    sizes = {
        MAC: {"heads": 1, "segment": SPAN},
        MAG: {"heads": 1, "window": SPAN},
        MAL: {"heads": 1, "window": SPAN},
        LMM: {},
    }
    made = {}
    for variant, size in sizes.items():
        torch.manual_seed(seed)  # memory and persistent tokens are drawn first, so they are equal
        layer = variant(dim, memory=readable_memory(dim), persistent=PERSISTENT, **size)
        made[variant.__name__] = layer.double()
    return made


@lru_cache(maxsize=1)
def flows() -> dict[str, Flow]:
    """All four over the same sentence, computed once."""
    return {name: follow(layer, SENTENCE) for name, layer in variants().items()}


@torch.no_grad()
def follow(layer: nn.Module, words: tuple[str, ...] = SENTENCE, seed: int = 0) -> Flow:
    """Read the sentence with one of `variants`, and keep the output of every part."""
    name, memory = type(layer).__name__, layer.memory
    x = sentence_vectors(words, memory.dim, seed)
    vocabulary = tuple(dict.fromkeys(words))
    firsts = x[0, [words.index(word) for word in vocabulary]]
    basis = _values(memory, torch.cat([firsts, layer.persistent.tokens]))
    notes = _Notes(memory)
    parts, attended = {"MAC": _mac, "MAG": _mag, "MAL": _mal, "LMM": _lmm}[name](layer, x, notes)
    recalled = {
        part: _made_of(torch.stack(answers), basis)[:, : len(vocabulary)]
        for part, answers in notes.answers.items()
    }
    parts = {part: vectors[0] for part, vectors in parts.items()}
    surprise = torch.tensor(notes.surprise, dtype=x.dtype)
    return Flow(name, words, vocabulary, parts, recalled, surprise, attended)


def _lmm(layer: LMM, x: Tensor, notes: "_Notes") -> tuple[dict[str, Tensor], None]:
    _, M = layer.persistent.read_into(layer.memory, 1)
    y, _ = notes.write(x, M, "y")
    return {"x": x, "y": y, "o": y}, None


def _mal(layer: MAL, x: Tensor, notes: "_Notes") -> tuple[dict[str, Tensor], Tensor]:
    p = layer.persistent.tokens[None]
    y_p, M = layer.persistent.read_into(layer.memory, 1)
    y, _ = notes.write(x, M, "y")  # (30)
    seen = layer.norm(torch.cat([p + y_p, x + y], 1))
    a, _, weights = layer.attention(seen, weights=True)  # (31)
    a, weights = a[:, PERSISTENT:], weights[0].mean(0)[PERSISTENT:]
    return {"x": x, "y": y, "attention": a, "o": y + a}, weights


def _mag(layer: MAG, x: Tensor, notes: "_Notes") -> tuple[dict[str, Tensor], Tensor]:
    _, M = layer.persistent.read_into(layer.memory, 1)
    prefix = layer.persistent.tokens
    y, _, weights = layer.attention(x, prefix=prefix, weights=True)  # (27)
    m, _ = notes.write(x, M, "M(x)")
    return {"x": x, "y": y, "M(x)": m, **_gated(layer, y, m)}, weights[0].mean(0)  # (28)


def _mac(layer: MAC, x: Tensor, notes: "_Notes") -> tuple[dict[str, Tensor], Tensor]:
    time, p, M = x.shape[1], layer.persistent.tokens, layer.memory.start(1)
    attended, found = x.new_zeros(time, PERSISTENT + 2 * time), []
    for first in range(0, time, SPAN):
        S = x[:, first : first + SPAN]
        notes.ask(S, M, "h")
        h = layer.memory.read(S, M.weights)  # (21)
        a, _, weights = layer.attention(p, h, S, weights=True)  # (22), (23)
        y, last = S + a, first + S.shape[1]
        p_weights, h_weights, S_weights = (
            weights[0].mean(0).tensor_split([PERSISTENT, PERSISTENT + last - first], 1)
        )
        attended[first:last, :PERSISTENT] = p_weights
        attended[first:last, PERSISTENT + first : PERSISTENT + last] = h_weights
        attended[first:last, PERSISTENT + time + first : PERSISTENT + time + last] = S_weights
        m, M = notes.write(y, M, "M(y)")  # (24)
        found.append({"x": S, "h": h, "y": y, "M(y)": m, **_gated(layer, y, m)})  # (25)
    return {part: torch.cat([each[part] for each in found], 1) for part in found[0]}, attended


def _gated(layer: MAC | MAG, y: Tensor, m: Tensor) -> dict[str, Tensor]:
    return {"gate": 2 * torch.sigmoid(layer.combine.norm_y(y)), "o": layer.combine(y, m)}


class _Notes:
    """What one memory answered and wrote, in its own words: before norm, gate and projection."""

    def __init__(self, memory: NeuralMemory):
        self.memory, self.answers, self.surprise = memory, {}, []

    def ask(self, x: Tensor, M: MemoryState, part: str) -> None:
        """Ask without writing, and note the bare answer to each word."""
        W_Q = self.memory.to_qkv.weight[: self.memory.dim]
        queries = unit(F.silu(F.linear(x[0], W_Q)))
        self.answers.setdefault(part, []).extend(queries @ M.weights[0][0, 0].T)

    def write(self, x: Tensor, M: MemoryState, part: str) -> tuple[Tensor, MemoryState]:
        """Read x word by word, writing: the layer's answers, and the memory after the last."""
        answers = []
        for word in x.split(1, 1):
            m, M, trace = self.memory(word, M, trace=True)
            self.ask(word, M, part)
            self.surprise.append(trace.surprise.item())
            answers.append(m)
        return torch.cat(answers, 1), M


def _values(memory: NeuralMemory, x: Tensor) -> Tensor:
    """The values under which tokens `[tokens, dim]` are stored."""
    W_V = memory.to_qkv.weight[2 * memory.dim :]
    return bounded(F.silu(F.linear(x, W_V)), LONGEST_VALUE)


def _made_of(answers: Tensor, basis: Tensor) -> Tensor:
    """How much of each basis vector is in each answer: the least-squares shares, `[time, basis]`.

    >>> _made_of(torch.tensor([[2.0, 3.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]))
    tensor([[-1.,  3.]])
    """
    return torch.linalg.lstsq(basis.T, answers.T).solution.T
