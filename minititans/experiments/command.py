"""`minititans experiment NAME`: the command line of every experiment.

Nothing here imports torch before an experiment runs, so that `--help` answers at once.
"""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    experiments = parser.add_subparsers(title="experiments", metavar="NAME", required=True)
    about = "find a fact in a text up to 64 times longer than any in training"
    needle = experiments.add_parser("needle", help=about, description=about)
    needle.add_argument("--kind", choices=("pk", "n", "w"), default="pk",
                        help="a passkey, a number or a word (default: pk)")  # fmt: skip
    needle.add_argument("--variants", type=names, metavar="A,B,...",
                        help="which models; all: with every relative (default: "
                        "mac,mag,mal,lmm,swa,transformer)")  # fmt: skip
    needle.add_argument("--seeds", type=numbers, default=(0,), metavar="0,1,...",
                        help="which seeds (default: 0)")  # fmt: skip
    needle.add_argument("--full", action="store_true", help="seeds 0, 1 and 2")
    needle.add_argument("--steps", type=int, help="of training, in place of the live size's")
    needle.add_argument("--out", type=Path,
                        help="the folder for results (default: results/needle/KIND)")  # fmt: skip
    needle.add_argument("--quiet", action="store_true", help="no progress bars")
    needle.set_defaults(experiment=run_needle)

    about = "memories of depth 1 to 4 against the length of a sequence and the size of a key"
    depth = experiments.add_parser("depth", help=about, description=about)
    depth.add_argument("--out", type=Path, default=Path("results/depth"),
                       help="the folder for results (default: results/depth)")  # fmt: skip
    depth.add_argument("--quiet", action="store_true", help="no progress bar")
    depth.set_defaults(experiment=run_depth)

    about = "what a probe still teaches a memory that has read up to millions of tokens"
    alive = experiments.add_parser("alive", help=about, description=about)
    alive.add_argument("--kind", choices=("random", "repeated", "zeros"), default="random",
                       help="what it reads (default: random tokens)")  # fmt: skip
    alive.add_argument("--after", type=numbers, metavar="N,N,...",
                       help="how many tokens it has read when the probe comes "
                       "(default: 1024,16384,131072)")  # fmt: skip
    alive.add_argument("--layers", type=names, metavar="A,B", help="residual, plain or both")
    alive.add_argument("--out", type=Path, default=Path("results/alive"),
                       help="the folder for results (default: results/alive)")  # fmt: skip
    alive.add_argument("--quiet", action="store_true", help="no progress bar")
    alive.set_defaults(experiment=run_alive)


def run_needle(arguments: argparse.Namespace) -> int:
    from minititans.experiments import needle, results
    from minititans.experiments.figures import needle_figure

    changes = {} if arguments.steps is None else {"steps": arguments.steps}
    all_of_them = arguments.variants == ("all",)
    folder = arguments.out or Path("results/needle") / arguments.kind
    try:
        needle.run(
            config := needle.NeedleConfig(kind=arguments.kind, **changes),
            needle.EVERYONE if all_of_them else arguments.variants or needle.ORDER,
            (0, 1, 2) if arguments.full else arguments.seeds,
            folder,
            progress=not arguments.quiet,
        )
    except ValueError as error:
        print(f"minititans experiment needle: {error}", file=sys.stderr)
        return 2
    from minititans.files import write_whole

    found = results.load_all(folder)  # with those of earlier runs
    text = results.table(found)
    with write_whole(folder / "table.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    with write_whole(folder / "needle.png") as temporary:
        needle_figure(found, config).savefig(temporary, format="png")
    print(text)
    print(f"\nIn {folder}: every result as JSON, table.md and needle.png")
    return 0


def run_depth(arguments: argparse.Namespace) -> int:
    from minititans.experiments import depth_grid

    folder = arguments.out
    try:
        found = depth_grid.run(folder=folder, progress=not arguments.quiet)
    except ValueError as error:
        print(f"minititans experiment depth: {error}", file=sys.stderr)
        return 2
    from minititans.files import write_whole

    text = depth_grid.table(found)
    with write_whole(folder / "table.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    print(text)
    print(f"\nIn {folder}: every result as JSON, and table.md")
    return 0


def run_alive(arguments: argparse.Namespace) -> int:
    from minititans.experiments import alive
    from minititans.experiments.figures import alive_figure

    given = {name: getattr(arguments, name) for name in ("after", "layers", "kind")}
    config = alive.AliveConfig(**{name: x for name, x in given.items() if x is not None})
    folder, kind = arguments.out, arguments.kind
    found = alive.run(config, progress=not arguments.quiet)
    alive.save(folder, config, found)
    from minititans.files import write_whole

    text = alive.table(found)
    with write_whole(folder / f"{kind}.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    with write_whole(folder / f"{kind}.png") as temporary:
        alive_figure(found).savefig(temporary, format="png")
    print(text)
    print(f"\nIn {folder}: {kind}.json, {kind}.md and {kind}.png")
    return 0


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
