"""Models that were trained once and stored, so that a notebook can use them at once.

    results/models/NAME.safetensors    the model, as `TitansLM.save` writes it
    results/models/NAME.json           how it was made and what it scored: a `Record`

`python -m minititans.experiments.models RUN NAME` stores a run of `minititans train`,
`python -m minititans.experiments.needle_models VARIANT` a model of the needle experiment.
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import mean
from typing import Any

from minititans.experiments.storing import made_with
from minititans.files import read_json, write_json
from minititans.model import TitansLM
from minititans.training import log
from minititans.training.command import command_of
from minititans.training.config import TrainConfig
from minititans.training.folder import LOG, MODEL, RESULT, stored_config
from minititans.training.results import read_result

FIRST = 20  # losses that are kept to the last digit; a test runs the command again that far
PART = 50  # of all others, the mean of this many steps


@dataclass(frozen=True)
class Record:
    """How a stored model was made.

    command:      what to type to make it again
    seed:         the one that the command used
    parameters:   of the model
    first_losses: of the first 20 steps, exactly
    losses:       the mean of every 50 steps
    scores:       what it scored, by name
    versions, threads: of what made it
    """

    command: str
    seed: int
    parameters: int
    first_losses: list[float]
    losses: list[float]
    scores: dict[str, Any]
    versions: dict[str, str]
    threads: int


def load(name: str, folder: str | Path | None = None) -> TitansLM:
    """A stored model by its name, ready to use."""
    return TitansLM.load(path_of(name, "safetensors", folder)).eval()


def record(name: str, folder: str | Path | None = None) -> Record:
    """How a stored model was made, and what it scored."""
    path = path_of(name, "json", folder)
    advice = "Use another copy, or make the model again."
    found, wanted = read_json(path, advice), {each.name for each in fields(Record)}
    if set(found) != wanted:
        different = ", ".join(sorted(set(found) ^ wanted))
        raise ValueError(f"{path} does not describe a stored model ({different}). {advice}")
    return Record(**found)


def store(
    name: str, model: TitansLM, command: str, seed: int, losses: Sequence[float],
    scores: dict[str, Any], folder: str | Path | None = None,
) -> Record:  # fmt: skip
    """Store a model under a name; losses: those of every step, from the first on."""
    about = Record(
        command=command,
        seed=seed,
        parameters=sum(p.numel() for p in model.parameters()),
        first_losses=list(losses[:FIRST]),
        losses=[round(mean(losses[i : i + PART]), 4) for i in range(0, len(losses), PART)],
        scores=scores,
        **made_with(),
    )
    keep(name, model, about, folder)
    return about


def keep(name: str, model: TitansLM, about: Record, folder: str | Path | None = None) -> None:
    """Write a model and its record."""
    folder = models_folder() if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", asdict(about))


def store_run(run: str | Path, name: str, folder: str | Path | None = None) -> Record:
    """Store the model of a finished run of `minititans train`."""
    run = Path(run)
    config = stored_config(run)
    if not (run / RESULT).exists():
        raise ValueError(f"run: {run} has not finished; train it to the end first")
    losses = [each["loss"] for each in log.read(run / LOG) if "loss" in each]
    scores = {
        key: value for key, value in read_result(run / RESULT).items() if isinstance(value, float)
    }
    scores.pop("seconds")  # of a machine that may have been busy
    # Where it was kept and what it showed on the way do not matter.
    plain = replace(
        config, runs=TrainConfig.runs, name=None, quiet=False, eval_every=TrainConfig.eval_every
    )
    command = shlex.join(["minititans", "train", *command_of(plain)])
    return store(name, TitansLM.load(run / MODEL), command, config.seed, losses, scores, folder)


def names(folder: str | Path | None = None) -> list[str]:
    """The names of all stored models."""
    folder = models_folder() if folder is None else Path(folder)
    return sorted(path.stem for path in folder.glob("*.safetensors"))


def models_folder() -> Path:
    """`results/models` in the nearest folder from here upwards that has it, or the repository's."""
    here, package = Path.cwd(), Path(__file__).resolve().parents[2]
    for each in (here, *here.parents):
        if (each / "results" / "models").is_dir():
            return each / "results" / "models"
    return package / "results" / "models"


def path_of(name: str, kind: str, folder: str | Path | None) -> Path:
    folder = models_folder() if folder is None else Path(folder)
    path = folder / f"{name}.{kind}"
    if not path.is_file():
        known = ", ".join(names(folder)) or "none"
        raise FileNotFoundError(f"name: got {name!r}, expected a model in {folder}: {known}")
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m minititans.experiments.models RUN-FOLDER NAME")
    print(store_run(*sys.argv[1:]).command)
