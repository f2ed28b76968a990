"""The benchmarks' bookkeeping. Nothing here asserts how long anything takes."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import rival
from benchmarks.child import lines_of
from benchmarks.figure import picture
from benchmarks.line import line_of, the_median
from benchmarks.matmuls import BATCH, CHUNK, DIM, HEADS, Recorder, random_inputs, replay
from benchmarks.measurement import Line, Measured, Measurement, Unavailable
from benchmarks.measurements import MEASUREMENTS
from benchmarks.report import as_json, document, markdown, row, stored
from benchmarks.resident import CLEAR_REFS, extra_peak
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans.memory import fast

ROOT = Path(__file__).resolve().parent.parent


class Clock:
    """Time that passes only when someone says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *durations: float):
        """A function whose n-th call lasts as long as the n-th number says."""
        remaining = iter(durations)

        def run():
            self.now += next(remaining)

        return run


def test_sides_take_turns_and_a_round_is_the_median_of_its_calls():
    clock = Clock()
    slow = Side(clock.takes(99, 8, 6))  # the first call only warms up
    fast = Side(clock.takes(99, 1, 2, 50, 3, 3, 1), calls=3)
    seconds = interleaved({"slow": slow, "fast": fast}, rounds=2, clock=clock)
    assert seconds == {"slow": [8, 6], "fast": [2, 3]}


def test_a_ratio_is_taken_within_each_round():
    # A machine ten times slower in the second round: the medians' ratio would be 20/2.
    measured = ratio([4, 60, 20], [2, 20, 2])
    assert measured.value == 3
    assert measured.low == pytest.approx(2.2)  # the ratios 2, 3, 10: a tenth of the way in
    assert measured.high == pytest.approx(8.6)


def test_a_ratio_of_unequal_numbers_of_rounds_is_refused():
    with pytest.raises(ValueError):
        ratio([1, 2], [1])


def test_a_summary_of_one_number_is_that_number():
    assert set(summary([7.0]).values()) == {1, 7.0}


@pytest.mark.parametrize(
    ("better", "value", "verdict"),
    [
        ("more", 9.9, "MISSES"),
        ("more", 10, "reaches must"),
        ("more", 20, "reaches aim"),
        ("less", 20.1, "MISSES"),
        ("less", 20, "reaches must"),
        ("less", 10, "reaches aim"),
    ],
)
def test_a_verdict_knows_which_direction_is_better(better, value, verdict):
    must, aim = (10, 20) if better == "more" else (20, 10)
    assert a_measurement(must=must, aim=aim, better=better).verdict(value) == verdict


def test_the_recorder_counts_what_can_be_counted_by_hand():
    a, b, c = torch.randn(7, 2, 3), torch.randn(7, 3, 5), torch.randn(7, 2, 5)
    with torch.no_grad(), Recorder() as recorder:
        torch.bmm(a, b)
        torch.baddbmm(c, a, b)
        a[0] @ b[0]
        a + 1  # not a matmul
        torch.linalg.solve_triangular(torch.eye(3), torch.ones(3, 5), upper=False)
    one = 2 * (2 * 3 * 5)
    assert [matmul.flops for matmul in recorder.matmuls] == [7 * one, 7 * one, one, 3 * 3 * 5]


def test_the_recorder_finds_the_matmuls_of_the_formulas():
    time = 2 * CHUNK
    with torch.no_grad(), Recorder() as recorder:
        fast(*random_inputs(time), CHUNK)
    rows, chunks = BATCH * HEADS, 2
    # Head size and chunk are equal, so that all of them are the same size per row and chunk:
    assert DIM == CHUNK
    prepared = 1  # G = D H
    below = 1  # the layer below the last, forward; its error needs no product
    exact = 3 + 0.5  # A W₀ᵀ, A S₀ᵀ and A Aᵀ; the solve
    back = 4  # E W₀, E S₀, E Eᵀ, and that times A
    reading = 2 * 4  # W₀, S₀, X Aᵀ, and that times E, in each layer
    writing = 2 * 2  # W and S of each layer
    products = prepared + below + exact + back + reading + writing
    expected = products * rows * chunks * 2 * DIM**3
    assert sum(matmul.flops for matmul in recorder.matmuls) == expected


def test_the_replay_makes_the_same_matmuls_with_the_same_strides():
    a, b = torch.randn(4, 3, 2).mT, torch.randn(3, 5).expand(4, 3, 5)
    with torch.no_grad():
        with Recorder() as original:
            torch.bmm(a, b)
            torch.linalg.solve_triangular(a.mT @ a, b, upper=False, unitriangular=True)
        run = replay(original.matmuls)
        with Recorder() as again:
            run()
            run()
    assert again.matmuls == 2 * original.matmuls


def test_the_recorder_refuses_what_it_could_not_replay():
    with torch.no_grad(), Recorder(), pytest.raises(RuntimeError, match="cannot be replayed"):
        torch.mv(torch.ones(2, 2), torch.ones(2))


def test_without_titans_pytorch_a_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "titans_pytorch", None)  # what makes an import fail
    with pytest.raises(Unavailable, match=r"pip install titans-pytorch==0\.5\.5"):
        rival.their_memory("token")
    line = line_of(MEASUREMENTS[0], quick=True)
    assert line.measured is None
    assert "pip install" in row(line)
    assert "why_not" in document([line], {}, True, False)["lines"][0]


