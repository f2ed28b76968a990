"""A run from beginning to end; one that was stopped goes on as if it never had been."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from tqdm import tqdm

from minititans.memory.files import write_whole
from minititans.model import TitansLM, count_parameters
from minititans.tasks import Task, load_task
from minititans.training import log
from minititans.training.checkpoint import load_checkpoint, save_checkpoint
from minititans.training.config import TrainConfig, differences, stored_config
from minititans.training.optimiser import make_optimiser
from minititans.training.parallel import World, spread, world
from minititans.training.results import evaluate, finish, plain_model
from minititans.training.step import Run, passage, seed_everything, take_step

CHECKPOINT, LOG, CURVE = "checkpoint.safetensors", "log.jsonl", "loss.png"


def train(config: TrainConfig, fresh: bool = False) -> dict[str, Any]:
    """Train, or go on training, in `config.folder`; returns what `result.json` there holds.

    fresh: delete a run that is there, and begin again

    Under torchrun only the first process returns the result, the others an empty dictionary.
    """
    with world(config.device) as here:
        task = make_task(config)
        config = fit_to(task, config, here)
        count_parameters(config.model)  # refuses what no model can have, before a file is written
        with alone_in(config.folder) if here.is_first else nullcontext():
            if here.is_first:
                prepare_folder(config, task, fresh)
            here.wait()
            run, progress = begin(config, task, here)
            progress = run_steps(run, progress)
            model = plain_model(run.model, config)
            result = finish(config, task, model, progress) if here.is_first else {}
            here.wait()
    return result


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuse a folder in which another process trains: each would delete the other's files."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a killed process lets go
            except BlockingIOError:
                raise ValueError(
                    f"name: another process is training in {folder}; wait for it, or choose "
                    "another --name"
                ) from None
        yield


def make_task(config: TrainConfig) -> Task:
    """What `task`, `dataset` or `data` names; the built-in corpus if none does."""
    if config.task is not None:
        return load_task(config.task)
    if config.dataset is not None:
        from minititans.tasks.dataset import Dataset

        return Dataset(config.dataset, config.subset, config.column, config.eval_bytes)
    return load_task("text", data=config.data)


def fit_to(task: Task, config: TrainConfig, here: World) -> TrainConfig:
    """Fit vocabulary and passages to the task, and see that every process gets its rows."""
    parts = here.size * config.accumulate
    if config.batch % parts:
        raise ValueError(
            f"batch: got {config.batch}, expected a multiple of {parts}: "
            f"{here.size} processes times accumulate, {config.accumulate}"
        )
    carry, text = config.carry, getattr(task, "train", None)
    if text is not None:  # as many steps as the text has room for
        carry = min(carry, (len(text) - 1) // max(config.lengths))
        if carry < 1:
            raise ValueError(
                f"lengths: got up to {max(config.lengths)}, expected less than the {len(text):,} "
                "bytes of text to train on"
            )
    model = replace(config.model, vocab_size=task.vocab_size)
    return replace(config, carry=carry, model=model)


def prepare_folder(config: TrainConfig, task: Task, fresh: bool) -> None:
    """Make the run's folder; one that holds another run is refused."""
    folder, data = config.folder, getattr(task, "fingerprint", None)
    path = folder / "config.json"
    old = folder.with_name(f".{folder.name}.old")  # so that a deletion can be interrupted
    shutil.rmtree(old, ignore_errors=True)
    if fresh and path.exists():
        folder.rename(old)
        shutil.rmtree(old)
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob("*.tmp"):  # of a run that was killed while it wrote
        left_over.unlink()
    if not path.exists():
        if any(folder.iterdir()):
            raise ValueError(f"name: {folder} holds files that are no run; choose another --name")
        text = json.dumps({"train": config.to_json(), "data": data}, indent=2) + "\n"
        with write_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return
    changed = differences(stored_config(folder), config)
    if json.loads(path.read_text(encoding="utf-8"))["data"] != data:
        changed.append("the data itself has changed")
    if changed:
        raise ValueError(
            f"name: {folder} holds a run with other options ({'; '.join(changed)}). "
            "Choose another --name, or --fresh to delete that run"
        )


def begin(config: TrainConfig, task: Task, here: World) -> tuple[Run, dict[str, Any]]:
    """Model and optimiser as the last checkpoint has them, or new; and how far they are."""
    seed_everything(config.seed, 0, 0)  # the same first weights in every process
    model = TitansLM(config.model).to(here.device)
    together = spread(model, here, config.shard)
    run = Run(config, task, model, together, make_optimiser(model, config), here)
    progress = {"step": 0, "seconds": 0.0}
    if (config.folder / CHECKPOINT).exists():
        progress = load_checkpoint(config.folder / CHECKPOINT, model, run.optimiser)
        if "position" in progress:
            task.seek(progress["position"])
    return run, progress


def run_steps(run: Run, progress: dict[str, Any]) -> dict[str, Any]:
    """From where `progress` stands to the last step; returns the progress then."""
    config, first = run.config, progress["step"]
    if run.here.is_first:
        log.cut(config.folder / LOG, first)
    hidden = config.quiet or not run.here.is_first or first == config.steps
    bar = tqdm(total=config.steps, initial=first, unit="step", disable=hidden)
    began, speed = time.perf_counter() - progress["seconds"], None
    while (start := progress["step"]) < config.steps:
        states = None
        for step, (tokens, targets) in enumerate(passage(config, run.task, start), start + 1):
            started = time.perf_counter()
            record, states = take_step(run, step, tokens, targets, states)
            now = record["tokens"] / (time.perf_counter() - started)
            speed = now if speed is None else 0.9 * speed + 0.1 * now
            keep_record(run, record | {"tokens_per_second": round(speed)})
            bar.set_postfix_str(f"loss {record['loss']:.3f}, {speed:,.0f} tokens/s", refresh=False)
            bar.update()
        progress = {"step": step, "seconds": time.perf_counter() - began}
        # Between two passages no memory is carried, so there is none to store.
        if step == config.steps or is_due(start, step, config.save_every):
            save(run, progress)
    bar.close()
    return progress


def keep_record(run: Run, record: dict[str, Any]) -> None:
    """Into the log with a step, and with an evaluation after it if one is due."""
    config, step, path = run.config, record["step"], run.config.folder / LOG
    if not math.isfinite(record["loss"] + record["gradient_norm"]):
        raise ValueError(f"lr: loss or gradient not finite at step {step}; try a smaller --lr")
    if run.here.is_first:
        log.append(path, record)
    if step < config.steps and is_due(step - 1, step, config.eval_every):
        scores = evaluate(config, run.task, run.model)
        if run.here.is_first:
            log.append(path, {"step": step} | scores)
            log.draw(log.read(path), config.folder / CURVE)


def save(run: Run, progress: dict[str, Any]) -> None:
    if hasattr(run.task, "position"):
        progress = progress | {"position": run.task.position()}
    path = run.config.folder / CHECKPOINT
    save_checkpoint(path, run.model, run.optimiser, progress, run.here)


def is_due(before: int, now: int, every: int) -> bool:
    """Whether a multiple of `every` lies after `before` and not after `now`.

    >>> is_due(8, 16, every=10), is_due(16, 24, every=10), is_due(24, 28, every=10)
    (True, True, False)
    """
    return every > 0 and now // every > before // every
