"""`minititans generate`: a trained model continues a text, letter by letter in the terminal."""

import argparse
import codecs
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minititans.arguments import ARGUMENTS

if TYPE_CHECKING:  # the command line needs no torch
    from minititans.model import TitansLM

MODEL = "model.safetensors"  # in the folder of a run that has finished
OPTIONS = {  # each number, and the argument of `TitansLM.stream` that it becomes
    "tokens": "max_new_tokens", "temperature": "temperature", "top-k": "top_k", "seed": "seed",
}  # fmt: skip
DESCRIPTION = {
    "description": "Continue a text with a model that was trained on text, and show it as it is "
    "written.",
    "epilog": "minititans generate text --prompt 'The ' uses a model that comes with the course; "
    "after minititans train, minititans generate mac --prompt 'The ' uses yours, from runs/mac.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="RUN-OR-MODEL",
        help="the folder of a run, its name in runs/, a file that TitansLM.save wrote, or the name "
        "of a model in results/models/",
    )  # fmt: skip
    parser.add_argument("--prompt", required=True, metavar="TEXT",
                        help="the text to continue; - reads it from standard input")  # fmt: skip
    parser.add_argument("--tokens", type=int, default=400, metavar="N",
                        help="bytes to write (default: 400)")  # fmt: skip
    parser.add_argument("--temperature", type=float, default=0.8, metavar="X",
                        help="0 always takes the likeliest byte (default: 0.8)")  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="N",
                        help="choose among the N likeliest bytes (default: all)")  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N",
                        help="makes the text repeatable (default: new each time)")  # fmt: skip
    parser.add_argument("--no-memory", action="store_true",
                        help="the memory stays as training left it and learns nothing from the "
                        "text; attention works as usual")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Write the prompt and what follows to standard output; 2 when an option is wrong."""
    try:
        check_options(arguments)
        prompt = given(arguments.prompt)
        from minititans.instruments import switch_memory

        model = load(arguments.model)
        without = switch_memory(model, writing=False) if arguments.no_memory else nullcontext()
        with without:
            write(decoded(prompt, model, arguments))
    except BrokenPipeError:  # as when piped into `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(f"minititans generate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print()
        return 130
    return 0


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse a number by the name of its option, before torch is loaded."""
    for option, name in OPTIONS.items():
        value = getattr(arguments, option.replace("-", "_"))
        if value is not None:
            replace(ARGUMENTS[name], none=None).check(f"--{option}", value)


def given(prompt: str) -> bytes:
    """The prompt's bytes, from standard input for "-"; they need not be valid UTF-8."""
    if prompt != "-":
        return os.fsencode(prompt)
    if sys.stdin is None:
        raise ValueError("prompt: got -, expected a text on standard input, which is closed")
    return sys.stdin.buffer.read()


def load(name: str) -> "TitansLM":
    """The model that a path or a name means."""
    from minititans.experiments.models import models_folder
    from minititans.model import TitansLM

    path = Path(name)
    if path.is_file():
        return TitansLM.load(path).eval()
    for folder in (path, Path("runs") / name) if name else ():
        if (folder / MODEL).is_file():
            return TitansLM.load(folder / MODEL).eval()
        if folder.is_dir():
            raise ValueError(
                f"model: {folder} has no {MODEL}; expected the folder of a run that has finished"
            )
    stored = models_folder() / f"{name}.safetensors"
    if stored.is_file():
        return TitansLM.load(stored).eval()
    known = [each.parent.name for each in Path("runs").glob(f"*/{MODEL}")]
    stored_names = (each.stem for each in models_folder().glob("*.safetensors"))
    known += [each for each in stored_names if not each.startswith("needle-")]  # of text alone
    hint = f"; there are {', '.join(sorted(known))}" if known else "; train one: minititans train"
    raise ValueError(f"model: got {name!r}, expected a run or a saved model{hint}")


def decoded(prompt: bytes, model: "TitansLM", arguments: argparse.Namespace) -> Iterable[str]:
    """The prompt, then what the model adds, as text; a letter appears with its last byte."""
    import torch

    if model.config.vocab_size != 256:
        raise ValueError(
            f"model: {arguments.model} was not trained on text: its vocabulary has "
            f"{model.config.vocab_size} tokens, expected 256, one per byte"
        )
    if not prompt:
        raise ValueError("prompt: got no text, expected at least one letter to continue")
    tokens = torch.tensor([list(prompt)])  # [1, time]
    chosen = model.stream(
        tokens, arguments.tokens, arguments.temperature, arguments.top_k, arguments.seed
    )
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    first = next(chosen, None)  # wrong options are refused before anything is shown
    yield decoder.decode(prompt)
    if first is not None:
        yield decoder.decode(bytes([int(first)]))
    for token in chosen:
        yield decoder.decode(bytes([int(token)]))
    yield decoder.decode(b"", final=True)


def write(pieces: Iterable[str]) -> None:
    """Print each piece as soon as it comes, in letters that the terminal can show."""
    encoding = sys.stdout.encoding or "ascii"
    for piece in pieces:
        sys.stdout.write(piece.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()
    print()
