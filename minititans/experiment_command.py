"""`minititans experiment NAME`: the command line of every experiment.

Nothing here imports torch before an experiment runs, so that `--help` answers at once.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from minititans.files import write_text, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    experiments = parser.add_subparsers(title="experiments", metavar="NAME", required=True)
    about = "find a fact in a text up to 64 times as long as any in training"
    needle = experiments.add_parser("needle", help=about, description=about)
    needle.add_argument("--kind", choices=("pk", "n", "w"), default="pk",
                        help="a passkey, a number or a word (default: pk)")  # fmt: skip
    needle.add_argument("--variants", type=names, metavar="A,B,...",
                        help="which models; all adds every relative (default: "
                        "mac,mag,mal,lmm,swa,transformer); also lmm-matrix, lmm-frozen, lmm-plain "
                        "and lmm-forgets, each of which changes one decision")  # fmt: skip
    needle.add_argument("--seeds", type=numbers, default=(0,), metavar="0,1,...",
                        help="which seeds (default: 0)")  # fmt: skip
    needle.add_argument("--full", action="store_true",
                        help="seeds 10, 11 and 12, on which nothing was tuned")  # fmt: skip
    needle.add_argument("--steps", type=int,
                        help="steps of the first attempt (default: 1400; for n and w, 2800); "
                        "a model that has not learned starts over with twice as many")  # fmt: skip
    needle.add_argument("--lr", type=float, help="highest learning rate (default: by model)")
    needle.add_argument("--read-at", type=numbers, metavar="N,N,...",
                        help="lengths to test at, 64 haystacks each (default: 128 each of 24, 256, "
                        "1024, 4096 and 16384 tokens)")  # fmt: skip
    needle.add_argument("--further", type=numbers, default=(), metavar="N,N,...",
                        help="then test the trained models at these lengths as well, with 16 "
                        "haystacks each: 65536,1048576 takes hours")  # fmt: skip
    needle.add_argument(
        "--models", type=Path, help="the folder for trained models (default: runs/needle/KIND)"
    )
    needle.add_argument("--out", type=Path,
                        help="the folder for results (default: results/needle/KIND)")  # fmt: skip
    needle.add_argument("--quiet", action="store_true", help="no progress bars")
    needle.set_defaults(experiment=run_needle)

    about = "errors of memories of depth 1 to 4, by length of a sequence and size of a key"
    depth = experiments.add_parser("depth", help=about, description=about)
    depth.add_argument("--out", type=Path, default=Path("results/depth"),
                       help="the folder for results (default: results/depth)")  # fmt: skip
    depth.add_argument("--quiet", action="store_true", help="no progress bar")
    depth.set_defaults(experiment=run_depth)

    about = "how much a memory still learns after it has read up to millions of tokens"
    alive = experiments.add_parser("alive", help=about, description=about)
    alive.add_argument("--kinds", type=names, metavar="A,B,...",
                       help="what it reads: random, repeated, zeros (default: random)")  # fmt: skip
    alive.add_argument("--after", type=numbers, metavar="N,N,...",
                       help="how many tokens it has read before the probe "
                       "(default: 1024,16384,131072)")  # fmt: skip
    alive.add_argument("--layers", type=names, metavar="A,B", help="residual, plain or both")
    alive.add_argument("--name", default="alive", help="name of the files (default: alive)")
    alive.add_argument("--out", type=Path, default=Path("results/alive"),
                       help="the folder for results (default: results/alive)")  # fmt: skip
    alive.add_argument("--quiet", action="store_true", help="no progress bar")
    alive.set_defaults(experiment=run_alive)

    about = "recall of trained memories that read in chunks of 1 to 64, exact and frozen"
    chunk = experiments.add_parser(
        "chunk", help=about,
        description=f"{about}; needs the models of `minititans experiment needle "
        "--variants lmm-matrix,lmm,lmm-frozen --full`",
    )  # fmt: skip
    chunk.add_argument("--models", type=Path, default=Path("runs/needle/pk"),
                       help="the folder of trained models (default: runs/needle/pk)")  # fmt: skip
    chunk.add_argument("--seeds", type=numbers, default=(10, 11, 12), metavar="10,11,...",
                       help="which of them (default: 10,11,12)")  # fmt: skip
    chunk.add_argument("--out", type=Path, default=Path("results/chunk"),
                       help="the folder for results (default: results/chunk)")  # fmt: skip
    chunk.add_argument("--quiet", action="store_true", help="no progress bar")
    chunk.set_defaults(experiment=run_chunk)


def run_needle(arguments: argparse.Namespace) -> int:
    from minititans.experiments import needle, results
    from minititans.viz.results import needle_figure

    given = {name: getattr(arguments, name) for name in ("steps", "lr")}
    changes = {name: value for name, value in given.items() if value is not None}
    if arguments.read_at:
        changes["read_at"] = tuple((length, 64) for length in arguments.read_at)
    config = needle.NeedleConfig(kind=arguments.kind, **changes)
    all_of_them = arguments.variants == ("all",)
    which = needle.EVERYONE if all_of_them else arguments.variants or needle.ORDER
    seeds = (10, 11, 12) if arguments.full else arguments.seeds
    folder = arguments.out or Path("results/needle") / arguments.kind
    models, progress = arguments.models or Path("runs/needle") / arguments.kind, not arguments.quiet
    try:
        needle.check_models(which, seeds, folder, models, arguments.further)
        needle.run(config, which, seeds, folder, progress, models)
        if arguments.further:
            needle.read_further(
                config, which, seeds, folder, models, arguments.further, progress=progress
            )
    except (ValueError, OSError) as error:
        print(f"minititans experiment needle: {error}", file=sys.stderr)
        return 2
    found = results.load_all(folder)  # with those of earlier runs
    show_and_keep(folder / "table.md", results.table(found))
    drawn = needle.figures({result.variant for result in found})
    for name, shown in drawn.items():
        keep_figure(folder / f"{name}.png", needle_figure(found, config, shown))
    files = ", ".join(f"{name}.png" for name in drawn)
    print(f"\nIn {folder}: every result as JSON, table.md, {files}")
    return 0


def run_depth(arguments: argparse.Namespace) -> int:
    from minititans.experiments import depth_grid

    folder = arguments.out
    try:
        found = depth_grid.run(folder=folder, progress=not arguments.quiet)
    except ValueError as error:
        print(f"minititans experiment depth: {error}", file=sys.stderr)
        return 2
    show_and_keep(folder / "table.md", depth_grid.table(found))
    print(f"\nIn {folder}: every result as JSON, and table.md")
    return 0


def run_alive(arguments: argparse.Namespace) -> int:
    from minititans.experiments import alive
    from minititans.viz.results import alive_figure

    given = {name: getattr(arguments, name) for name in ("after", "layers", "kinds")}
    try:
        config = alive.AliveConfig(**{name: x for name, x in given.items() if x is not None})
    except ValueError as error:
        print(f"minititans experiment alive: {error}", file=sys.stderr)
        return 2
    folder, name = arguments.out, arguments.name
    found = alive.run(config, progress=not arguments.quiet)
    alive.save(folder / f"{name}.json", config, found)
    show_and_keep(folder / f"{name}.md", alive.table(found))
    first = [each for each in found if each.kind == config.kinds[0]]
    keep_figure(folder / f"{name}.png", alive_figure(first))
    print(f"\nIn {folder}: {name}.json, {name}.md and {name}.png")
    return 0


def run_chunk(arguments: argparse.Namespace) -> int:
    from minititans.experiments import chunk_recall
    from minititans.viz.results import chunk_figure

    config, folder = chunk_recall.ChunkConfig(seeds=arguments.seeds), arguments.out
    try:
        found = chunk_recall.run(config, arguments.models, progress=not arguments.quiet)
    except (ValueError, OSError) as error:
        print(f"minititans experiment chunk: {error}", file=sys.stderr)
        return 2
    chunk_recall.save(folder, config, found)
    show_and_keep(folder / "chunk.md", chunk_recall.table(found))
    keep_figure(folder / "chunk.png", chunk_figure(found, config))
    print(f"\nIn {folder}: chunk.json, chunk.md and chunk.png")
    return 0


def show_and_keep(file: Path, table: str) -> None:
    write_text(file, table + "\n")
    print(table)


def keep_figure(file: Path, figure: "Figure") -> None:
    with write_whole(file) as temporary:
        figure.savefig(temporary, format="png")


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
