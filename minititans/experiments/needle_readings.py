"""Store what needle models answer in long haystacks, so that a widget can show any two of them.

    results/needle/fading/NAME.safetensors    a `Fading` from `fade_everywhere`

`python -m minititans.experiments.needle_readings` asks every stored needle model that has no
reading yet, or has changed since; with names, only those. A model takes about ten seconds, the
Transformer minutes.
"""

import argparse
import hashlib
from dataclasses import fields
from pathlib import Path

import torch

from minititans.experiments import models, needle_models
from minititans.experiments.needle_fading import Fading, fade_everywhere
from minititans.tensor_files import open_tensors, save_tensors

FORMAT = "minititans.Fading"
PREFIX = needle_models.name_of("")
AGAIN = "python -m minititans.experiments.needle_readings"


def readings_folder() -> Path:
    """`results/needle/fading`, beside the stored models."""
    return models.models_folder().parent / "needle" / "fading"


def known() -> list[str]:
    """The variants of all stored models that were trained on passkeys."""
    stored = [name.removeprefix(PREFIX) for name in models.names() if name.startswith(PREFIX)]
    return [name for name in stored if not name.startswith(("n-", "w-"))]  # numbers and words


def load_all(folder: str | Path | None = None) -> dict[str, Fading]:
    """The readings of all stored models that have one, by variant."""
    folder = readings_folder() if folder is None else Path(folder)
    return {name: load(name, folder) for name in known() if file_of(name, folder).is_file()}


def load(name: str, folder: str | Path | None = None) -> Fading:
    """What the stored model of a variant answered."""
    folder = readings_folder() if folder is None else Path(folder)
    with open_tensors(
        file_of(name, folder), "a stored reading", FORMAT, advice=f"Make it again: {AGAIN} {name}"
    ) as (file, header):
        if header["model"] != fingerprint(name):
            raise ValueError("the model has changed since")
        parts = {each.name: file.get_tensor(each.name) for each in fields(Fading)}
    return Fading(**parts | {"said": parts["said"].float()})


def store(name: str, fading: Fading, folder: str | Path | None = None) -> None:
    """Keep what the stored model of a variant answered; half precision is enough to draw it."""
    folder = readings_folder() if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {each.name: getattr(fading, each.name) for each in fields(Fading)}
    parts["said"] = parts["said"].half()
    save_tensors(file_of(name, folder), parts, {"format": FORMAT, "model": fingerprint(name)})


def file_of(name: str, folder: Path) -> Path:
    return folder / f"{name}.safetensors"


def fingerprint(name: str) -> str:
    """Of the model's file: a different training gives a different one."""
    file = models.path_of(needle_models.name_of(name), "safetensors", None)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def is_missing(name: str) -> bool:
    try:
        load(name)
    except (OSError, ValueError):
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(prog=AGAIN, description="Ask stored needle models.")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help="default: all that need it")
    given = parser.parse_args()
    for name in given.variants or [name for name in known() if is_missing(name)]:
        print(f"{name}: reading")
        store(name, fade_everywhere(needle_models.load(name)))


if __name__ == "__main__":
    torch.set_num_threads(1)  # these models are small: a second thread would only be in the way
    main()