def test_a_process_of_its_own_answers_line_by_line_or_says_what_went_wrong():
    assert len(list(lines_of("benchmarks.growth", "memory", 1))) == 1
    with pytest.raises(RuntimeError, match="KeyError: 'nobody'"):
        list(lines_of("benchmarks.peak", "nobody", 64))


@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="the peak can be reset on Linux only")
def test_the_extra_peak_of_a_call_is_what_it_allocated_and_freed_again():
    size = 200_000_000
    extra = extra_peak(lambda: torch.ones(size, dtype=torch.uint8))
    assert extra == pytest.approx(size, rel=0.1)


def test_of_several_runs_the_one_in_the_middle_counts():
    runs = [
        Line(a_measurement(), Measured(x, x - 1, x + 1), seconds=2.0) for x in (41.0, 38.0, 40.0)
    ]
    line = the_median(runs)
    assert (line.measured.value, line.measured.low, line.seconds) == (40.0, 39.0, 6.0)
    assert line.measured.details == {"runs": [38.0, 40.0, 41.0]}
    assert the_median(runs[:2]).measured.value == 38.0
    assert the_median(runs[:1]) is runs[0]
    cannot = Line(a_measurement(), None, "needs something")
    assert the_median([cannot, cannot]) is cannot


def test_results_of_every_kind_become_json_and_a_picture():
    lines = [
        Line(a_measurement(), Measured(12.0, 11.0, 13.0, {"tokens": 5})),
        Line(a_measurement(unit="MB", better="less", must=50, aim=0), Measured(-0.2, -1.0, 0.0)),
        Line(a_measurement(), None, "needs something"),
    ]
    parsed = json.loads(as_json(document(lines, {"cpu": "any"}, False, True)))
    assert [line["verdict"] for line in parsed["lines"]] == [
        "reaches must",
        "reaches aim",
        "not measured",
    ]
    assert parsed["lines"][0]["details"] == {"tokens": 5}
    page = markdown(lines, {"cpu": "any"}, quick=False).decode().splitlines()
    assert page[2].endswith("| 12.0 × | 11.0 to 13.0 | ≥ 10 | ≥ 20 | reaches must |")
    assert page[4].endswith("| not measured |") and page[-1] == "On: cpu any."
    assert len({line.count("|") for line in page[:5]}) == 1
    for some in (lines, lines[2:]):
        assert size_of_png(picture(some, quick=False)) > (800, 100)


def test_lines_that_were_written_are_kept_on_the_same_machine_only(tmp_path):
    path, here = tmp_path / "bench.json", {"cpu": "any", "threads": 2}
    assert stored(path, here, quick=False) == {}
    line = Line(MEASUREMENTS[0], Measured(12.0, 11.0, 13.0, {"tokens": 5}), seconds=3.0)
    without = Line(MEASUREMENTS[1], None, "needs something")
    path.write_bytes(as_json(document([line, without], here, False, False)))
    assert stored(path, here, quick=False) == {line.of.name: line}
    assert stored(path, here, quick=True) == {}
    assert stored(path, here | {"threads": 1}, quick=False) == {}


def test_names_are_unique_and_targets_point_the_right_way():
    assert len({m.name for m in MEASUREMENTS}) == len(MEASUREMENTS)
    for m in MEASUREMENTS:
        assert m.verdict(m.aim) == "reaches aim"
        assert m.verdict(m.must) == "reaches must"


def test_a_quick_run_of_one_line_writes_json_and_a_picture(tmp_path):
    out = tmp_path / "new" / "results"
    done = run_benchmarks("--quick", "--only", "matmuls", "--threads", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    again = run_benchmarks("--quick", "--only", "matmuls", "--threads", 1, "--resume", "--out", out)
    assert again.stdout == done.stdout  # the line was kept
    assert "QUICK" in done.stdout
    assert "its matmuls alone" in done.stdout
    assert {path.name for path in out.iterdir()} == {"bench.json", "bench.png", "table.md"}
    size_of_png((out / "bench.png").read_bytes())
    result = json.loads((out / "bench.json").read_text())
    assert result["quick"] is True
    assert result["complete"] is False
    assert "Not the real numbers" in result["warning"]
    (line,) = result["lines"]
    assert line["name"] == "matmuls"
    assert 0 < line["low"] <= line["value"] <= line["high"]
    assert line["details"]["seconds"]["rule"]["count"] > 1
    assert result["machine"]["torch"] == torch.__version__
    assert result["machine"]["threads"] == 1
    assert os.sep not in str(result["machine"]["cpu"])


def test_an_unknown_line_or_an_impossible_directory_is_refused_before_measuring(tmp_path):
    done = run_benchmarks("--only", "nonsense")
    assert done.returncode == 2
    assert "matmuls" in done.stderr  # what could have been meant
    (tmp_path / "file").write_text("")
    done = run_benchmarks("--quick", "--out", tmp_path / "file")
    assert done.returncode == 2
    assert "--out" in done.stderr


def a_measurement(must=10, aim=20, better="more", unit="×") -> Measurement:
    return Measurement("name", "a title", must, aim, None, unit, better)


def size_of_png(content: bytes) -> tuple[int, int]:
    """Width and height, which every PNG states after its signature."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def run_benchmarks(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_readme_says_what_the_stored_benchmark_measured():
    found = json.loads((ROOT / "results/bench/bench.json").read_text(encoding="utf-8"))
    measured = {line["name"]: line.get("value") for line in found["lines"]}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"(\d+)\s+times\s+as\s+fast\s+in\s+training", readme)
    assert not found["quick"] and round(measured["defaults"]) == int(said[1])
