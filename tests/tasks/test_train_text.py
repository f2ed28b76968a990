"""Text as bytes, what is held out of it, and the n-gram model to beat."""

import math
import re

import pytest
import torch

from minititans.tasks.ngram import NGram
from minititans.tasks.text import Text, built_in_documents


def as_bytes(tokens) -> bytes:
    return bytes(tokens.tolist())


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# The text


def test_no_paragraph_that_is_held_out_can_be_learned_by_heart():
    text = Text()

    def plain(part):
        return [" ".join(p.split()) for p in as_bytes(part).decode(errors="ignore").split("\n\n")]

    learned = set(plain(text.train))
    held_out = [p for p in plain(text.held_out) if len(p) > 40]
    assert len(held_out) > 50
    # The cut goes through one paragraph at most.
    assert [p for p in held_out[1:] if p in learned] == []


def test_a_tenth_is_held_out_and_no_batch_reaches_it(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a" * 900 + b"b" * 100)
    text = Text(path)
    assert as_bytes(text.held_out) == b"b" * 100
    tokens, targets = text.batch(500, 890, generator())
    assert {ord("a")} == set(tokens.unique().tolist()) == set(targets.unique().tolist())


def test_windows_reach_every_byte_of_the_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(200)))
    tokens, targets = Text(path).batch(3000, 5, generator())
    assert tokens[:, 0].unique().tolist() == list(range(175))  # 180 bytes are left to train on
    assert targets.max() == 179


def test_a_folder_is_all_its_files_but_hidden_ones(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("one.txt", "sub/two.txt", ".hidden", ".git/three.txt"):
        (tmp_path / name).write_text(name * 50)
    text = Text(tmp_path)
    found = as_bytes(torch.cat([text.train, text.held_out]))
    assert sorted(found.split(b"\n\n")) == [b"one.txt" * 50, b"sub/two.txt" * 50]


def test_the_built_in_corpus_is_large_and_english():
    documents = built_in_documents()
    text = b"".join(documents.values())
    assert len(text) > 250_000
    assert len(re.findall(rb"\bthe\b", text)) > 2_000


@pytest.mark.parametrize("size, length", [(10, 4), (200, 400)])
def test_too_little_text_is_refused(tmp_path, size, length):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * size)
    with pytest.raises(ValueError, match="expected"):
        Text(path).batch(1, length, generator())


# The n-gram model


def kneser_ney(text: bytes, context: bytes, byte: int, discounts: dict[int, float], top=True):
    """Interpolated Kneser-Ney, counted again from the text for every question."""
    gram = context + bytes([byte])
    size = len(gram)
    spots = range(len(text) - size + 1)
    if top:
        grams = [text[i : i + size] for i in spots]
    else:  # each different byte before a gram counts once
        grams = [each[1:] for each in {text[i - 1 : i + size] for i in spots if i > 0}]
    after = [each[-1] for each in grams if each[:-1] == context]
    shorter = 1 / 256 if not context else kneser_ney(text, context[1:], byte, discounts, top=False)
    if not after:
        return shorter
    d = discounts[len(context)]
    kept = max(after.count(byte) - d, 0) / len(after)
    return kept + d * len(set(after)) / len(after) * shorter


def test_the_n_gram_model_is_kneser_ney_as_defined():
    text = b"the theory of the other thing, that the moth then thawed"
    model = NGram(text, order=3)
    for context in (b"the", b" th", b"oth", b"mot", b"hen"):
        for byte in b"e tahz":
            wanted = kneser_ney(text, context, byte, model.discounts)
            assert model.probability(context, byte) == pytest.approx(wanted, rel=1e-9)


def test_probabilities_add_up_to_one_after_any_context():
    model = NGram(as_bytes(Text().train)[:20_000])
    for context in (b"the", b"zzz", b"\x00\xff ", b"th", b""):
        assert sum(model.probability(context, b) for b in range(256)) == pytest.approx(1)


def test_bits_per_byte_is_the_average_surprise():
    model = NGram(b"abababababac" * 5, order=1)
    product = model.probability(b"a", ord("b")) * model.probability(b"b", ord("a"))
    assert model.bits_per_byte(b"aba") == pytest.approx(-math.log2(product) / 2)


def test_more_context_helps_on_real_text():
    train, held_out = as_bytes(Text().train), as_bytes(Text().held_out)[:5000]
    scores = [NGram(train, order).bits_per_byte(held_out) for order in range(4)]
    assert scores == sorted(scores, reverse=True)
    assert scores[3] < 2.6
