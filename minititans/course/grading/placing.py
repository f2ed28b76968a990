"""Which lab a file belongs to, and whose it is: by what is in it first, then by its name.

    submissions/ada/02_surprise.ipynb          the first folder is the student, at any depth
    submissions/ada/Copy of lab.ipynb          the functions in it say which lab it is
    submissions/jo-02_surprise.ipynb           no folders: the student's name before the number

Nothing in the file is run here, and nothing in it is trusted: it only says where it belongs.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

LARGEST = 20 << 20  # the largest file that is looked into and graded, in bytes
# A lab's number in a name: two digits by themselves, or one or two after the word "lab".
NUMBER = re.compile(r"(?:(?<![^\W_])|lab[ _-]*)(\d\d)(?![^\W_])|lab[ _-]*(\d)(?![^\W_])", re.I)
CHECKED = re.compile(r"""\bcheck\(\s*["'](\d\d)\.\d+["']""")
DEFINED = re.compile(r"^(?:def\s+(\w+)\s*\(|(\w+)\s*=)", re.MULTILINE)
COPY = re.compile(r"^(copy of|copy)[ _-]+", re.I)  # what Colab and others put in front
NOBODY = ("", "my", "final", "lab")  # what is not a student's name


def lab_by_contents(path: Path, labs: Mapping[str, Collection[str]]) -> str | None:
    """The lab that a file's metadata, checks and functions belong to; None where they say nothing.

    labs: the names of each lab's functions
    """
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.stat().st_size <= LARGEST else ""
        if path.suffix == ".py":
            return most_votes(text, labs)
        book = json.loads(text)
        given = book.get("metadata", {}).get("minititans", {}).get("lab")
        if given in labs:
            return given
        return most_votes(
            "\n".join("".join(cell.get("source", "")) for cell in book["cells"]), labs
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # not a notebook: that is for the grader to say


def most_votes(code: str, labs: Mapping[str, Collection[str]]) -> str | None:
    """
    >>> most_votes("def surprise(W, key, value):", {"01": ["read"], "02": ["surprise"]})
    '02'
    """
    defined = {name for pair in DEFINED.findall(code) for name in pair}
    votes = Counter({lab: len(defined.intersection(names)) for lab, names in labs.items()})
    votes.update(lab for lab in CHECKED.findall(code) if lab in labs)
    (first, most), *others = votes.most_common()
    return first if most and all(count < most for _, count in others) else None


def numbers(stem: str, labs: Iterable[str]) -> list[re.Match]:
    return [m for m in NUMBER.finditer(stem) if (m[1] or f"0{m[2]}") in labs]


def lab_by_name(path: Path, labs: Collection[str]) -> str | None:
    """The lab's number in a file's name; path: below the submissions' folder.

    >>> [lab_by_name(Path(name), ["02"]) for name in ("ada/Lab02.py", "ada/lab 2.py", "ada/2.py")]
    ['02', '02', None]
    """
    found = numbers(path.stem, labs)
    if not found:
        return None
    mark = found[0] if len(path.parts) > 1 else found[-1]  # group_01_02_surprise
    return mark[1] or f"0{mark[2]}"


def student_of(path: Path, labs: Collection[str], lab: str | None = None) -> str:
    """Whose file it is; empty where nothing says so. lab: the one that its contents belong to

    >>> student_of(Path("van_den_Berg_02_surprise.py"), ["01", "02"])
    'van_den_Berg'
    >>> student_of(Path("Copy of jo_02_surprise_01.py"), ["01", "02"], "02")
    'jo'
    """
    if len(path.parts) > 1:
        return path.parts[0]
    stem = COPY.sub("", path.stem)
    marks = numbers(stem, [lab] if lab else labs) or numbers(stem, labs)
    name = stem[: marks[-1].start()].strip(" _-.") if marks else ""
    return "" if name.lower() in NOBODY else name
