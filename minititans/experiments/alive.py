"""Does a memory still learn after a long text?

An untrained `NeuralMemory` reads random tokens, up to millions of them. On the way it is given a
probe, 64 tokens it has never seen, eight times in a row. How much of its loss on the probe these
readings remove is how much the memory is alive: 0 for one that learns nothing any more. What the
probe teaches is thrown away afterwards.

With plain layers (`residual=False`), forgetting takes every layer towards zero, and from there no
gradient leads back. Layers that add to a vector of length 1 go on learning.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor
from tqdm.auto import tqdm

from minititans.files import write_whole
from minititans.memory import MemoryState, NeuralMemory

DIM, HEADS = 32, 2
PROBE, READINGS = 64, 8
BLOCK = 4096  # tokens of a call
LAYERS = {
    "residual": {},
    # The paper's MLP and its (16), forgetting a thousandth with every token.
    "plain": {"residual": False, "exact": False, "alpha_start": 1e-3},
}


@dataclass(frozen=True)
class AliveConfig:
    """What is compared; each cell is the mean over the seeds.

    layers:  "residual", our default, or "plain", the paper's
    after:   how many tokens have been read when the probe comes
    """

    layers: tuple[str, ...] = ("residual", "plain")
    depths: tuple[int, ...] = (1, 2, 3, 4)
    chunk_sizes: tuple[int, ...] = (16, 64)
    after: tuple[int, ...] = (1024, 16_384, 131_072)
    kind: str = "random"
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Alive:
    """One kind of memory, and the share of the probe's loss it learned away at each point."""

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
            read_and_probe(layers, depth, size, config.after, config.kind, seed)
            for seed in config.seeds
        ]
        learned, largest = zip(*(zip(*each) for each in by_seed))
        found.append(
            Alive(
                layers, depth, size, config.after,
                tuple(round(mean(at), 4) for at in zip(*learned)),
                tuple(max(at) for at in zip(*largest)),
            )
        )  # fmt: skip
    return found


@torch.no_grad()
def read_and_probe(
    layers: str, depth: int, chunk_size: int, after: Iterable[int], kind: str, seed: int
) -> list[tuple[float, float]]:
    """What a probe teaches one memory after so many tokens, and its largest weight then."""
    torch.manual_seed(seed)
    memory = NeuralMemory(DIM, HEADS, depth, chunk_size=chunk_size, **LAYERS[layers])
    rng = torch.Generator().manual_seed(seed)
    probe = torch.randn(1, PROBE, DIM, generator=rng)
    state, read, found = None, 0, []
    for tokens in after:
        while read < tokens:
            size = min(BLOCK, tokens - read)
            _, state = memory(text(kind, size, rng), state)
            read += size
        largest = max(w.abs().max().item() for w in state.weights)
        found.append((learned_share(memory, state, probe), largest))
    return found


def learned_share(memory: NeuralMemory, state: MemoryState, probe: Tensor) -> float:
    """The share of the mean loss on the probe that reading it `READINGS` times removes."""
    losses = []
    for _ in range(READINGS + 1):
        _, state, trace = memory(probe, state, trace=True)
        losses.append(trace.loss.mean().item())
    return 1 - losses[-1] / losses[0]


def text(kind: str, size: int, rng: torch.Generator) -> Tensor:
    """What is read: `random` tokens, one token `repeated`, or `zeros`."""
    if kind == "random":
        return torch.randn(1, size, DIM, generator=rng)
    if kind == "repeated":
        return torch.linspace(-2, 2, DIM).expand(1, size, DIM)
    return torch.zeros(1, size, DIM)


def table(found: list[Alive]) -> str:
    """As Markdown, in percent of the probe's loss.

    >>> print(table([Alive("plain", 2, 16, (1024, 4096), (0.15, 0.0), (1.0, 1e-9))]))
    | layers | depth | chunk | 1,024 | 4,096 | largest weight |
    | --- | --- | --- | --- | --- | --- |
    | plain | 2 | 16 | 15.0 | 0.0 | 1e-09 |
    """
    head = ["layers", "depth", "chunk", *(f"{n:,}" for n in found[0].after), "largest weight"]
    rows = [head, ["---"] * len(head)]
    for each in found:
        shares = [f"{100 * share:.1f}" for share in each.learned]
        rows.append([each.layers, each.depth, each.chunk_size, *shares, f"{each.largest[-1]:.1g}"])
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def save(folder: Path, config: AliveConfig, found: list[Alive]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"config": asdict(config), "memories": [asdict(each) for each in found]}
    with write_whole(folder / f"{config.kind}.json") as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(file: Path) -> list[Alive]:
    memories = json.loads(file.read_text(encoding="utf-8"))["memories"]
    return [
        Alive(**{name: tuple(x) if isinstance(x, list) else x for name, x in each.items()})
        for each in memories
    ]
