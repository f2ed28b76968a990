"""Depth against the length of a sequence and the dimension of a key: too slow for a notebook.

`minititans experiment depth` meta-trains memories of depth 1 to 4 for each setting of `GRID` and
keeps each in a file of its own, so that a run that was stopped continues where it was.
"""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm.auto import tqdm

from minititans.experiments.depth import (
    DepthConfig,
    best_matrix_error,
    learning_curve,
    meta_train,
)
from minititans.experiments.storing import as_json, check_config, from_json, markdown, read, store
from minititans.tasks.maps import BENT, FOLDED, STRAIGHT, Maps

DEPTHS = (1, 2, 3, 4)
LENGTHS = (32, 64, 128, 256, 512)
SLOPES = {"straight": STRAIGHT, "bent": BENT, "folded": FOLDED}
THOROUGH = {"steps": 300, "lr": 0.03}  # three times the steps of the notebook
GRID = (
    *(DepthConfig(pairs=pairs, **THOROUGH) for pairs in LENGTHS),
    *(DepthConfig(maps=Maps(dim, 2 * dim), width=4 * dim, **THOROUGH) for dim in (8, 16)),
)


@dataclass(frozen=True)
class Result:
    """One depth in one setting.

    errors:  of the predictions, by the map's name, one number per seed: the mean over a sequence
    matrix:  the error of the best possible matrix, like `errors`
    seconds: of processor time, for meta-training, all seeds together
    """

    dim: int
    pairs: int
    depth: int
    errors: dict[str, list[float]]
    matrix: dict[str, list[float]]
    seconds: float


def run(
    grid: Iterable[DepthConfig] | None = None,
    depths: Iterable[int] | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> list[Result]:
    """Every depth in every setting, except those that `folder` already has.

    grid, depths: `GRID` and `DEPTHS` if None.
    """
    jobs = [(config, depth) for config in grid or GRID for depth in depths or DEPTHS]
    results = []
    for config, depth in (bar := tqdm(jobs, "depth", disable=not progress)):
        bar.set_postfix(dim=config.maps.dim, pairs=config.pairs, depth=depth)
        file = None if folder is None else Path(folder) / file_name(config, depth)
        if file is not None and file.exists():
            results.append(load(file, config))
            continue
        results.append(run_one(config, depth))
        if file is not None:
            store(file, asdict(results[-1]), config)
    return results


def run_one(config: DepthConfig, depth: int) -> Result:
    """Meta-train one depth and test it on new maps of each kind."""
    began = time.process_time()
    learner = meta_train(config, depth)
    seconds = time.process_time() - began
    errors, matrix = {}, {}
    for name, slope in SLOPES.items():
        curve = learning_curve(learner, slope, config.pairs)  # [seeds, pairs]
        errors[name] = [round(error, 4) for error in curve.mean(1).tolist()]
        matrix[name] = [round(error, 4) for error in best_matrix_error(config, slope).tolist()]
    return Result(config.maps.dim, config.pairs, depth, errors, matrix, round(seconds, 1))


def file_name(config: DepthConfig, depth: int) -> str:
    return f"dim{config.maps.dim}-pairs{config.pairs}-depth{depth}.json"


def load(file: str | Path, config: DepthConfig | None = None) -> Result:
    """A result that `run` kept; one with a configuration other than `config` is refused."""
    stored = read(file)
    if config is not None:
        check_config(file, stored["config"], as_json(config))
    return from_json(Result, stored)


def load_all(folder: str | Path) -> list[Result]:
    """Every result in a folder, by dimension, length and depth."""
    results = [load(file) for file in Path(folder).glob("dim*-pairs*-depth*.json")]
    if not results:
        raise FileNotFoundError(
            f"folder: {str(folder)!r} has no results of the depth experiment; expected the "
            "repository's results/depth, or run: minititans experiment depth --out FOLDER"
        )
    return sorted(results, key=lambda r: (r.dim, r.pairs, r.depth))


def table(results: list[Result]) -> str:
    """The mean of each error over the seeds, one row per setting and depth, as Markdown.

    >>> print(table([Result(4, 128, 2, {"bent": [0.1, 0.3]}, {"bent": [0.2, 0.2]}, 1.0)]))
    | dim | pairs | depth | bent | seconds |
    | --- | --- | --- | --- | --- |
    | 4 | 128 | 2 | 0.200 | 1 |
    """
    names = list(results[0].errors) if results else []
    rows = []
    for r in results:
        means = [f"{sum(errors) / len(errors):.3f}" for errors in r.errors.values()]
        rows.append([r.dim, r.pairs, r.depth, *means, f"{r.seconds:.0f}"])
    return markdown(["dim", "pairs", "depth", *names, "seconds"], rows)
