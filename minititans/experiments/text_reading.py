"""A trained model reads a text: what it expects before each letter, and how surprised it is.

The same text is read twice, once as the model was trained and once with a memory that writes
nothing, to show what the writing changes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.instruments import switch_memory, watch_memory
from minititans.memory import Trace
from minititans.model import ModelState, TitansLM

BEFORE = b"\n\n"  # what comes before a text in the corpus, to predict its first letter


@dataclass(frozen=True)
class TextReading:
    """What happened at every byte of a text.

    text:     as it was read
    expected: the probability of every byte before it comes, `[time + 1, 256]`; the last row is for
              what comes after the text
    surprise, theta, eta, alpha: of the memories, `[layers, heads, time]`
    """

    text: bytes
    expected: Tensor
    surprise: Tensor
    theta: Tensor
    eta: Tensor
    alpha: Tensor

    @property
    def bits(self) -> Tensor:
        """`−log₂ p` of every byte that came, `[time]`: their mean is bits per byte."""
        chosen = self.expected[range(len(self.text)), list(self.text)]
        return -torch.log2(chosen)

    def guesses(self, place: int, count: int = 8) -> list[tuple[int, float]]:
        """The likeliest bytes at a place, with their probabilities."""
        chances, bytes_ = self.expected[place].topk(count)
        return list(zip(bytes_.tolist(), chances.tolist()))


KINDS = ("first letter", "inside a word", "space", "newline", "other")


def kinds(text: bytes) -> list[str]:
    """What each byte is; "first letter" is that of a word, "other" is a digit or a sign.

    >>> kinds(b"a set.")
    ['first letter', 'space', 'first letter', 'inside a word', 'inside a word', 'other']
    """
    found, before = [], " "
    for letter in text.decode("latin-1"):
        if letter.isascii() and letter.isalpha():
            inside = before.isascii() and before.isalpha()
            found.append("inside a word" if inside else "first letter")
        else:
            found.append({" ": "space", "\n": "newline"}.get(letter, "other"))
        before = letter
    return found


def by_kind(reading: TextReading, gate: str) -> dict[str, Tensor]:
    """The mean of a gate over the bytes of each kind: `[layers, heads]` for each."""
    values, which = getattr(reading, gate), kinds(reading.text)
    chosen = {kind: [i for i, each in enumerate(which) if each == kind] for kind in KINDS}
    return {kind: values[..., places].mean(-1) for kind, places in chosen.items() if places}


def likeness(reading: TextReading) -> Tensor:
    """The correlation of a memory's surprise with the bits of a byte: `[layers, heads]`."""
    surprise = reading.surprise - reading.surprise.mean(-1, keepdim=True)
    bits = reading.bits - reading.bits.mean()
    return (surprise * bits).sum(-1) / (surprise.norm(dim=-1) * bits.norm())


@torch.no_grad()
def read_text(
    model: TitansLM, text: bytes, writing: bool = True, state: ModelState | None = None
) -> TextReading:
    """Read a text from the model's start, or continue from a state.

    writing: False for memories that stay as they are, at their start or in the state
    """
    if not text:
        raise ValueError("text: got no bytes, expected at least one")
    tokens = torch.tensor([list(BEFORE + text)])
    with switch_memory(model, writing=writing), watch_memory(model) as seen:
        logits, _ = model(tokens, state)
    layers = [Trace.join(traces) for traces in seen.values()]
    names = ("surprise", "theta", "eta", "alpha")
    felt = [torch.stack([getattr(trace, name)[0] for trace in layers]) for name in names]
    first = len(BEFORE)
    expected = logits[0, first - 1 :].float().softmax(-1)
    return TextReading(text, expected, *(each[..., first:] for each in felt))


@torch.no_grad()
def state_after(model: TitansLM, text: bytes) -> ModelState:
    """The state after a text and as many spaces as fill its last segment.

    Attention then starts a new segment, so only the memory can still know about the text.
    """
    fill = -len(BEFORE + text) % model.config.segment
    return model(torch.tensor([list(BEFORE + text + b" " * fill)]))[1]
