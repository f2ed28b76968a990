"""What freezing costs: the recall of a trained memory that is read in chunks of 1 to 64 tokens.

A chunk of b tokens can be read at once because surprise is measured at the weights the chunk
started with (16). With `exact=False` that holds for every layer; with `exact=True`, our default,
only for the layers below the last. A matrix memory has none, so it reads the same in chunks of any
size. `run` takes models of the needle experiment, trained in chunks of 16, and lets each of them
read in chunks of every size, both ways.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

from tqdm.auto import tqdm

from minititans.experiments.needle import model_file
from minititans.experiments.storing import from_json, markdown, read, store
from minititans.model import TitansLM
from minititans.tasks.needle import Needle, accuracy


@dataclass(frozen=True)
class ChunkConfig:
    """models: names in the needle experiment; length, samples: of the haystacks."""

    models: tuple[str, ...] = ("lmm-matrix", "lmm", "lmm-frozen")
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    kind: str = "pk"
    length: int = 1024
    samples: int = 128
    seeds: tuple[int, ...] = (10, 11, 12)


@dataclass(frozen=True)
class Recall:
    """One model read one way: the share of needles found with each chunk size, by seed."""

    model: str
    exact: bool
    sizes: tuple[int, ...]
    found: tuple[tuple[float, ...], ...]  # [seeds][sizes]

    @property
    def mean(self) -> list[float]:
        """The mean over the seeds, one number per chunk size."""
        return [mean(at) for at in zip(*self.found)]


def run(config: ChunkConfig, models: str | Path, progress: bool = True) -> list[Recall]:
    """Let every model in the folder `models` read in chunks of every size, exact and frozen."""
    ways = [(name, exact) for name in config.models for exact in (True, False)]
    found = []
    for name, exact in tqdm(ways, "memories", disable=not progress, leave=False):
        by_seed = []
        for seed in config.seeds:
            model = TitansLM.load(model_file(models, name, seed))
            by_seed.append(tuple(recall(model, exact, size, config, seed) for size in config.sizes))
        found.append(Recall(name, exact, config.sizes, tuple(by_seed)))
    return found


def recall(model: TitansLM, exact: bool, size: int, config: ChunkConfig, seed: int) -> float:
    """The share of needles that the same weights find when read in chunks of `size` tokens."""
    reader = TitansLM(replace(model.config, exact=exact, chunk_size=size))
    reader.load_state_dict(model.state_dict())
    return accuracy(reader, Needle(config.kind), config.length, config.samples, seed, batch=64)


def table(found: Iterable[Recall]) -> str:
    """As Markdown, in percent.

    >>> print(table([Recall("lmm", True, (1, 64), ((1.0, 0.5), (1.0, 0.75)))]))
    | model | last layer | 1 | 64 |
    | --- | --- | --- | --- |
    | lmm | exact | 100 | 62 |
    """
    found = list(found)
    rows = []
    for each in found:
        way = "exact" if each.exact else "frozen"
        rows.append([each.model, way, *(f"{100 * share:.0f}" for share in each.mean)])
    return markdown(["model", "last layer", *found[0].sizes], rows)


def save(folder: Path, config: ChunkConfig, found: list[Recall]) -> None:
    store(folder / "chunk.json", {"memories": [asdict(each) for each in found]}, config)


def load(folder: Path) -> list[Recall]:
    return from_json(list[Recall], read(folder / "chunk.json")["memories"])
