"""What flows through the variants is what the layers compute, leaks are found, costs add up."""

import pytest
import torch

from minititans.attention import WindowAttention
from minititans.experiments.dataflow import (
    DIM,
    NAMES,
    PERSISTENT,
    SENTENCE,
    SPAN,
    _made_of,
    _Notes,
    follow,
    readable_memory,
    sentence_vectors,
    variants,
)
from minititans.experiments.leak import CAUSAL, LITERAL, NoiseConfig, influence, learn_noise
from minititans.experiments.variant_costs import ATTENTION, VariantCostConfig, variant_costs
from minititans.variants import MAC

LAYERS = variants()
FLOWS = {name: follow(layer) for name, layer in LAYERS.items()}
TIME = len(SENTENCE)
each_variant = pytest.mark.parametrize("name", NAMES)


@each_variant
def test_the_last_part_is_the_layers_own_answer(name):
    expected, _ = LAYERS[name](sentence_vectors(SENTENCE))
    torch.testing.assert_close(FLOWS[name].parts["o"], expected[0].detach())


@pytest.mark.parametrize("words", [("a",), ("a", "b", "a", "b", "a"), SENTENCE + SENTENCE[:3]])
@each_variant
def test_sentences_of_any_length_can_be_followed(name, words):
    flow = follow(LAYERS[name], words)
    expected, _ = LAYERS[name](sentence_vectors(words))
    torch.testing.assert_close(flow.parts["o"], expected[0].detach())
    assert len(flow.surprise) == len(words)


def test_the_four_have_equal_memories_and_persistent_tokens():
    first = LAYERS["MAC"]
    for layer in LAYERS.values():
        assert torch.equal(layer.persistent.tokens, first.persistent.tokens)
        for name, weight in layer.memory.state_dict().items():
            assert torch.equal(weight, first.memory.state_dict()[name])


def seen_by(name: str, t: int) -> set[int]:
    """The slots that word t may look at, as the variant's text says."""
    segment = range(t - t % SPAN, t + 1)
    window = range(max(0, t - SPAN + 1), t + 1)
    if name == "MAC":
        both = [*segment, *(TIME + i for i in segment)]
        return {*range(PERSISTENT), *(PERSISTENT + i for i in both)}
    if name == "MAG":
        return {*range(PERSISTENT), *(PERSISTENT + i for i in window)}
    return {PERSISTENT + i for i in range(t - SPAN + 1, t + 1) if PERSISTENT + i >= 0}


@pytest.mark.parametrize("name", ["MAC", "MAG", "MAL"])
def test_attention_looks_where_it_may_and_nowhere_else(name):
    attended = FLOWS[name].attended
    torch.testing.assert_close(attended.sum(1), torch.ones(TIME, dtype=torch.float64))
    for t in range(TIME):
        assert set(attended[t].nonzero()[:, 0].tolist()) == seen_by(name, t)
    assert FLOWS["LMM"].attended is None


def test_the_bare_answers_become_the_layers_answers():
    """`recalled` is made from the reading inside the memory, before norm, gate and output."""
    torch.manual_seed(1)
    memory, x = readable_memory().double(), sentence_vectors(SENTENCE)
    notes = _Notes(memory)
    answers, _ = notes.write(x, memory.start(1), "y")
    bare = torch.stack(notes.answers["y"])[None, None]
    torch.testing.assert_close(memory.answer(x, bare), answers)


def test_shares_are_found_again():
    torch.manual_seed(0)
    shares, basis = torch.randn(5, 7).double(), torch.randn(7, 20).double()
    torch.testing.assert_close(_made_of(shares @ basis, basis), shares)


def test_a_memory_of_one_pair_answers_with_what_came_after():
    """Empty, then key "a" and value "b" are written with theta: asked "a", it answers theta · b."""
    flow = follow(LAYERS["MAC"], ("a", "b", "c", "d", "a"))
    shares = flow.recalled["h"][4]
    assert flow.vocabulary[shares.argmax()] == "b" and 0.7 < shares.max() < 1.05
    assert not flow.recalled["h"][:4].any()  # the first segment: nothing is there yet


def test_influence_of_a_window_is_a_band():
    torch.manual_seed(0)
    attention = WindowAttention(8, 2, window=3).double()
    table = influence(lambda x: attention(x)[0], torch.randn(1, 9, 8).double())
    distance = torch.arange(9) - torch.arange(9)[:, None]
    assert torch.equal(table > 0, (distance >= 0) & (distance < 3))


def test_influence_finds_the_leak_of_the_literal_mac_and_none_elsewhere():
    torch.manual_seed(0)
    literal = MAC(DIM, 1, readable_memory(), SPAN, PERSISTENT, literal=True).double()
    x = sentence_vectors(SENTENCE)
    table = influence(lambda x: literal(x)[0], x)
    rows, columns = torch.arange(TIME)[:, None], torch.arange(TIME)
    inside = (columns < rows) & (columns >= rows - rows % SPAN)
    assert torch.equal(table.tril(-1) > 0, inside)
    for layer in LAYERS.values():
        assert not influence(lambda x, layer=layer: layer(x)[0], x).tril(-1).any()


def test_only_the_literal_mac_answers_by_the_digits_to_come():
    small = NoiseConfig(dim=8, steps=3, batch=2, tests=16, seeds=(0,))
    noise = learn_noise(small)
    assert torch.equal(noise.shown[CAUSAL], noise.hidden[CAUSAL])
    assert not torch.equal(noise.shown[LITERAL], noise.hidden[LITERAL])
    assert noise.losses[CAUSAL].shape == noise.losses[LITERAL].shape == (1, 3)
    again = learn_noise(small)
    assert torch.equal(noise.losses[LITERAL], again.losses[LITERAL])


def test_parameters_and_states_are_the_sum_of_their_parts():
    config = VariantCostConfig(dim=16, heads=2, span=8, persistent=3, lengths=(16, 64), rounds=1)
    cost = variant_costs(config)
    d, span = config.dim, config.span
    of_attention = 4 * d * d
    assert cost.parameters["MAL"] == cost.parameters["LMM"] + of_attention + d  # one norm
    assert cost.parameters["MAG"] == cost.parameters["LMM"] + of_attention + 2 * d  # two
    assert cost.parameters["MAC"] == cost.parameters["MAG"]
    assert cost.parameters[ATTENTION] == of_attention
    # A window keeps keys and values of all but one token; MAC's segment those of words and h, and
    # the memory's two layers as they were before.
    window, before = 2 * (span - 1) * d, 2 * config.heads * (d // config.heads) ** 2
    for i, length in enumerate(config.lengths):
        assert cost.state["MAG"][i] == cost.state["MAL"][i] == cost.state["LMM"][i] + window
        assert cost.state["MAC"][i] == cost.state["LMM"][i] + 2 * window + before
        assert cost.state[ATTENTION][i] == 2 * (length - 1) * d
    assert all(times[0] > 0 for times in cost.seconds.values())
