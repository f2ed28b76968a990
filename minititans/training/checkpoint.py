"""A checkpoint: one safetensors file with all that a run needs to continue as if never stopped.

It holds the weights, the optimiser's state, and as JSON the step, the time spent, and the position
of a task that reads a stream. It holds no states of random generators, because none outlives a
step: each step begins by seeding all of them from the run's seed and its own number. Nor does it
hold the state of a memory: it is written where one passage ends, and the next starts empty.

The checkpoint before the last one is kept as well, in case a disk damages the last.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from minititans.files import write_whole
from minititans.tensor_files import open_tensors, write_tensors
from minititans.training.folder import PREVIOUS
from minititans.training.parallel import World, like, whole

FORMAT = "minititans.checkpoint.2"


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: dict[str, Any],
    world: World,
) -> None:
    """Write the run's state to `path`; the checkpoint that was there becomes the previous one."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in {"weight": parameter, **optimiser.state[parameter]}.items():
            tensor = whole(value)  # one at a time, and only the first process keeps it
            if world.is_first:
                tensors[f"{key}.{name}"] = tensor.cpu().contiguous()
    header = {"format": FORMAT, "progress": json.dumps(progress)}

    def write() -> None:
        with write_whole(path) as temporary:
            write_tensors(temporary, tensors, header)
            if path.exists():
                keep_as_previous(path, temporary.with_name(PREVIOUS))

    world.let_first(write)


def keep_as_previous(path: Path, temporary: Path) -> None:
    """Give the file a second name first, so that it never has none."""
    try:
        os.link(path, temporary)
    except OSError:  # not every disk can do that
        shutil.copyfile(path, temporary)
    os.replace(temporary, path.with_name(PREVIOUS))


@torch.no_grad()
def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a checkpoint's contents into a model and an optimiser, and return its progress."""
    advice = "Pass --fresh to start the run over"
    if path.name != PREVIOUS and path.with_name(PREVIOUS).exists():
        advice = f"Pass --previous to continue from the one before it, {PREVIOUS}"
    with open_tensors(path, "a checkpoint", FORMAT, advice=advice) as (file, header):
        names = set(file.keys())
        for name, parameter in model.named_parameters():
            parameter.copy_(fitting(file.get_tensor(f"weight.{name}"), parameter, name))
            state = optimiser.state[parameter]
            if f"step.{name}" not in names:  # a weight that has had no gradient yet
                continue
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = fitting(file.get_tensor(f"{key}.{name}"), parameter, name)
            step = file.get_tensor(f"step.{name}").clone()
            fused = optimiser.defaults.get("fused")  # then it lives where the weights do
            state["step"] = step.to(parameter.device) if fused else step
        progress = json.loads(header["progress"])
        if not all(isinstance(progress[key], (int, float)) for key in ("step", "seconds")):
            raise ValueError("it does not say how far the run had come")
        return progress


def fitting(tensor: Tensor, parameter: Tensor, name: str) -> Tensor:
    """`tensor` laid out as `parameter` is, if it has the same shape."""
    if tensor.shape != parameter.shape:
        raise ValueError(
            f"{name} has the shape {list(tensor.shape)}, expected {list(parameter.shape)}"
        )
    return like(tensor, parameter)
