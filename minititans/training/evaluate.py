"""How good a model is: bits per byte on text it has not seen, loss and accuracy on tasks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minititans.tasks import IGNORE, Task


@torch.no_grad()
def bits_per_byte(model: nn.Module, text: Tensor, lanes: int = 1, piece: int = 1024) -> float:
    """The average of −log₂ p over all bytes of `text`, `[time]`, but the first.

    The text is read once from beginning to end, `piece` bytes at a time, and the state is carried
    from each piece to the next: the model sees all that came before, as it would in use. With
    several lanes the text is cut into that many parts of equal length, read side by side. This is
    faster, but each part starts with an empty memory, and up to `lanes - 1` bytes at the end are
    left out.
    """
    if len(text) < lanes + 1:
        raise ValueError(f"text: got {len(text)} bytes, expected more than the {lanes} lanes")
    model.eval()
    device = next(model.parameters()).device
    size = (len(text) - 1) // lanes
    # Neighbouring lanes share a byte: the last target of one is the first input of the next.
    rows = torch.stack([text[lane * size : (lane + 1) * size + 1] for lane in range(lanes)])
    nats, state = 0.0, None
    for start in range(0, size, piece):
        window = rows[:, start : start + piece + 1].to(device).long()
        logits, state = model(window[:, :-1], state)  # [lanes, time, vocab]
        state = state.detach()
        targets = window[:, 1:].flatten()
        nats += F.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="sum").item()
    model.train()
    return nats / math.log(2) / (size * lanes)


@torch.no_grad()
def loss_and_accuracy(
    model: nn.Module, task: Task, length: int, size: int = 32, batches: int = 4, seed: int = 2**31
) -> tuple[float, float]:
    """Average loss, and the share of targets that the likeliest token hits, on new batches."""
    model.eval()
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    loss, right, count = 0.0, 0, 0
    for _ in range(batches):
        tokens, targets = (each.to(device) for each in task.batch(size, length, generator))
        logits, _ = model(tokens)
        counted = targets != IGNORE
        loss += F.cross_entropy(logits[counted].float(), targets[counted], reduction="sum").item()
        right += int((logits[counted].argmax(-1) == targets[counted]).sum())
        count += int(counted.sum())
    model.train()
    return loss / count, right / count
