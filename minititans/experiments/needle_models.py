"""Store a trained model of the needle experiment, so that a notebook can use it at once.

    minititans experiment needle --variants lmm --seeds 10
    python -m minititans.experiments.needle_models lmm

The experiment keeps the mean of every 50 losses. The first losses, which a test compares to the
last digit, are found by running the beginning of its training again.
"""

import argparse
from itertools import islice
from pathlib import Path

from minititans.experiments import models, results
from minititans.experiments.needle import NeedleConfig, model_file, result_file
from minititans.experiments.needle_training import each_loss, new_model
from minititans.experiments.storing import made_with
from minititans.model import TitansLM

SEED = 10  # of the models that are stored


def name_of(variant: str, kind: str = "pk") -> str:
    """What a stored model is called.

    >>> name_of("lmm"), name_of("lmm", "w")
    ('needle-lmm', 'needle-w-lmm')
    """
    return f"needle-{variant}" if kind == "pk" else f"needle-{kind}-{variant}"


def load(variant: str, kind: str = "pk") -> TitansLM:
    """A stored model of the needle experiment, ready to use."""
    return models.load(name_of(variant, kind))


def command_of(variant: str, seed: int, kind: str = "pk") -> str:
    of_kind = "" if kind == "pk" else f" --kind {kind}"
    return f"minititans experiment needle{of_kind} --variants {variant} --seeds {seed}"


def first_losses(config: NeedleConfig, variant: str, seed: int, count: int) -> list[float]:
    """The first losses in the training of a model."""
    model = new_model(config, variant, seed)
    return list(islice(each_loss(config, model, variant, seed), count))


def store(
    variant: str,
    trained: str | Path,
    found: str | Path,
    config: NeedleConfig | None = None,
    seed: int = SEED,
    folder: str | Path | None = None,
) -> models.Record:
    """Store one model of the experiment, from its folders of trained models and of results."""
    config = NeedleConfig() if config is None else config
    results.check_folder(Path(found), config)
    result = results.load(result_file(found, variant, seed))
    model = TitansLM.load(model_file(trained, variant, seed))
    about = models.Record(
        command=command_of(variant, seed, config.kind),
        seed=seed,
        parameters=result.parameters,
        first_losses=first_losses(config, variant, seed, models.FIRST),
        losses=[round(loss, 4) for loss in result.losses],
        scores={f"found at {each.length}": each.accuracy for each in result.readings},
        **made_with(),
    )
    models.keep(name_of(variant, config.kind), model, about, folder)
    return about


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m minititans.experiments.needle_models")
    parser.add_argument("variants", nargs="+", metavar="VARIANT")
    parser.add_argument("--kind", default="pk")
    parser.add_argument("--trained", type=Path, help="default: runs/needle/KIND")
    parser.add_argument("--results", type=Path, help="default: results/needle/KIND")
    given = parser.parse_args()
    trained = given.trained or Path("runs/needle") / given.kind
    found = given.results or Path("results/needle") / given.kind
    for variant in given.variants:
        print(store(variant, trained, found, NeedleConfig(kind=given.kind)).command)


if __name__ == "__main__":
    main()
