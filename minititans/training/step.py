"""One step: a batch, its loss and gradient, and AdamW.

Several steps in a row read consecutive pieces of one text and pass their memory on; together they
are a passage. What happens in a passage depends only on the weights and the optimiser's state
before it, the seed, and the number of its first step.
"""

import hashlib
import random
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minititans.model import TitansLM
from minititans.state import State
from minititans.tasks import IGNORE, Task
from minititans.training.config import TrainConfig
from minititans.training.optimiser import learning_rate
from minititans.training.parallel import World, total, whole, without_sync


@dataclass(frozen=True)
class Run:
    """What a run works with.

    model:    the model itself, or this process's share of it
    together: what to call instead, so that all processes learn from each other's rows
    """

    config: TrainConfig
    task: Task
    model: TitansLM
    together: nn.Module
    optimiser: torch.optim.Optimizer
    here: World


def passage(config: TrainConfig, task: Task, start: int) -> list[tuple[Tensor, Tensor]]:
    """What the steps from `start` on read, one after another in the same text.

    Tokens and targets of each step, `[batch, length]`, over all processes, with a length drawn
    for each step; all from the seed and the number of the first step alone.
    """
    generator = torch.Generator().manual_seed(number_from(config.seed, "passage", start))
    size = (config.steps_in_passage(start),)
    drawn = torch.randint(len(config.lengths), size, generator=generator).tolist()
    lengths = [config.lengths[each] for each in drawn]
    tokens, targets = task.batch(config.batch, sum(lengths), generator)
    return list(zip(tokens.split(lengths, 1), targets.split(lengths, 1)))


def take_step(
    run: Run, step: int, tokens: Tensor, targets: Tensor, states: list[State | None] | None
) -> tuple[dict[str, Any], list[State]]:
    """Step number `step`, counted from 1, on tokens and targets, `[batch, length]`.

    states: what the step before left in memory, one for each part of this process's rows, or
            None at the beginning of a passage. Gradients do not flow back into them.

    Returns the step's line in the log, and the states that it leaves.
    """
    config, here = run.config, run.here
    seed_everything(config.seed, step, here.rank)
    counted = max(1, int((targets != IGNORE).sum()))
    run.optimiser.zero_grad(set_to_none=True)
    loss, after = torch.zeros((), device=here.device), []
    parts = list(zip(*(here.share(each).chunk(config.accumulate) for each in (tokens, targets))))
    for number, (inputs, wanted) in enumerate(parts):
        with without_sync(run.together, wait=number + 1 < len(parts)):
            with precision(config, here.device):
                logits, state = run.together(inputs, states[number] if states else None)
            part = sum_of_losses(logits, wanted) / counted  # logits: [rows, length, vocab]
            # Processes average their gradients, but the sum is needed.
            (part * here.size).backward()
        loss += part.detach()
        after.append(state.detach())
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)
    rate = learning_rate(step - 1, config)
    for group in run.optimiser.param_groups:
        group["lr"] = rate
    run.optimiser.step()
    record = {
        "step": step,
        "loss": total(loss, here),
        "lr": rate,
        "gradient_norm": whole(norm).item(),
        "length": tokens.shape[1],
        "tokens": tokens.numel(),
    }
    return record, after


def sum_of_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Over all targets that count. Divided by their number in the *whole* batch, as above, the sums
    add up over parts and processes to the loss of one pass, however the targets are spread."""
    logits = logits.flatten(0, 1).float()  # [rows * length, vocab]
    return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction="sum")


def precision(config: TrainConfig, device: torch.device):
    """bfloat16 for matrix products if that is asked for; with "auto", where it helps."""
    wanted = config.precision
    if wanted == "auto":
        helps = device.type == "cuda" and torch.cuda.is_bf16_supported()
        wanted = "bfloat16" if helps else "float32"
    if wanted == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def seed_everything(seed: int, step: int, rank: int) -> None:
    """Make all randomness in a step, such as dropout, depend on the step and the process."""
    number = number_from(seed, "step", step, rank)
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002


def number_from(*parts: Any) -> int:
    """A number to seed a generator with, different for different parts."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")
