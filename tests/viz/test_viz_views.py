"""The widget's tables against the layers: what a token cannot see changes nothing about it."""

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.experiments.views import ATTENTION, MEMORY, NOT, PERSISTENT, views
from minititans.instruments import switch_memory
from minititans.viz.views import TITLES, draw_views

TIME, WINDOW, P = 11, 4, 3


def mixer(variant):
    torch.manual_seed(0)
    config = TitansConfig(
        variant, dim=8, layers=1, heads=2, window=WINDOW, segment=WINDOW, persistent=P,
        chunk_size=3, conv=0, theta_start=0.5,
    )  # fmt: skip
    layer = TitansLM(config).blocks[0].mixer.double()
    with torch.no_grad():  # a memory that begins with something, so that a reading is never zero
        for name, parameter in layer.named_parameters():
            if "start_weights" in name:
                parameter.copy_(torch.randn_like(parameter) / 3)
    return layer


def touched(layer):
    """Who changes when a persistent token or a token of the text does: `[time, p + time]`."""
    x = torch.randn(1, TIME, 8, dtype=torch.float64)
    tokens = getattr(getattr(layer, "persistent", None), "tokens", None)
    p = torch.zeros(0, 8) if tokens is None else tokens.data
    before, columns = layer(x)[0], []
    for j in range(len(p) + TIME):
        changed = p[j] if j < len(p) else x[0, j - len(p)]
        kept = changed.clone()
        changed.copy_(torch.randn(8))
        columns.append((layer(x)[0] - before).abs().amax((0, 2)) > 1e-12)
        changed.copy_(kept)
    return torch.stack(columns, 1)


@pytest.mark.parametrize("variant", TITLES)
def test_a_token_sees_what_the_table_says_and_nothing_else(variant):
    seen = views(variant, TIME, WINDOW, P)
    assert torch.equal(touched(mixer(variant)), seen != NOT)


@pytest.mark.parametrize("variant", ["mac", "mag", "mal", "lmm"])
def test_without_a_memory_that_writes_only_attention_is_left(variant):
    layer, seen = mixer(variant), views(variant, TIME, WINDOW, P)[:, P:]
    with switch_memory(layer, writing=False):
        found = touched(layer)[:, P:]
    itself = torch.eye(TIME, dtype=torch.bool)  # it asks the memory, no matter who wrote to it
    assert torch.equal(found, (seen == ATTENTION) | itself)


def test_persistent_tokens_leave_mals_window():
    seen = views("mal", TIME, WINDOW, P)[:, :P]
    layer = mixer("mal")
    _, state = layer(torch.randn(1, 1, 8, dtype=torch.float64))
    assert state.window.tokens == WINDOW - 1  # of p, and the token
    assert (seen[0] == PERSISTENT).sum() == WINDOW - 1 and (seen[WINDOW - 1 :] == MEMORY).all()


def test_the_drawing_says_how_much_a_token_sees():
    texts = draw_views(token=16, window=6, persistent=3).texts()
    assert "What token 16 sees, and through what" in texts
    assert "attention 16" in texts  # Transformer
    assert "attention 6" in texts  # sliding window
    assert "attention 4, memory 12, persistent 3" in texts  # MAC, whose segment begins at 13
    assert "attention 6, memory 10, persistent 3" in texts  # MAG
    assert "memory 19" in texts  # LMM
