"""What notebook 07 measures: costs, where attention looks, and the pictures of both."""

import math

import torch

from minititans import TitansConfig, TitansLM
from minititans.attention import watch_attention, window_mask
from minititans.experiments.attention_cost import (
    CostConfig,
    crossover,
    numbers_kept,
    reading_seconds,
)
from minititans.experiments.sink import bits_per_byte, looks, unseen_texts
from minititans.palette import BLUE, GREEN
from minititans.tasks.text import Text
from minititans.viz.attention import draw_cost, draw_looks, draw_masks, draw_weights, shares
from minititans.viz.drawing import Rect

SMALL = CostConfig(dim=8, heads=2, lengths=(16, 32), rounds=1)


def make(variant):
    torch.manual_seed(0)
    return TitansLM(TitansConfig(variant, dim=16, layers=2, heads=2, persistent=3)).double()


def test_attention_keeps_a_key_and_a_value_per_token_and_the_memory_a_fixed_size():
    for length in (4, 64, 128):
        assert numbers_kept(CostConfig(), length)["attention"] == 2 * length * 64
    kept = [numbers_kept(CostConfig(), length)["memory"] for length in (64, 128, 1024)]
    assert kept[0] == kept[1] == kept[2] > 2 * 4 * 16 * 16  # W of two layers, and more


def test_every_length_is_measured_and_drawn():
    seconds = reading_seconds(SMALL)
    assert {side: len(each) for side, each in seconds.items()} == {"attention": 2, "memory": 2}
    assert all(second > 0 for each in seconds.values() for second in each)
    meeting = {"attention": [1.0, 4.0], "memory": [2.0, 2.0]}
    assert any("equal at about 20 tokens" in text for text in draw_cost(SMALL, meeting).texts())


def test_the_lines_cross_where_the_ratio_is_one():
    lengths = (1, 2, 4)
    assert crossover(lengths, {"attention": [1, 2, 3], "memory": [9, 9, 9]}) is None
    assert crossover(lengths, {"attention": [9, 9, 9], "memory": [1, 2, 3]}) == 1
    assert crossover(lengths, {"attention": [1, 2, 8], "memory": [2, 2, 2]}) == 2


def test_looks_are_the_shares_of_the_weights():
    for variant, p in (("transformer", 0), ("persistent_transformer", 3)):
        model, tokens = make(variant), torch.randint(256, (3, 10))
        with torch.no_grad(), watch_attention(model) as seen:
            model(tokens)
        found = looks(model, tokens)
        for layer, [weights] in enumerate(seen.values()):
            for head in range(2):
                rows = [weights[b, head, i] for b in range(3) for i in range(5, 10)]
                places = [i for _ in range(3) for i in range(5, 10)]
                for field, of in (
                    ("first", lambda row, i: row[p]),  # noqa: B023
                    ("own", lambda row, i: row[p + i]),  # noqa: B023
                    ("before", lambda row, i: row[p + i - 1]),  # noqa: B023
                    ("persistent", lambda row, i: row[:p].sum()),  # noqa: B023
                ):
                    mean = sum(of(row, i) for row, i in zip(rows, places)) / len(rows)
                    torch.testing.assert_close(getattr(found, field)[layer, head], mean)
        expected = sum(1 / (p + i + 1) for i in range(5, 10)) / 5
        assert abs(found.equal - expected) < 1e-6
        torch.testing.assert_close(sum(shares(found).values()), torch.ones_like(found.first))
        assert draw_looks({"one": found}).texts().count("layer 2, its 2 heads") == 1


def test_bits_per_byte_counts_the_second_half():
    model, tokens = make("transformer"), torch.randint(256, (2, 10))
    log = model(tokens)[0].detach().log_softmax(-1)
    each = [-log[b, i, tokens[b, i + 1]] for b in range(2) for i in range(5, 9)]
    expected = sum(each) / len(each) / math.log(2)
    assert abs(bits_per_byte(model, tokens) - float(expected)) < 1e-9


def test_unseen_texts_are_held_out_and_the_same_every_time():
    held_out = bytes(Text().held_out.tolist())
    texts = unseen_texts(4, 50, seed=3)
    assert texts.shape == (4, 50) and torch.equal(texts, unseen_texts(4, 50, seed=3))
    assert all(bytes(row.tolist()) in held_out for row in texts)


def test_the_picture_of_a_mask_has_a_cell_for_each_pair():
    mask = window_mask(5, 5, 2, prefix=1)
    cells = [each.fill for each in draw_masks({"a": mask}, 1).shapes if isinstance(each, Rect)]
    assert len(cells) == 30
    assert cells.count(GREEN) == 5 and cells.count(BLUE) == int(mask.sum()) - 5


def test_the_picture_of_weights_names_the_letters():
    drawing = draw_weights({"head": torch.rand(3, 5)}, "a b", prefix=2)
    assert drawing.texts().count("a") == drawing.texts().count("·") == 2
    assert "p" in drawing.texts()
