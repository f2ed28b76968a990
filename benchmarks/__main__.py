"""The command: measure, print the table as it grows, and write it with a picture."""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.figure import picture
from benchmarks.line import line_of, the_median
from benchmarks.machine import machine
from benchmarks.measurement import Line, Measurement
from benchmarks.measurements import LONG, MEASUREMENTS
from benchmarks.report import HEADER, QUICK, as_json, document, markdown, row, stored
from minititans.files import write_whole

OUT = Path("results/bench")


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    complete = options.only is None
    whole = LONG if options.long else MEASUREMENTS
    chosen = [m for m in (*MEASUREMENTS, *LONG) if m.name in (options.only or [])] or whole
    folder = OUT / "long" if options.long else OUT
    out = options.out or (folder if complete and not options.quick else OUT / "partial")
    try:
        out.mkdir(parents=True, exist_ok=True)  # now, not after minutes of measuring
    except OSError as error:
        print(f"--out: cannot make the directory {out}: {error.strerror}", file=sys.stderr)
        return 2

    if options.threads is not None:
        torch.set_num_threads(options.threads)
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the processes we start
    about = machine()
    print(", ".join(f"{key} {value or 'not installed'}" for key, value in about.items()))
    if options.quick:
        print(QUICK)
    print(f"\n{HEADER}", flush=True)
    lines, kept = [], stored(out / "bench.json", about, options.quick) if options.resume else {}
    for measurement in chosen:
        line = kept.get(measurement.name)
        if line is None:
            runs = range(options.runs)
            line = the_median([in_its_own_process(measurement, options.quick) for _ in runs])
        lines.append(line)
        print(row(lines[-1]), flush=True)
        whole = complete and len(lines) == len(chosen)
        files = {  # after each line, so that none is lost when the next is interrupted
            out / "bench.json": as_json(document(lines, about, options.quick, whole)),
            out / "bench.png": picture(lines, options.quick),
            out / "table.md": markdown(lines, about, options.quick),
        }
        for path, content in files.items():
            with write_whole(path) as temporary:
                temporary.write_bytes(content)
    if options.quick:
        print(QUICK)
    seconds = sum(line.seconds for line in lines)
    print(f"\n{seconds:.0f} seconds. Written: {', '.join(map(str, files))}")
    return 0


def in_its_own_process(measurement: Measurement, quick: bool) -> Line:
    """What one line allocates changes how malloc serves the next, and with it the times.

    (The matmuls line came out 1.7 after the others, 2.2 alone.)
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(line_of, measurement, quick).result()


def parser() -> argparse.ArgumentParser:
    names = [m.name for m in (*MEASUREMENTS, *LONG)]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed and memory in a few minutes; leave the machine alone meanwhile. "
        "A missed target is reported, not an error.",
        epilog="; ".join(f"{m.name}: {m.title}" for m in (*MEASUREMENTS, *LONG)),
    )
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}"
    )
    parser.add_argument(
        "--long", action="store_true", help="the models over long sequences: tens of minutes"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the lines that an earlier run on this machine has written",
    )
    parser.add_argument(
        "--runs",
        type=positive,
        default=1,
        metavar="N",
        help="measure each line N times and take the run with the median (default 1)",
    )
    parser.add_argument("--quick", action="store_true", help="a rehearsal in well under a minute")
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads of torch (default: torch's choice)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"where bench.json, bench.png and table.md go (default {OUT}; with --only or --quick "
        f"{OUT / 'partial'}, so that a whole run's results stay)",
    )
    return parser


def positive(text: str) -> int:
    """What argparse calls for a number of threads or runs."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}, expected at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
