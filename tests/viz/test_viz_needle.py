"""Pictures of needles show what was measured: words, bars, cells and lines."""

import pytest
import torch

from minititans.experiments.needle_fading import DEPTHS, LENGTHS, Fading
from minititans.experiments.paper import LENGTHS as PAPER_LENGTHS
from minititans.experiments.paper import TABLE_2
from minititans.experiments.results import Reading, Result
from minititans.memory.trace import Trace
from minititans.palette import BLUE, ORANGE
from minititans.tasks.needle import VALUES, Needle, generator
from minititans.viz.drawing import Line, Rect
from minititans.viz.needle import (
    LOOK,
    draw_depths,
    draw_haystacks,
    draw_inside,
    draw_losing,
    word,
)
from minititans.viz.needle_found import TRAINED, draw_found, found_tables, lines_of
from minititans.viz.needle_widget import draw_fading, fading_explorer


def test_every_token_has_a_name_of_its_own():
    assert len({word(token) for token in range(64)}) == 64


@pytest.mark.parametrize("kind", ["pk", "n", "w"])
def test_a_haystack_shows_all_words_and_marks_the_answer(kind):
    tokens, targets = Needle(kind, needles=1).batch(1, 40, generator(0, 0))
    drawing = draw_haystacks({"a title": (tokens[0], targets[0])})
    assert drawing.texts()[1:41] == [word(token) for token in tokens[0].tolist()]
    fills = [s.fill for s in drawing.shapes if isinstance(s, Rect) and s.height == 25]
    answers = Needle(kind).value_tokens
    assert fills.count(LOOK["answer"][0]) == answers
    assert fills.count(LOOK["needle"][0]) == 2 + answers
    assert fills.count(LOOK["question"][0]) == 2


def result(variant, seed, shares):
    readings = [Reading(n, 128, share) for n, share in zip((24, 256, 1024, 16384), shares)]
    return Result(variant, seed, 130_000, 4e-3, [], 1.0, [], readings)


def test_lines_are_means_over_seeds_with_bars_of_one_standard_error():
    runs = [result("lmm", seed, (1.0, 1.0, 1.0, share)) for seed, share in ((10, 0.5), (11, 0.9))]
    line, *bars = lines_of("lmm", runs)
    assert line.x == (1.0, 4.0, 64.0)  # 24 tokens are shorter than the training's
    assert line.y == pytest.approx((100, 100, 70))
    assert bars[-1].y == pytest.approx([50, 90])  # the spread of two seeds


def test_the_paper_is_above_ours_for_each_kind():
    runs = {kind: [result("lmm", 10, (1.0, 1.0, 0.9, 0.8))] for kind in ("pk", "w")}
    texts = draw_found(runs, ("lmm", "mamba2")).texts()
    for words in ("A passkey: ours", "A word: ours", "A passkey: the paper", "Mamba-2"):
        assert words in texts
    assert "MAC" not in texts and "A number: ours" not in texts


def test_lines_that_lie_on_each_other_are_moved_apart_by_a_hair():
    names = ("mac", "mag", "lmm")
    x = [lines_of(name, [result(name, 10, (1.0,) * 4)], names)[0].x[0] for name in names]
    assert x == sorted(x) and x[1] == 1.0 and 0.9 < x[0] < x[2] < 1.1 and x[0] * x[2] < 1.01


def test_tables_hold_every_length_that_was_read_beside_the_papers():
    far = result("mac", 11, (1.0, 1.0, 1.0, 0.5))
    far.readings.append(Reading(4096 * TRAINED, 16, 0.75))
    runs = {"pk": [result("mac", 10, (1.0, 1.0, 1.0, 0.9)), far, result("swa", 10, (0.1,) * 4)]}
    head, _, mac, swa = found_tables(runs, ("mac", "lmm", "swa")).data.splitlines()
    assert head == "| A passkey | seeds | paper, 4 × | 1 × | 4 × | 64 × | 4,096 × |"
    assert mac == "| MAC | 2 | 98 | 100 ± 0 | 100 ± 0 | 70 ± 20 | 75 ± 11 |"
    assert swa.startswith("| sliding window | 1 |  | 10 ±") and swa.endswith("|  |")


def test_tables_leave_out_a_kind_without_results_and_keep_the_order_of_the_names():
    runs = {kind: [result(n, 10, (1.0,) * 4) for n in ("lmm", "mac")] for kind in ("pk", "w")}
    data = found_tables(runs, ("mac", "lmm")).data
    assert "A word" in data and "A number" not in data and data.index("MAC") < data.index("LMM")


def test_the_papers_table_is_whole():
    for rows in TABLE_2.values():
        assert {"lmm", "mac", "mag", "mal", "ttt", "mamba2", "deltanet"} == rows.keys()
        assert all(len(row) == len(PAPER_LENGTHS) for row in rows.values())
    assert TABLE_2["pk"]["deltanet"][-1] == 71.4 and TABLE_2["w"]["mac"][-1] == 95.2


