"""Does a memory still learn after a long text?

An untrained `NeuralMemory` reads random tokens, up to millions of them. On the way it is given a
probe, 64 tokens it has never seen, eight times in a row. The share of its loss on the probe that
these readings remove says how alive the memory is: 0 means that it no longer learns anything. What
it learns from the probe is thrown away afterwards.

With plain layers (`residual=False`), forgetting pulls every layer towards zero, and from there no
gradient leads back. Layers that add to a vector of length 1 keep learning.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor
from tqdm.auto import tqdm

from minititans.arguments import choice
from minititans.experiments.storing import from_json, markdown, read, store
from minititans.memory import MemoryState, NeuralMemory

DIM, HEADS = 32, 2
PROBE, READINGS = 64, 8
BLOCK = 4096  # tokens of a call
KINDS = ("random", "repeated", "zeros")
LAYERS = {
    "residual": {},
    # The paper's MLP and its (16), forgetting a thousandth with every token.
    "plain": {"residual": False, "exact": False, "alpha_start": 1e-3},
    # Only the layers differ: both forget a thousandth, and measure surprise as we do.
    "residual-fading": {"alpha_start": 1e-3},
    "plain-fading": {"residual": False, "alpha_start": 1e-3},
}


@dataclass(frozen=True)
class AliveConfig:
    """What is compared; each cell is the mean over the seeds.

    layers:  "residual", our default, or "plain", the paper's; or those two with the same gates and
             an alpha of a thousandth, "residual-fading" and "plain-fading"
    after:   how many tokens have been read before the probe
    kinds:   of text: "random" tokens, one token "repeated", or "zeros"; rows of one batch
    """

    layers: tuple[str, ...] = ("residual", "plain")
    depths: tuple[int, ...] = (1, 2, 3, 4)
    chunk_sizes: tuple[int, ...] = (16, 64)
    after: tuple[int, ...] = (1024, 16_384, 131_072)
    kinds: tuple[str, ...] = ("random",)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self):
        for name, known in (("layers", LAYERS), ("kinds", KINDS)):
            for each in getattr(self, name):
                choice(*known).check(name, each)


@dataclass(frozen=True)
class Alive:
    """One kind of memory, and the share of the probe's loss that it removed at each point."""

    kind: str
    layers: str
    depth: int
    chunk_size: int
    after: tuple[int, ...]
    learned: tuple[float, ...]  # mean over the seeds
    largest: tuple[float, ...]  # weight, over the seeds


def run(config: AliveConfig, progress: bool = True) -> list[Alive]:
    """Every combination of layers, depth and chunk size."""
    cells = [
        (layers, depth, size)
        for layers in config.layers
        for depth in config.depths
        for size in config.chunk_sizes
    ]
    found = []
    for layers, depth, size in tqdm(cells, "memories", disable=not progress, leave=False):
        by_seed = [
            read_and_probe(layers, depth, size, config.after, config.kinds, seed)
            for seed in config.seeds
        ]
        for row, kind in enumerate(config.kinds):
            learned, largest = zip(*(each[row] for each in by_seed))  # [seeds][after] each
            found.append(
                Alive(
                    kind, layers, depth, size, config.after,
                    tuple(round(mean(at), 4) for at in zip(*learned)),
                    tuple(max(at) for at in zip(*largest)),
                )
            )  # fmt: skip
    return found


@torch.no_grad()
def read_and_probe(
    layers: str,
    depth: int,
    chunk_size: int,
    after: Iterable[int],
    kinds: tuple[str, ...],
    seed: int,
) -> list[tuple[list[float], list[float]]]:
    """For each kind of text, how much a probe teaches at each point, and the largest weight."""
    torch.manual_seed(seed)
    memory = NeuralMemory(DIM, HEADS, depth, chunk_size=chunk_size, **LAYERS[layers])
    rng = torch.Generator().manual_seed(seed)
    probe = torch.randn(1, PROBE, DIM, generator=rng).expand(len(kinds), -1, -1)
    state, read, learned, largest = None, 0, [], []
    for tokens in after:
        while read < tokens:
            size = min(BLOCK, tokens - read)
            _, state = memory(torch.cat([text(kind, size, rng) for kind in kinds]), state)
            read += size
        learned.append(learned_share(memory, state, probe).tolist())
        sizes = [w.abs().flatten(1).amax(1) for w in state.weights]  # [kinds] per layer
        largest.append(torch.stack(sizes).amax(0).tolist())
    return list(zip(zip(*learned), zip(*largest)))


def learned_share(memory: NeuralMemory, state: MemoryState, probe: Tensor) -> Tensor:
    """The share of the loss on the probe that reading it `READINGS` times removes: `[batch]`."""
    losses = []
    for _ in range(READINGS + 1):
        _, state, trace = memory(probe, state, trace=True)
        losses.append(trace.loss.mean((1, 2)))  # [batch]
    return 1 - losses[-1] / losses[0]


def text(kind: str, size: int, rng: torch.Generator) -> Tensor:
    """The text to read: `random` tokens, one token `repeated`, or `zeros`."""
    if kind == "random":
        return torch.randn(1, size, DIM, generator=rng)
    if kind == "repeated":
        return torch.linspace(-2, 2, DIM).expand(1, size, DIM)
    return torch.zeros(1, size, DIM)


def table(found: list[Alive]) -> str:
    """As Markdown, in percent of the probe's loss.

    >>> print(table([Alive("random", "plain", 2, 16, (1024, 4096), (0.15, 0.0), (1.0, 1e-9))]))
    | text | layers | depth | chunk | 1,024 | 4,096 | largest weight |
    | --- | --- | --- | --- | --- | --- | --- |
    | random | plain | 2 | 16 | 15.0 | 0.0 | 1e-09 |
    """
    after = [f"{n:,}" for n in found[0].after]
    rows = []
    for each in found:
        shares = [f"{100 * share:.1f}" for share in each.learned]
        cell = [each.kind, each.layers, each.depth, each.chunk_size]
        rows.append([*cell, *shares, f"{each.largest[-1]:.1g}"])
    return markdown(["text", "layers", "depth", "chunk", *after, "largest weight"], rows)


def save(file: Path, config: AliveConfig, found: list[Alive]) -> None:
    store(file, {"memories": [asdict(each) for each in found]}, config)


def load(file: Path) -> list[Alive]:
    return from_json(list[Alive], read(file)["memories"])
