"""A run from beginning to end; one that was stopped continues as if it never had been."""

import math
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minititans.model import TitansLM, count_parameters
from minititans.state import State
from minititans.tasks import Task, load_task
from minititans.tasks.dataset import Dataset
from minititans.training import log
from minititans.training.checkpoint import load_checkpoint, save_checkpoint
from minititans.training.config import TrainConfig
from minititans.training.folder import (
    CHECKPOINT,
    CURVE,
    LOG,
    PREVIOUS,
    RESULT,
    alone_in,
    prepare_folder,
)
from minititans.training.optimiser import make_optimiser
from minititans.training.parallel import World, reshard, spread, world
from minititans.training.results import evaluate, finish, plain_model, read_result
from minititans.training.step import Run, passage, seed_everything, take_step


def train(config: TrainConfig, fresh: bool = False, previous: bool = False) -> dict[str, Any]:
    """Train, or continue training, in `config.folder`; returns the contents of `result.json`.

    fresh:    delete the files of a run that is there, and start over
    previous: continue from the checkpoint before the last, when the last is damaged

    Under torchrun only the first process returns the result, the others an empty dictionary.
    """
    if fresh and previous:
        raise ValueError("previous: got fresh as well, which leaves nothing to continue from")
    with world(config.device) as here:
        return train_in(here, config, fresh, previous)


def train_in(here: World, config: TrainConfig, fresh: bool, previous: bool) -> dict[str, Any]:
    """What one process does. Everything that uses the process group is gone when it returns."""
    task = make_task(config)
    config = fit_to(task, config, here)
    count_parameters(config.model)  # refuses an impossible model before a file is written
    with ExitStack() as until_the_end:

        def prepare() -> dict[str, Any] | None:
            """The result of a run that has already finished."""
            log.check_drawing()
            until_the_end.enter_context(alone_in(config.folder))
            prepare_folder(config, getattr(task, "fingerprint", None), fresh)
            path = config.folder / RESULT
            return read_result(path) if path.exists() and not previous else None

        if ended := here.let_first(prepare):
            return ended if here.is_first else {}
        run, progress = begin(config, task, here, previous)
        progress = run_steps(run, progress)
        model = plain_model(run.model, config)
        result = here.let_first(lambda: finish(config, task, model, progress))
    return result if here.is_first else {}


def make_task(config: TrainConfig) -> Task:
    """What `task`, `dataset` or `data` names; the built-in corpus if none does."""
    if config.task is not None:
        return load_task(config.task)
    if config.dataset is not None:
        return Dataset(config.dataset, config.subset, config.column, config.eval_bytes)
    return load_task("text", data=config.data)


def fit_to(task: Task, config: TrainConfig, here: World) -> TrainConfig:
    """Fit vocabulary and passages to the task, and make sure that every process gets its rows."""
    parts = here.size * config.accumulate
    if config.batch % parts:
        raise ValueError(
            f"batch: got {config.batch}, expected a multiple of {parts}: "
            f"{here.size} processes times accumulate, {config.accumulate}"
        )
    if config.model.literal and task.held_out is not None:
        raise ValueError(
            "literal: got True, expected False to train on text: a model that sees the future can "
            "be neither scored nor sampled there; train it on a task, such as --task copying"
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


def begin(
    config: TrainConfig, task: Task, here: World, previous: bool = False
) -> tuple[Run, dict[str, Any]]:
    """Model and optimiser from the last checkpoint, or new ones; and how far they have come."""
    seed_everything(config.seed, 0, 0)  # the same first weights in every process
    model = TitansLM(config.model).to(here.device)
    together = spread(model, here, config.shard)
    run = Run(config, task, model, together, make_optimiser(model, config), here)
    last, before = (config.folder / name for name in (CHECKPOINT, PREVIOUS))
    if previous and not before.exists():
        raise ValueError(f"previous: there is no {before} to continue from")
    path = before if previous or not last.exists() else last
    if not path.exists():
        return run, {"step": 0, "seconds": 0.0}
    progress = load_checkpoint(path, model, run.optimiser)
    if "position" in progress and hasattr(task, "seek"):
        task.seek(progress["position"])
    here.wait()  # until all have read it
    if path == before:
        here.let_first(lambda: go_back(config.folder))
    return run, progress


def go_back(folder: Path) -> None:
    """The previous checkpoint, which could be read, replaces the last."""
    (folder / RESULT).unlink(missing_ok=True)  # the run is no longer finished
    os.replace(folder / PREVIOUS, folder / CHECKPOINT)


def run_steps(run: Run, progress: dict[str, Any]) -> dict[str, Any]:
    """Train from the step that `progress` has reached to the last one; return the progress then."""
    config, first = run.config, progress["step"]
    run.here.let_first(lambda: log.cut(config.folder / LOG, first, progress.get("lines", 0)))
    hidden = config.quiet or not run.here.is_first or first == config.steps
    bar = tqdm(total=config.steps, initial=first, unit="step", disable=hidden)
    began, speed = time.perf_counter() - progress["seconds"], None
    while (start := progress["step"]) < config.steps:
        states = None
        for step, (tokens, targets) in enumerate(passage(config, run.task, start), start + 1):
            started = time.perf_counter()
            record, states = checked_step(run, step, tokens, targets, states)
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


def checked_step(run: Run, step: int, *arguments: Any) -> tuple[dict[str, Any], list[State]]:
    """A step with finite numbers; if they are not, the learning rate is the first suspect."""
    try:
        record, states = take_step(run, step, *arguments)
    except ValueError as error:  # a layer refuses what is not finite
        if "finite" not in str(error):
            raise
        record = {"loss": math.nan, "gradient_norm": math.nan}
    if not math.isfinite(record["loss"] + record["gradient_norm"]):
        raise ValueError(
            f"lr: got {run.config.lr}, and at step {step} the numbers are no longer finite; try a "
            "smaller --lr"
        )
    return record, states


def keep_record(run: Run, record: dict[str, Any]) -> None:
    """Log a step, and evaluate the model if that is due."""
    config, step, path = run.config, record["step"], run.config.folder / LOG
    if run.here.is_first:
        log.append(path, record)
    if step < config.steps and is_due(step - 1, step, config.eval_every):
        scores = evaluate(config, run.task, run.model)
        reshard(run.model)
        if run.here.is_first:
            log.append(path, {"step": step} | scores)
            log.draw(log.read(path), config.folder / CURVE)


def save(run: Run, progress: dict[str, Any]) -> None:
    if hasattr(run.task, "position"):
        progress = progress | {"position": run.task.position()}
    folder = run.config.folder
    if run.here.is_first:
        progress = progress | {"lines": log.count_on_disk(folder / LOG)}
    path = folder / CHECKPOINT
    save_checkpoint(path, run.model, run.optimiser, progress, run.here)


def is_due(before: int, now: int, every: int) -> bool:
    """Whether a multiple of `every` lies after `before` and not after `now`.

    >>> is_due(8, 16, every=10), is_due(16, 24, every=10), is_due(24, 28, every=10)
    (True, True, False)
    """
    return every > 0 and now // every > before // every
