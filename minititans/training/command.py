"""The command line of training, made from the fields of `TrainConfig`; torch is not needed."""

import argparse
import dataclasses
import json
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from minititans.config import PRESETS, TitansConfig
from minititans.training.config import DEFAULT_MODEL, TrainConfig, options
from minititans.training.folder import stored_config

DESCRIPTION: dict[str, Any] = {
    "description": "Train a model; without options, a small MAC on the built-in corpus, in about "
    "ten minutes on two CPU cores.",
    "epilog": "In many processes: torchrun --nproc-per-node 2 -m minititans.train ...; each takes "
    "its rows of every batch, and the losses are those of one process.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every option of `TrainConfig`, and those of its model."""
    model = parser.add_argument_group("the model")
    for name, about in MODEL_OPTIONS.items():
        default = getattr(DEFAULT_MODEL, name)
        text = f"{about} (default: {default})"
        model.add_argument(f"--{name}", type=type(default), default=argparse.SUPPRESS, help=text)
    model.add_argument(
        "--preset", metavar="SIZE", default=argparse.SUPPRESS,
        help="one of the paper's sizes (170m, 340m, 400m, 760m) in place of dim, layers and heads",
    )  # fmt: skip
    model.add_argument(
        "--set", metavar="FIELD=VALUE", action="append", default=argparse.SUPPRESS,
        help="any other field of TitansConfig, such as depth=2 or forgetting=true; may be repeated "
        f"(default: {shown_defaults()})",
    )  # fmt: skip
    model.add_argument(
        "--checkpoint-activations", action="store_true", default=argparse.SUPPRESS,
        help="compute activations again in the backward pass, to save memory",
    )  # fmt: skip
    run = parser.add_argument_group("the run")
    for each in options():
        run.add_argument("--" + each.name.replace("_", "-"), **about_option(each))
    again = parser.add_argument_group("a folder that already holds a run")
    again.description = (
        "The same command again continues from the last checkpoint, and does nothing when the run "
        "has finished. The same folder with other options is refused."
    )
    again.add_argument("--resume", action="store_true", help="take its options from the folder")
    again.add_argument("--fresh", action="store_true", help="delete its files and start over")
    again.add_argument(
        "--previous", action="store_true",
        help="continue from the checkpoint before the last, if the last cannot be read",
    )  # fmt: skip


def shown_defaults() -> str:
    """How the default model differs from `TitansConfig()` in what has no option of its own."""
    plain, ours = dataclasses.asdict(TitansConfig()), dataclasses.asdict(DEFAULT_MODEL)
    names = (name for name in ours if name not in MODEL_OPTIONS and ours[name] != plain[name])
    return ", ".join(f"{name}={json.dumps(ours[name])}" for name in names)


def about_option(option: dataclasses.Field) -> dict[str, Any]:
    """What argparse needs. Options that are not given stay out, so that `--resume` can tell."""
    default, choices = option.default, option.metadata.get("choices")
    about: dict[str, Any] = {"default": argparse.SUPPRESS, "help": option.metadata["help"]}
    if isinstance(default, bool):
        return about | {"action": "store_true"}
    if isinstance(default, tuple):
        about["help"] += f" (default: {','.join(map(str, default))})"
        return about | {"metavar": "N,N,..."}
    if default is not None:
        about["help"] += f" (default: {default})"
    if choices:
        return about | {"metavar": "{" + ",".join(choices) + "}"}
    kind = str if default is None else type(default)
    return about | {"type": kind, "metavar": "TEXT" if kind is str else "N"}


MODEL_OPTIONS = {
    "variant": "mac, mag, mal, lmm, transformer, swa, persistent_transformer, persistent_swa, the "
    "name of a relative, or two with a plus",
    "dim": "width",
    "layers": "number of blocks",
    "heads": "heads of attention and memory",
}


def run(arguments: argparse.Namespace) -> int:
    """Train as the command line says, and print the outcome; 2 when an option is wrong."""
    try:
        config = config_from(arguments)
        from minititans.training.loop import train  # with torch, which takes a second to import
        from minititans.training.results import report

        result = train(config, fresh=arguments.fresh, previous=arguments.previous)
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get("RANK", "0") == "0":  # under torchrun, once
            print(f"minititans train: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. The same command continues from the last checkpoint.", file=sys.stderr)
        return 130
    if result:
        print(report(result, str(config.folder)))
    return 0


def config_from(arguments: argparse.Namespace) -> TrainConfig:
    """The run that a command line asks for: its options, else the stored ones or the defaults."""
    given = vars(arguments)
    named = {each.name: given[each.name] for each in options() if each.name in given}
    if "lengths" in named:
        named["lengths"] = numbers_in(named["lengths"])
    base = TrainConfig()
    runs = named.get("runs", base.runs)
    variant = given.get("variant", base.model.variant)
    name = named.get("name", default_name(named, variant))
    if given.get("resume"):
        base = stored_config(dataclasses.replace(base, runs=runs, name=name).folder)
    model = model_from(given, base.model)
    return dataclasses.replace(base, model=model, **named | {"runs": runs, "name": name})


def default_name(named: dict[str, Any], variant: str) -> str:
    """
    >>> default_name({"data": "books/moby.txt"}, "lmm")
    'lmm-moby'
    """
    source = next((named[key] for key in ("data", "task", "dataset") if key in named), None)
    return variant if source is None else f"{variant}-{Path(source).stem}"


def model_from(given: dict[str, Any], base: TitansConfig) -> TitansConfig:
    changes = {name: given[name] for name in MODEL_OPTIONS if name in given}
    if given.get("checkpoint_activations"):
        changes["checkpoint"] = True
    known = {each.name for each in fields(TitansConfig)}
    for assignment in given.get("set", []):
        name, equals, value = assignment.partition("=")
        if not equals or name not in known:
            raise ValueError(
                f"set: got {assignment!r}, expected FIELD=VALUE with one of the fields "
                f"{', '.join(sorted(known))}"
            )
        changes[name] = parsed(value)
    if "preset" in given:
        if given["preset"] not in PRESETS:
            raise ValueError(
                f"preset: got {given['preset']!r}, expected one of {', '.join(PRESETS)}"
            )
        variant = changes.pop("variant", base.variant)
        return TitansConfig.preset(given["preset"], variant, **{"vocab_size": 256} | changes)
    return dataclasses.replace(base, **changes)


def parsed(text: str) -> Any:
    """
    >>> parsed("3"), parsed("0.5"), parsed("true"), parsed("none"), parsed("chunk")
    (3, 0.5, True, None, 'chunk')
    """
    try:
        return json.loads({"none": "null"}.get(text.lower(), text))
    except json.JSONDecodeError:
        return {"true": True, "false": False}.get(text.lower(), text)


def numbers_in(text: str) -> tuple[int, ...]:
    """
    >>> numbers_in("64,128")
    (64, 128)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"lengths: got {text!r}, expected numbers such as 64,128,256") from None


def command_of(config: TrainConfig) -> list[str]:
    """The options that ask for this run; those at their defaults are left out.

    >>> command_of(TrainConfig(TitansConfig(**vars(DEFAULT_MODEL) | {"depth": 1}), lengths=(8, 16)))
    ['--set', 'depth=1', '--lengths', '8,16']
    """
    words = []
    for name, value in vars(config.model).items():
        if value == getattr(DEFAULT_MODEL, name):
            continue
        shown = value if isinstance(value, str) else json.dumps(value)
        words += [f"--{name}", shown] if name in MODEL_OPTIONS else ["--set", f"{name}={shown}"]
    for each in options():
        value, option = getattr(config, each.name), "--" + each.name.replace("_", "-")
        if value == each.default:
            continue
        if isinstance(value, tuple):
            value = ",".join(map(str, value))
        words += [option] if value is True else [option, str(value)]
    return words
