"""`python -m minititans.train`: the same as `minititans train`; under torchrun, many processes.

minititans train                                        a small MAC on the built-in corpus
minititans train --variant lmm --data my/texts          another variant, your own files
torchrun --nproc-per-node 2 -m minititans.train ...     data-parallel; with --shard under FSDP2
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from minititans.training.command import DESCRIPTION, add_arguments, config_from


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m minititans.train", **DESCRIPTION)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Train as the command line says and print the outcome; 2 when an option is wrong."""
    try:
        config = config_from(arguments)
        from minititans.training.loop import train

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


if __name__ == "__main__":
    sys.exit(main())
