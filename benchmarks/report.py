"""The results as people and programs read them: a table, a page and a JSON document."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measurement import Line, Measured, Measurement
from benchmarks.measurements import LONG, MEASUREMENTS

WIDTH = 76
HEADER = f"{'':{WIDTH}}{'measured':>9}  {'middle 80 %':>15}  {'must':>7}  {'aim':>7}"
QUICK = "QUICK: a rehearsal with short sequences and few repetitions. Not the real numbers."


def row(line: Line) -> str:
    """One line of the table."""
    label = f"{line.of.name:<11} {line.of.title}"
    if line.measured is None:
        return f"{label}\n{'':9}not measured: {line.why_not}"
    m, unit = line.measured, line.of.unit
    between = f"{number(m.low)} to {number(m.high)}"
    return (
        f"{label:{WIDTH}}{number(m.value) + ' ' + unit:>9}  {between:>15}"
        f"  {target(line.of, line.of.must):>7}  {target(line.of, line.of.aim):>7}  {line.verdict}"
    )


def markdown(lines: list[Line], machine: dict[str, Any], quick: bool) -> bytes:
    """The same as a page: one row per line, and the machine."""
    rows = ["| | measured | middle 80 % | must | aim | |", "| --- | --- | --- | --- | --- | --- |"]
    for line in lines:
        of, m = line.of, line.measured
        found = (
            [f"{number(m.value)} {of.unit}", f"{number(m.low)} to {number(m.high)}"] if m else []
        )
        cells = [*(found or ["", ""]), target(of, of.must), target(of, of.aim)]
        rows.append("| " + " | ".join([of.title, *cells, line.verdict]) + " |")
    on = ", ".join(f"{key} {value or 'not installed'}" for key, value in machine.items())
    warning = [QUICK, ""] if quick else []
    return ("\n".join([*warning, *rows, "", f"On: {on}."]) + "\n").encode()


def target(of: Measurement, value: float) -> str:
    """`≥ 40` or `≤ 2.5`."""
    return f"{'≥' if of.better == 'more' else '≤'} {value:g}"


def number(value: float) -> str:
    """A number with about three significant digits, written in full.

    >>> number(0.98765), number(7.123), number(46.66), number(123.4)
    ('0.99', '7.12', '46.7', '123')
    """
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def document(
    lines: list[Line], machine: dict[str, Any], quick: bool, complete: bool
) -> dict[str, Any]:
    """Everything about a run, ready for JSON."""
    return {
        "quick": quick,
        **({"warning": QUICK} if quick else {}),
        "complete": complete,
        "seconds": sum(line.seconds for line in lines),
        "machine": machine,
        "lines": [
            {
                "name": line.of.name,
                "title": line.of.title,
                "unit": line.of.unit,
                "better": line.of.better,
                "must": line.of.must,
                "aim": line.of.aim,
                "verdict": line.verdict,
                "seconds": line.seconds,
                **(asdict(line.measured) if line.measured else {"why_not": line.why_not}),
            }
            for line in lines
        ],
    }


def stored(path: Path, machine: dict[str, Any], quick: bool) -> dict[str, Line]:
    """The lines of an earlier document by their names; none if it is from another machine."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if (content["machine"], content["quick"]) != (json.loads(json.dumps(machine)), quick):
        return {}
    known = {m.name: m for m in (*MEASUREMENTS, *LONG)}
    return {
        each["name"]: Line(
            known[each["name"]],
            Measured(*(each[name] for name in ("value", "low", "high", "details"))),
            seconds=each["seconds"],
        )
        for each in content["lines"]
        if "value" in each and each["name"] in known
    }


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
