"""The pictures of the variants show the numbers of their flows, and every control works."""

import time

import numpy as np
import pytest
import torch

from minititans.experiments.dataflow import NAMES, SENTENCE, flows
from minititans.experiments.leak import CAUSAL, LITERAL, Noise, NoiseConfig
from minititans.experiments.variant_costs import ATTENTION, VariantCost, VariantCostConfig
from minititans.viz.charts import levels
from minititans.viz.diagrams import DIAGRAMS, draw_variant
from minititans.viz.drawing import Drawing, Line, Pixels, Rect, Text
from minititans.viz.leak import SHRINK, draw_influence, draw_noise
from minititans.viz.variant_costs import COLOURS, draw_variant_costs
from minititans.viz.variants import draw_flow, variant_explorer

each_variant = pytest.mark.parametrize("name", NAMES)


def inside(drawing: Drawing, box: Rect) -> bool:
    return box.x >= 0 and box.y >= 0 and box.x + box.width <= drawing.width


@each_variant
def test_a_diagram_has_every_part_and_stays_on_its_sheet(name):
    drawing = draw_variant(name)
    for part in DIAGRAMS[name].parts.values():
        assert {part.title, part.formula} <= set(drawing.texts())
    for box in (shape for shape in drawing.shapes if isinstance(shape, Rect)):
        assert inside(drawing, box) and box.y + box.height <= drawing.height


@each_variant
def test_arrows_lead_from_part_to_part_and_every_part_to_the_output(name):
    diagram = DIAGRAMS[name]
    after = {
        key: {end for start, end, *_ in diagram.arrows if start == key} for key in diagram.parts
    }
    for key in diagram.parts:
        reached, todo = set(), {key}
        while todo:
            reached |= todo
            todo = set().union(*(after[each] for each in todo)) - reached
        assert "o" in reached, key


@each_variant
def test_the_strips_are_the_vectors_of_the_flow(name):
    flow, t = flows()[name], 9
    shown = [shape.levels for shape in draw_flow(flow, t + 1).shapes if isinstance(shape, Pixels)]
    parts = [part for part in DIAGRAMS[name].parts.values() if part.shows]
    assert len(shown) == len(parts)
    for found, part in zip(shown, parts):
        vectors = flow.parts[part.shows].numpy() - part.white
        expected = levels(vectors[t : t + 1], np.abs(vectors).max())
        assert np.array_equal(found, expected)


def test_the_words_say_what_was_recalled():
    assert "nothing yet" in draw_flow(flows()["MAC"], 2).texts()
    assert "nothing clear" in draw_flow(flows()["MAC"], 9).texts()  # “the”, for the first time
    for name in NAMES:
        assert "mostly “fox”" in draw_flow(flows()[name], 10).texts()
    assert "there is no attention here" in draw_flow(flows()["LMM"], 10).texts()


def test_attentions_weights_are_written_into_their_cells():
    flow = flows()["MAG"]
    weights = sorted(f"{weight:.2f}" for weight in flow.attended[9].tolist() if weight)
    drawing = draw_flow(flow, 10)
    cells = [s.text for s in drawing.shapes if isinstance(s, Text) and s.size == 12]
    assert sorted(words for words in cells if "." in words and "times" not in words) == weights


def test_every_corner_of_the_explorer_can_be_drawn_and_every_control_changes_the_picture():
    widget = variant_explorer()
    assert widget.values == {"word": 10, "variant": "MAC"}
    for values in widget.corners():
        assert widget.draw(**values).svg()
    for name in NAMES:
        for word in range(1, len(SENTENCE) + 1):
            assert widget.draw(variant=name, word=word).height <= 510
    for control, value in (("word", 11), ("variant", "MAG")):
        before = widget.picture.value
        widget.controls[control].value = value
        assert widget.picture.value != before and "cannot be drawn" not in widget.picture.value


def test_a_redraw_takes_less_than_50_ms():
    widget = variant_explorer()
    seconds = []
    for _ in range(5):
        began = time.process_time()
        widget.draw(**widget.values).svg()
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.05


def test_an_earlier_answer_that_moved_is_blue_and_a_later_one_red():
    table = torch.tensor([[4.0, 1.0, 0.0], [0.0, 4.0, 4.0], [1.0, 0.0, 4.0]])
    [shown] = [s.levels for s in draw_influence({"a": table}).shapes if isinstance(s, Pixels)]
    less = 0.25**SHRINK
    expected = np.array([[1.0, less, 0.0], [0.0, 1.0, 1.0], [-less, 0.0, 1.0]])
    assert np.array_equal(shown, levels(expected, 1.0))


def test_the_losses_of_every_seed_and_both_futures_are_drawn():
    config = NoiseConfig(steps=4)
    curves = {name: torch.rand(2, 4) for name in (CAUSAL, LITERAL)}
    shown = {CAUSAL: torch.tensor([2.25, 2.35]), LITERAL: torch.tensor([0.5, 0.7])}
    hidden = {CAUSAL: torch.tensor([2.25, 2.35]), LITERAL: torch.tensor([3.0, 3.4])}
    drawing = draw_noise(Noise(config, curves, shown, hidden))
    assert sum(isinstance(s, Line) and len(s.points) == 4 for s in drawing.shapes) == 4
    assert {"2.3", "0.6", "3.2", "the best guess"} <= set(drawing.texts())


def test_costs_have_a_line_for_each_variant():
    table = {name: [1.0, 2.0, 3.0] for name in COLOURS}
    config = VariantCostConfig(lengths=(16, 32, 64))
    cost = VariantCost(config, dict.fromkeys(COLOURS, 1), table, table)
    drawing = draw_variant_costs(cost)
    assert {*NAMES, ATTENTION, "milliseconds", "numbers in the state"} <= set(drawing.texts())
    assert (
        sum(isinstance(s, Line) and len(s.points) == 3 and s.width > 0 for s in drawing.shapes)
        >= 10
    )
