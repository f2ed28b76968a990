"""What comes out of a run: scores, a saved model, the loss curve, and text that it writes."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from minititans.files import read_json, write_json
from minititans.model import TitansLM
from minititans.tasks import Task
from minititans.tasks.ngram import NGram
from minititans.training import log
from minititans.training.config import TrainConfig
from minititans.training.evaluate import bits_per_byte, loss_and_accuracy
from minititans.training.folder import CURVE, LOG, MODEL, RESULT
from minititans.training.parallel import whole

ENOUGH = 5_000_000  # bytes for the n-gram model; its counts are in Python dictionaries


def finish(
    config: TrainConfig, task: Task, model: TitansLM, progress: dict[str, Any]
) -> dict[str, Any]:
    """Write everything into the run's folder; returns the contents of `result.json`."""
    folder = config.folder
    model.save(folder / MODEL)
    scores = evaluate(config, task, model)
    if task.held_out is not None:
        scores["one_stream_bits_per_byte"] = bits_per_byte(
            model, task.held_out[: config.eval_bytes]
        )
    record = {"step": progress["step"]} | scores
    if record not in log.read(folder / LOG):  # if killed right here, it would be there twice
        log.append(folder / LOG, record)
    log.draw(log.read(folder / LOG), folder / CURVE)
    result = scores | {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": progress["step"],
        "seconds": round(progress["seconds"], 1),
        "torch": torch.__version__,
    }
    if task.held_out is not None:
        result |= ngram_score(config, task) | sample(config, task.held_out, model)
    write_json(folder / RESULT, result, indent=2)
    return result


def read_result(path: Path) -> dict[str, Any]:
    """The result that a finished run left behind."""
    advice = "Delete it and run the same command again: the scores are then computed again."
    result = read_json(path, advice)
    for name in ("parameters", "steps", "seconds"):
        if not isinstance(result.get(name), (int, float)):
            raise ValueError(f"{path} is damaged: it has no {name}. {advice}")
    return result


def report(result: dict[str, Any], folder: str) -> str:
    """What a reader wants to know at the end.

    >>> print(report({"parameters": 1200, "steps": 5, "seconds": 61.0, "stretch": 2000,
    ...     "bits_per_byte": 2.0, "one_stream_bits_per_byte": 2.1,
    ...     "ngram_bits_per_byte": 2.3}, "a"))
    1,200 parameters, 5 steps, 1.0 minutes; everything is in a
    Bits per byte on held-out text: 2.000, read in stretches of 2,000 bytes; 2.100 in one stream
    An order-3 n-gram model with back-off on the same bytes: 2.300
    """
    minutes = result["seconds"] / 60
    lines = [
        f"{result['parameters']:,} parameters, {result['steps']:,} steps, {minutes:.1f} minutes; "
        f"everything is in {folder}"
    ]
    if "bits_per_byte" in result:
        lines.append(
            f"Bits per byte on held-out text: {result['bits_per_byte']:.3f}, read in stretches of "
            f"{result['stretch']:,} bytes; {result['one_stream_bits_per_byte']:.3f} in one stream"
        )
    if "ngram_bits_per_byte" in result:
        number = result["ngram_bits_per_byte"]
        lines.append(f"An order-3 n-gram model with back-off on the same bytes: {number:.3f}")
    if "held_out_loss" in result:
        loss, accuracy = result["held_out_loss"], result["held_out_accuracy"]
        lines.append(f"On new batches: loss {loss:.3f}, {accuracy:.1%} of the targets right")
    if result.get("generated"):
        lines += ["", "It was given", indented(result["prompt"])]
        lines += ["and wrote", indented(result["generated"])]
    return "\n".join(lines)


def indented(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())


def evaluate(config: TrainConfig, task: Task, model: nn.Module) -> dict[str, float]:
    """Bits per byte where the task has text, else loss and accuracy at the greatest length.

    The text is read in up to 16 stretches side by side, each from beginning to end with one memory.
    """
    if task.held_out is not None:
        text = task.held_out[: config.eval_bytes]
        lanes = max(1, min(16, len(text) // 256))
        return {"bits_per_byte": bits_per_byte(model, text, lanes), "stretch": len(text) // lanes}
    loss, accuracy = loss_and_accuracy(model, task, max(config.lengths))
    return {"held_out_loss": loss, "held_out_accuracy": accuracy}


def ngram_score(config: TrainConfig, task: Task) -> dict[str, float]:
    """The n-gram model's bits per byte on the same bytes, if there is text for it to learn from."""
    train, held_out = getattr(task, "train", None), task.held_out
    if train is None or held_out is None:
        return {}
    model = NGram(as_bytes(train[-ENOUGH:]))
    return {"ngram_bits_per_byte": model.bits_per_byte(as_bytes(held_out[: config.eval_bytes]))}


def sample(config: TrainConfig, held_out: Tensor, model: TitansLM) -> dict[str, str]:
    """What the model writes after the beginning of the held-out text."""
    prompt = held_out[None, :200].long().to(next(model.parameters()).device)  # [1, time]
    tokens = model.generate(prompt, config.sample, temperature=0.8, seed=config.seed)[0]
    before, after = tokens[: prompt.shape[1]], tokens[prompt.shape[1] :]
    return {"prompt": as_text(before), "generated": as_text(after)}


def plain_model(model: TitansLM, config: TrainConfig) -> TitansLM:
    """The model in one piece. Sharded weights are put together, which takes every process."""
    if not config.shard:
        return model
    weights = {name: whole(parameter) for name, parameter in model.named_parameters()}
    plain = TitansLM(config.model).to(next(iter(weights.values())).device)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(weights[name])
    return plain


def as_bytes(tokens: Tensor) -> bytes:
    return bytes(tokens.tolist())


def as_text(tokens: Tensor) -> str:
    return as_bytes(tokens).decode(errors="replace")
