"""A picture of a mask shows the mask."""

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from minititans.viz.masks import draw_mask, mac_mask, mag_mask


@pytest.mark.parametrize("literal", [False, True])
def test_a_token_of_mac_sees_its_segment_and_what_was_retrieved_for_it(literal):
    mask, kinds = mac_mask(time=7, segment=3, persistent=2, literal=literal)
    keys = [("p", 0), ("p", 1)]
    for first in (0, 3, 6):
        size = min(3, 7 - first)
        keys += [("h", first + i) for i in range(size)] + [("s", first + i) for i in range(size)]
    assert mask.shape == (7, len(keys)) and len(kinds) == len(keys)
    for i in range(7):
        for column, (kind, j) in enumerate(keys):
            same = i // 3 == j // 3
            expected = kind == "p" or (same and (j <= i or (kind == "h" and literal)))
            assert mask[i, column] == expected, (i, kind, j)


def test_the_picture_holds_the_mask_and_names_its_parts():
    mask, kinds = mag_mask(time=6, window=3, persistent=1)
    figure = draw_mask(mask, kinds, "MAG")
    axes = figure.axes[0]
    shown = torch.tensor(axes.images[0].get_array().data)
    assert torch.equal(shown > 0, mask)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["persistent", "tokens"]
    assert axes.get_xlabel() and axes.get_ylabel() and axes.get_title() == "MAG"
    plt.close(figure)
