"""The model to beat: bytes counted after each context of up to three bytes.

Interpolated Kneser-Ney smoothing. A context that was seen n times, with d different bytes after
it, gives up a little of each count, and what it gives up goes to the context that is one byte
shorter:

    p(byte | context) = max(count − D, 0) / n  +  D·d / n · p(byte | shorter context)

In the shorter contexts a byte counts once for every different byte that came before it: "York"
is frequent, but it only ever follows "New ", so it is a bad guess after anything else.
"""

import math
from collections import Counter, defaultdict

from minititans.arguments import whole


class NGram:
    """Learn from `text`; `order` is the number of bytes of context.

    >>> model = NGram(b"abracadabra" * 20)
    >>> round(model.probability(b"abr", ord("a")), 2)
    1.0
    >>> round(sum(model.probability(b"dab", byte) for byte in range(256)), 6)
    1.0
    """

    def __init__(self, text: bytes, order: int = 3):
        whole(0).check("order", order)
        if not isinstance(text, bytes):
            raise TypeError(f"text: got {type(text).__name__}, expected bytes")
        if len(text) <= order:
            raise ValueError(f"text: got {len(text)} bytes, expected more than the order, {order}")
        self.order = order
        grams = Counter(text[i : i + order + 1] for i in range(len(text) - order))
        self.counts: dict[bytes, Counter] = {}
        self.discounts: dict[int, float] = {}
        for size in range(order, -1, -1):  # bytes of context
            self.discounts[size] = discount(grams)
            contexts: defaultdict[bytes, Counter] = defaultdict(Counter)
            for gram, count in grams.items():
                contexts[gram[:-1]][gram[-1]] = count
            self.counts |= contexts
            grams = Counter(gram[1:] for gram in grams)  # one for each byte before it

    def probability(self, context: bytes, byte: int) -> float:
        """How likely `byte` is after `context`; only the last `order` bytes of it count."""
        if not isinstance(context, bytes):
            raise TypeError(f"context: got {type(context).__name__}, expected bytes")
        if byte not in range(256):
            raise ValueError(f"byte: got {byte!r}, expected a whole number from 0 to 255")
        context = context[-self.order :] if self.order else b""
        p = 1 / 256
        for size in range(len(context) + 1):
            after = self.counts.get(context[len(context) - size :])
            if after is None:  # never seen, so no longer context was seen either
                break
            d, total = self.discounts[size], after.total()
            p = max(after[byte] - d, 0) / total + d * len(after) / total * p
        return p

    def bits_per_byte(self, text: bytes) -> float:
        """The average of −log₂ p over all bytes of `text` but the first."""
        if not isinstance(text, bytes):
            raise TypeError(f"text: got {type(text).__name__}, expected bytes")
        if len(text) < 2:
            raise ValueError(f"text: got {len(text)} bytes, expected at least 2")
        bits = 0.0
        for i in range(1, len(text)):
            bits -= math.log2(self.probability(text[max(0, i - self.order) : i], text[i]))
        return bits / (len(text) - 1)


def discount(counts: Counter) -> float:
    """What to take off each count: Ney's estimate from how many counts are 1 and 2."""
    how_many = Counter(counts.values())
    ones, twos = how_many[1], how_many[2]
    return ones / (ones + 2 * twos) if ones and twos else 0.5
