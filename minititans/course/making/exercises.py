"""Exercises are made from solutions: whatever is between the markers becomes a hole.

    python -m minititans.course.making.exercises           write exercises/ from solutions/
    python -m minititans.course.making.exercises --check   say which exercise is out of date

A hole raises `NotImplementedError` with the first sentence of its function's docstring, which says
what to do. An exercise that somebody has worked on is kept under another name; it is never lost.
"""

import argparse
import ast
import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat

from minititans.course.making.build import read_source
from minititans.course.making.nbgrader_cells import BEGIN, CHECK, END
from minititans.files import write_whole

MANIFEST = ".generated.json"  # in exercises/: what was last written there, to notice changes
WIDTH = 100


def solutions(root: Path) -> list[Path]:
    return sorted((root / "solutions").glob("[0-9]*.py"))


def exercise_text(solution: str) -> str:
    """A solution's source with its holes open.

    >>> print(exercise_text(EXAMPLE))
    def double(x):
        '''Return twice x.'''
        # Replace the next line with your code.
        raise NotImplementedError("01.1: Return twice x.")
    check("01.1", double)
    """
    ids = {function: id for id, function in CHECK.findall(solution)}
    functions = [
        node for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.FunctionDef)
    ]
    lines, inside = [], False
    for number, line in enumerate(solution.splitlines(), start=1):
        if line.strip() == BEGIN:
            inside = True
            around = [f for f in functions if f.lineno < number <= f.end_lineno]
            outer = next((f for f in around if f.name in ids), None)
            if outer is None:
                raise ValueError(f"line {number}: this hole is not in a function that is checked")
            what = (ast.get_docstring(outer) or "").split("\n")[0]
            if not what:
                raise ValueError(f"line {number}: {outer.name} has no docstring to say what to do")
            indent = line[: len(line) - len(line.lstrip())]
            lines += _stub(indent, f"{ids[outer.name]}: {what}")
        elif line.strip() == END:
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"{BEGIN} without {END}")
    return "\n".join(lines) + "\n"


def _stub(indent: str, message: str) -> list[str]:
    text = json.dumps(message, ensure_ascii=False)
    first = f"{indent}# Replace the next line with your code."
    line = f"{indent}raise NotImplementedError({text})"
    if len(line) <= WIDTH:
        return [first, line]
    return [first, f"{indent}raise NotImplementedError(", f"{indent}    {text}", f"{indent})"]


def generate(source: Path) -> dict[str, str]:
    """The two files of an exercise, name to contents: the source, and the notebook before a run."""
    text = exercise_text(source.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        exercise = Path(folder) / source.name
        exercise.write_text(text, encoding="utf-8")
        notebook = read_source(exercise)
    notebook.metadata["minititans"] = {"lab": source.name[:2]}  # whatever it is called later
    return {source.name: text, source.with_suffix(".ipynb").name: nbformat.writes(notebook) + "\n"}


def differences(root: Path) -> list[str]:
    """What is wrong in exercises/: empty when it is exactly what solutions/ gives."""
    folder, found, names = root / "exercises", [], {MANIFEST}
    for source in solutions(root):
        for name, contents in generate(source).items():
            names.add(name)
            path = folder / name
            if not path.exists():
                found.append(f"exercises/{name} is missing")
            elif path.read_text(encoding="utf-8") != contents:
                found.append(f"exercises/{name} differs from what solutions/{source.name} gives")
    here = {path.name for path in folder.glob("*.*") if path.is_file()}
    return found + [f"exercises/{name} has no solution" for name in sorted(here - names)]


def write(root: Path) -> list[str]:
    """Write every exercise again; returns what to report: which files were set aside."""
    folder = root / "exercises"
    folder.mkdir(exist_ok=True)
    manifest_path = folder / MANIFEST
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    told, written = [], {}
    for source in solutions(root):
        for name, contents in generate(source).items():
            path = folder / name
            written[name] = _fingerprint(name, contents)
            if path.exists():
                old = _fingerprint(name, path.read_text(encoding="utf-8"))
                if old not in (written[name], manifest.get(name)):
                    kept = _free_name(path)
                    os.replace(path, kept)
                    told.append(f"{name} held work of yours, which is now in {kept.name}")
            with write_whole(path) as temporary:
                temporary.write_text(contents, encoding="utf-8", newline="\n")
    with write_whole(manifest_path) as temporary:
        temporary.write_text(json.dumps(written, indent=1) + "\n", newline="\n")
    return told


def _fingerprint(name: str, contents: str) -> str:
    """A hash of what somebody can have written: a notebook's cells without their output."""
    if name.endswith(".ipynb"):
        with contextlib.suppress(Exception):  # a broken notebook may still be somebody's
            contents = repr([cell["source"] for cell in nbformat.reads(contents, 4).cells])
    return hashlib.sha256(contents.encode()).hexdigest()[:16]


def _free_name(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.stem}.mine-{number}{path.suffix}")).exists():
        number += 1
    return kept


EXAMPLE = f"""def double(x):
    '''Return twice x.'''
    {BEGIN}
    return 2 * x
    {END}
check("01.1", double)"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m minititans.course.making.exercises",
        description="Make exercises from solutions.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository's folder")
    options = parser.parse_args(arguments)
    if not solutions(options.root):
        print(f"There are no solutions in {options.root}. Run this in the repository's folder.")
        return 1
    if options.check:
        found = differences(options.root)
        print("\n".join(found) or "All exercises match their solutions.")
        return 1 if found else 0
    print("\n".join([*write(options.root), "Wrote exercises/."]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
