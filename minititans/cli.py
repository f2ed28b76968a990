"""The command `minititans`: one function per subcommand.

Nothing here imports torch before a subcommand needs it, so that `minititans doctor` can still say
what is wrong on a machine where torch is missing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minititans import __version__, doctor, generation
from minititans.course.grading import command as grading
from minititans.experiment_command import add_arguments as add_experiments
from minititans.training import command as training


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code; with none, print the help."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    return arguments.run(arguments)


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line. A new subcommand takes three lines here and a function below."""
    parser = argparse.ArgumentParser(
        prog="minititans",
        description="Titans: a memory that keeps learning while it reads.",
    )
    parser.add_argument("--version", action="version", version=f"minititans {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    about_doctor = "show what this machine has, and what to do about anything missing"
    examine = commands.add_parser("doctor", help=about_doctor, description=about_doctor)
    examine.set_defaults(run=run_doctor)

    about_train = "train a model on text or on a task"
    train = commands.add_parser("train", help=about_train, **training.DESCRIPTION)
    training.add_arguments(train)
    train.set_defaults(run=training.run)

    about_generate = "continue a text with a trained model"
    generate = commands.add_parser("generate", help=about_generate, **generation.DESCRIPTION)
    generation.add_arguments(generate)
    generate.set_defaults(run=generation.run)

    about_experiment = "run an experiment of the course and store its numbers and figure"
    experiment = commands.add_parser(
        "experiment", help=about_experiment, description=about_experiment
    )
    add_experiments(experiment)
    experiment.set_defaults(run=run_experiment)

    about_progress = "show which exercises are solved and what is next"
    progress = commands.add_parser("progress", help=about_progress, description=about_progress)
    progress.add_argument("--folder", help="the course's folder (default: nearest, going upwards)")
    progress.add_argument("--reset", action="store_true", help="start over; the old file is kept")
    progress.set_defaults(run=run_progress)

    about_grade = "grade what students handed in: a table, and which mistakes the class made"
    grade = commands.add_parser("grade", help=about_grade, **grading.DESCRIPTION)
    grading.add_arguments(grade)
    grade.set_defaults(run=grading.run)

    return parser


def run_doctor(arguments: argparse.Namespace) -> int:
    findings = doctor.examine()
    print(doctor.report(findings, encoding=sys.stdout.encoding or "ascii"))
    return doctor.exit_code(findings)


def run_experiment(arguments: argparse.Namespace) -> int:
    return arguments.experiment(arguments)


def run_progress(arguments: argparse.Namespace) -> int:
    from minititans.course.progress_file import course_folder, progress, reset

    folder = Path(arguments.folder) if arguments.folder else course_folder()
    if not folder.is_dir():
        print(f"--folder: there is no folder {folder}")
        return 1
    if arguments.reset:
        old = reset(folder)
        print(f"Progress starts over. The old file is {old}." if old else "No progress to reset.")
        return 0
    progress(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