def test_the_inside_has_a_panel_for_surprise_theta_and_alpha():
    series = torch.rand(2, 2, 50)
    tokens = torch.arange(32, 64).repeat(2)[:50]
    tokens[30:33] = torch.tensor([0, 2, 16])
    texts = draw_inside(Trace(*[series] * 7), tokens, place=30, title="inside").texts()
    assert "head 2" in texts and texts.count("the needle") == 1
    assert texts[-16:] == [word(int(token)) for token in tokens[24:40]]  # word by word


def test_losing_shows_every_model_and_a_dot_for_every_head():
    lives = {"lmm": torch.tensor([[100.0, 1e4], [1e6, 1e12]]), "lmm-plain": torch.ones(2, 2) * 50}
    old = {"lmm": ([256, 512], torch.tensor([1.0, 0.5]))}
    new = {name: ([16, 64], torch.tensor([1.0, 0.2])) for name in lives}
    drawing = draw_losing(lives, old, new)
    dots = [s for s in drawing.shapes if isinstance(s, Line) and s.dots == 5]
    assert sorted(len(s.points) for s in dots) == [4, 4]
    assert {"LMM", "LMM, plain layers"} <= set(drawing.texts())


def test_a_map_has_a_number_in_every_cell():
    right = torch.arange(len(DEPTHS) * len(LENGTHS)).view(len(DEPTHS), -1) / 100
    texts = draw_depths({"lmm": right, "mac": 1 - right}).texts()
    for share in right.flatten().tolist():
        assert f"{share:.2f}" in texts and f"{1 - share:.2f}" in texts


def fading(shares):
    """One needle at token 4, another at 20; asked at 8, 16 and 24. shares: [rows, moments]."""
    said = torch.zeros(2, 3, 1, 64)
    said[:, :, 0, 30] = 1 - torch.tensor(shares)
    said[:, :, 0, 21] = torch.tensor(shares)
    facts = torch.tensor([[2, 21], [3, 21]])
    return Fading(torch.tensor([4, 20]), torch.tensor([8, 16, 24]), facts, said)


def test_bars_are_probabilities_and_the_verdict_is_the_likeliest_value():
    both = {"lmm": fading([[1.0, 0.75, 0.75]] * 2), "mac": fading([[1.0, 0.75, 0.25]] * 2)}
    drawing = draw_fading(both, ("lmm", "mac"), place=4, moment=24)
    heights = {
        colour: [s.height for s in drawing.shapes if isinstance(s, Rect) and s.fill == colour]
        for colour in (BLUE, ORANGE)
    }
    assert heights[BLUE] == pytest.approx([0.75 * 92, 0.25 * 92])
    assert sum(heights[ORANGE]) == pytest.approx((0.25 + 0.75) * 92)
    assert len(heights[ORANGE]) == 2 * (len(VALUES) - 1)
    texts = drawing.texts()
    assert f"says {word(21)}: right" in texts and f"says {word(30)}: wrong" in texts
    assert "Asked 17 tokens after it." in texts


def test_before_the_needle_there_is_no_verdict():
    texts = draw_fading({"lmm": fading([[1.0] * 3] * 2)}, ("lmm", "lmm"), 20, 16).texts()
    assert "It has not been read yet: any answer is a guess." in texts
    assert not any("right" in text or "wrong" in text for text in texts)


def test_the_widget_draws_at_every_corner():
    both = {"lmm": fading([[1.0] * 3] * 2), "mac": fading([[0.2] * 3] * 2)}
    widget = fading_explorer(both, "lmm", "mac", place=4, moment=16)
    assert widget.values == {"asked": 2, "place": 4, "left": "lmm", "right": "mac"}
    for corner in widget.corners():
        assert widget.draw(**corner).texts()
    before = widget.picture.value
    widget.controls["asked"].value = 3
    assert widget.picture.value != before and widget.controls["asked"].player is not None


def test_the_widget_offers_every_reading_in_the_order_of_the_other_figures():
    names = ("lmm-plain", "transformer", "ours", "lmm", "deltanet", "mac")
    widget = fading_explorer(
        {name: fading([[1.0] * 3] * 2) for name in names}, "lmm", "lmm-plain", place=4, moment=16
    )
    offered = [label for label, _ in widget.controls["left"].options]
    assert offered == ["MAC", "LMM", "Transformer", "DeltaNet", "LMM, plain layers", "ours"]


def test_readings_of_different_haystacks_are_not_compared():
    mine = fading([[1.0] * 3] * 2)
    other = Fading(mine.places + 1, mine.moments, mine.facts, mine.said)
    with pytest.raises(ValueError, match="'mac' read other haystacks than 'lmm'"):
        fading_explorer({"lmm": mine, "mac": other}, "lmm", "mac", place=4, moment=16)
