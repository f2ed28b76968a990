"""A checkpoint: one safetensors file with all that a run needs to go on as if never stopped.

It holds the weights, the optimiser's state, and as JSON the step, the time spent, and the position
of a task that reads a stream. It holds no states of random generators, because none outlives a
step: each step begins by seeding all of them from the run's seed and its own number. Nor does it
hold the state of a memory, because it is written where a passage ends and the next begins anew.
"""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn

from minititans.memory.files import write_whole
from minititans.training.parallel import World, like, whole

FORMAT = "minititans.checkpoint.1"


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: dict[str, Any],
    world: World,
) -> None:
    """Write the run's state to `path`, in place of the one that is there."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in {"weight": parameter, **optimiser.state[parameter]}.items():
            tensor = whole(value)  # one at a time, and only the first process keeps it
            if world.is_first:
                tensors[f"{key}.{name}"] = tensor.cpu().contiguous()
    if world.is_first:
        about = {"format": FORMAT, "progress": json.dumps(progress)}
        with write_whole(path) as temporary:
            safetensors.torch.save_file(tensors, temporary, about)


@torch.no_grad()
def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a checkpoint's contents into a model and an optimiser, and return its progress."""
    with safetensors.safe_open(path, framework="pt") as file:
        about = file.metadata() or {}
        if about.get("format") != FORMAT:
            raise ValueError(
                f"path: {path} is not a checkpoint: its format is {about.get('format')!r}, "
                f"expected {FORMAT!r}"
            )
        names = set(file.keys())
        for name, parameter in model.named_parameters():
            parameter.copy_(like(file.get_tensor(f"weight.{name}"), parameter))
            state = optimiser.state[parameter]
            for key in ("exp_avg", "exp_avg_sq"):
                if f"{key}.{name}" in names:
                    state[key] = like(file.get_tensor(f"{key}.{name}"), parameter)
            if f"step.{name}" in names:
                step = file.get_tensor(f"step.{name}").clone()
                fused = optimiser.defaults.get("fused")  # then it lives where the weights do
                state["step"] = step.to(parameter.device) if fused else step
    return json.loads(about["progress"])
