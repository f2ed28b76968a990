"""The folder of a run: which files are the run's own, and who may write there.

A folder belongs to a run if its config.json says so. Nothing in any other folder is touched, and in
a run's folder only the files that the run itself writes.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

from minititans.files import left_behind, read_json, write_json
from minititans.training.config import TrainConfig, differences

CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
LOG, CURVE, MODEL, RESULT = "log.jsonl", "loss.png", "model.safetensors", "result.json"
CONFIG = "config.json"
OWN = (RESULT, MODEL, CURVE, LOG, PREVIOUS, CHECKPOINT, CONFIG)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuse a folder in which another process is training, by whatever path it got there."""
    real = folder.resolve()
    real.parent.mkdir(parents=True, exist_ok=True)
    with real.with_name(f".{real.name}.lock").open("a") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a killed process releases it
            except BlockingIOError:
                raise ValueError(
                    f"name: another process is training in {folder}; wait for it to end, or choose "
                    "another --name"
                ) from None
        yield


def prepare_folder(config: TrainConfig, data: str | None, fresh: bool) -> None:
    """Make the run's folder, or recognise the run in it; anything else is refused.

    data: the fingerprint of what the run reads
    """
    folder = config.folder
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"name: {folder} is not a folder; choose another --name")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = [each for name in OWN for each in left_behind(folder / name)]
    found = read_config(folder)
    if found is None and set(folder.iterdir()) - set(unfinished):
        raise ValueError(
            f"name: {folder} holds files that do not belong to a run; choose another --name"
        )
    if found is not None and not fresh:
        refuse_another_run(config, data, found)
    for each in unfinished:  # left by a run that was killed while it wrote
        shutil.rmtree(each)
    if found is None or fresh:
        for name in OWN:
            if name != CONFIG:  # which is replaced below: until then the folder remains a run's
                (folder / name).unlink(missing_ok=True)
        write_json(folder / CONFIG, {"train": config.to_json(), "data": data}, indent=2)


def refuse_another_run(config: TrainConfig, data: str | None, found: dict) -> None:
    """A folder can only hold the run that was started in it."""
    changed = differences(parsed_config(config.folder, found), config)
    if found["data"] != data:
        changed.append("the data itself has changed")
    if changed:
        raise ValueError(
            f"name: {config.folder} holds a run with other options ({'; '.join(changed)}). "
            "Choose another --name, or pass --fresh to delete that run"
        )


def stored_config(folder: Path) -> TrainConfig:
    """The options that the run in `folder` was started with."""
    found = read_config(folder)
    if found is None:
        others = sorted(each.parent.name for each in folder.parent.glob(f"*/{CONFIG}"))
        hint = f", or --name one of {', '.join(others)}" if others else ""
        raise ValueError(
            f"resume: there is no run in {folder}; leave out --resume to start one{hint}"
        )
    return parsed_config(folder, found)


def read_config(folder: Path) -> dict[str, Any] | None:
    """What the config.json of a run says, or None where there is no such file."""
    path = folder / CONFIG
    if not path.exists():
        return None
    found = read_json(path, ADVICE)
    if not isinstance(found.get("train"), dict) or "data" not in found:
        raise ValueError(f"{path} does not belong to a run. {ADVICE}")
    return found


def parsed_config(folder: Path, found: dict[str, Any]) -> TrainConfig:
    try:
        return TrainConfig.from_json(found["train"])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{folder / CONFIG} does not describe a run that this version knows ({error}). {ADVICE}"
        ) from None


ADVICE = "Nothing was changed; correct the file, or choose another --name."
