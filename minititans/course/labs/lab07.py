"""Lab 07: attention with a past. Who sees whom, where a token is, what persistent tokens are."""

import torch
import torch.nn.functional as F

from minititans.attention import rotate as library_rotate
from minititans.attention import window_mask
from minititans.attention.masks import attention_weights
from minititans.course.labs.task import Lab

LAB = Lab("07", "Attention with a past")


def softmax_under(scores, mask):
    """The library's weights: with the identity for keys, a query is a row of scores."""
    one_each = torch.eye(scores.shape[-1], dtype=scores.dtype)
    return attention_weights(scores, one_each, mask, scale=1.0)


def square_of_scores(draw):
    time = draw.tokens()
    return {"scores": draw.normal(time, time)}


@LAB.task(
    "07.1",
    "A causal mask",
    inputs=square_of_scores,
    returns="weights [time, time]",
    corners=({"scores": 30.0}, {"scores": -30.0}),
    hints=(
        "Row i holds the scores of query i. Which columns may it see, and what weight should the "
        "others get?",
        "A softmax gives weight 0 where the score is −∞. So hide first, and then take the softmax.",
        "torch.ones(time, time).tril().bool() says who is seen; scores.masked_fill(~seen, "
        "-torch.inf) hides the rest; softmax along the last axis.",
    ),
)
def causal_weights(scores):
    return softmax_under(scores, window_mask(len(scores), len(scores), None))


@causal_weights.mistake(
    "sees the future", "Token 0 gives weight to tokens that come after it: nothing is hidden."
)
def _(scores):
    return scores.softmax(-1)


@causal_weights.mistake(
    "hidden after the softmax",
    "What is hidden has weight 0, but the rows no longer add up to 1: the weight that went to the "
    "future is lost. Hide before the softmax.",
)
def _(scores):
    return scores.softmax(-1).tril()


@causal_weights.mistake(
    "zero in place of −∞",
    "You set hidden scores to 0. A score of 0 is not hidden: the softmax gives it exp(0) = 1.",
)
def _(scores):
    return scores.tril().softmax(-1)


@causal_weights.mistake(
    "mask the wrong way round",
    "The mask is the wrong way round: the last token sees only itself, and the first sees all.",
)
def _(scores):
    return softmax_under(scores, window_mask(len(scores), len(scores), None).T)


@causal_weights.mistake(
    "does not see itself",
    "A token does not see itself. Then the first one sees nothing, and the softmax of nothing is "
    "NaN. In (2) the sum runs to j = i.",
)
def _(scores):
    return softmax_under(scores, window_mask(len(scores), len(scores), None).tril(-1))


@causal_weights.mistake(
    "softmax along the wrong axis",
    "The columns add up to 1, not the rows. Each query distributes its own attention: the "
    "softmax runs along the keys.",
)
def _(scores):
    seen = window_mask(len(scores), len(scores), None)
    return scores.masked_fill(~seen, -torch.inf).softmax(0)


def window_and_prefix(draw):
    time, prefix, window = draw.tokens(), draw.size("prefix", low=0), draw.size("window")
    return {"scores": draw.normal(time, prefix + time), "window": window, "prefix": prefix}


@LAB.task(
    "07.2",
    "A window with a prefix",
    inputs=window_and_prefix,
    returns="weights [time, prefix + time]",
    corners=(
        {"prefix": 0, "time": 1},
        {"prefix": 0, "window": 2, "time": 5},
        {"prefix": 2, "window": 1, "time": 5},
        {"prefix": 3, "window": 3, "time": 7},
        {"prefix": 2, "window": 9, "time": 4},
    ),
    hints=(
        "Every token sees the first `prefix` columns. For the others, write down when query i may "
        "see token j: there are two conditions.",
        "Token j is seen if 0 ≤ i − j < window. Column prefix + j belongs to token j.",
        "distance = torch.arange(time)[:, None] − torch.arange(time); seen = (distance >= 0) & "
        "(distance < window); put prefix columns of True before it with torch.cat or F.pad.",
    ),
)
def window_weights(scores, window, prefix):
    return softmax_under(scores, window_mask(len(scores), len(scores), window, prefix))


@window_weights.mistake(
    "window too long by one",
    "Your window is one token too long: a window of 1 is the token itself, so i − j stays below "
    "`window`.",
)
def _(scores, window, prefix):
    return window_weights(scores, window + 1, prefix)


@window_weights.mistake(
    "window too short by one",
    "Your window is one token too short: the token itself counts as one of `window`.",
)
def _(scores, window, prefix):
    distance = torch.arange(len(scores))[:, None] - torch.arange(len(scores))
    seen = (distance >= 0) & (distance < max(1, window - 1))
    return softmax_under(scores, F.pad(seen, (prefix, 0), value=True))


@window_weights.mistake(
    "no window",
    "The future is hidden, but the past is not: every token sees everything before it.",
)
def _(scores, window, prefix):
    return window_weights(scores, None, prefix)


@window_weights.mistake(
    "sees the future",
    "A token sees `window` tokens to either side. The ones after it are the future.",
)
def _(scores, window, prefix):
    distance = torch.arange(len(scores))[:, None] - torch.arange(len(scores))
    return softmax_under(scores, F.pad(distance.abs() < window, (prefix, 0), value=True))


@window_weights.mistake(
    "prefix hidden",
    "No token sees the prefix. Its columns come first, and every token may look there.",
)
def _(scores, window, prefix):
    seen = window_mask(len(scores), len(scores), window)
    return softmax_under(scores, F.pad(seen, (prefix, 0), value=False))


@window_weights.mistake(
    "prefix slides out of the window",
    "The prefix is treated as the first tokens of the text, and drops out of the window as the "
    "text goes on. Every token should see it.",
)
def _(scores, window, prefix):
    seen = window_mask(len(scores), scores.shape[1], window)
    return softmax_under(scores, seen)


@window_weights.mistake(
    "prefix at the end",
    "In your mask the prefix has the last columns. It is put before the text, so its columns come "
    "first.",
)
def _(scores, window, prefix):
    seen = window_mask(len(scores), len(scores), window)
    return softmax_under(scores, F.pad(seen, (0, prefix), value=True))


def pairs_at_places(draw):
    time, pairs = draw.tokens(), draw.size("pairs")
    return {
        "a": draw.normal(time, pairs),
        "b": draw.normal(time, pairs),
        "first": draw.size("first", low=0),
    }


@LAB.task(
    "07.3",
    "Rotary positions",
    inputs=pairs_at_places,
    returns=("a [time, pairs]", "b [time, pairs]"),
    corners=({"first": 0, "time": 1}, {"first": 0, "time": 6}, {"first": 30, "pairs": 3}),
    hints=(
        "A pair (a, b) is a point in the plane. How do you turn it by an angle?",
        "The token in row t is at place first + t. Its pair j turns by place · 10000^(−j / pairs).",
        "With angle [time, pairs]: a · cos − b · sin and a · sin + b · cos. The angle is an outer "
        "product: a column of places times a row of speeds.",
    ),
)
def rotate(a, b, first):
    # The library turns one vector whose halves are the two sides of the pairs.
    both = library_rotate(torch.cat([a, b], -1), torch.arange(first, first + len(a)))
    return both.chunk(2, -1)


def turned(a, b, angle):
    return a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()


def places(a, first):
    return torch.arange(first, first + len(a), dtype=a.dtype)[:, None]


@rotate.mistake(
    "turned the other way",
    "Your pairs turn the other way: look at the signs of the sines. A turn of 90° should take the "
    "point (1, 0) to (0, 1).",
)
def _(a, b, first):
    both = library_rotate(torch.cat([a, b], -1), -torch.arange(first, first + len(a)))
    return both.chunk(2, -1)


@rotate.mistake(
    "the new a in the new b",
    "You compute the new b from the new a. Both need the old pair.",
)
def _(a, b, first):
    speed = 10_000.0 ** (-torch.arange(a.shape[1], dtype=a.dtype) / a.shape[1])
    angle = places(a, first) * speed
    a = a * angle.cos() - b * angle.sin()
    return a, a * angle.sin() + b * angle.cos()


@rotate.mistake(
    "begins at zero",
    "The first row is taken to be at place 0. It is at place `first`: a text may come in pieces.",
)
def _(a, b, first):
    return rotate(a, b, 0)


@rotate.mistake(
    "one angle for all pairs",
    "All pairs turn at the same speed. Pair j is slower than pair 0, by 10000^(−j / pairs).",
)
def _(a, b, first):
    return turned(a, b, places(a, first))


@rotate.mistake(
    "half the exponent",
    "The exponent is half of what it should be: j is divided by the number of pairs, not by the "
    "number of channels, which is twice that.",
)
def _(a, b, first):
    speed = 10_000.0 ** (-torch.arange(a.shape[1], dtype=a.dtype) / (2 * a.shape[1]))
    return turned(a, b, places(a, first) * speed)


@rotate.mistake(
    "off by one",
    "Every token is one place further on than it should be: places count from `first`.",
)
def _(a, b, first):
    return rotate(a, b, first + 1)


def persistent_tokens(draw):
    tokens, dim = draw.size("tokens"), draw.size("dim")
    d_key, d_value = draw.size("d_key"), draw.size("d_value")
    return {
        "p": draw.normal(tokens, dim),
        "to_query": draw.normal(d_key, dim),
        "to_key": draw.normal(d_key, dim),
        "to_value": draw.normal(d_value, dim),
    }


@LAB.task(
    "07.4",
    "Persistent tokens as a feed-forward layer",
    inputs=persistent_tokens,
    returns=("W_K [tokens, dim]", "W_V [d_value, tokens]"),
    hints=(
        "Write the score of token x with persistent token n: its query is to_query @ x, the key is "
        "to_key @ p_n, and the score is their product divided by √d_key. What is multiplied by x?",
        "(to_key p_n) · (to_query x) = (to_queryᵀ to_key p_n) · x. The vector before the x is row "
        "n of W_K. And column n of W_V is the value of p_n.",
        "W_K = (p @ to_key.T) @ to_query / d_key ** 0.5, and W_V = to_value @ p.T.",
    ),
)
def feed_forward(p, to_query, to_key, to_value):
    return (p @ to_key.T) @ to_query / len(to_key) ** 0.5, to_value @ p.T


@feed_forward.mistake(
    "not divided by √d_key",
    "W_V is right. The scores of attention are divided by √d_key, and W_K x must give the same "
    "scores.",
)
def _(p, to_query, to_key, to_value):
    return (p @ to_key.T) @ to_query, to_value @ p.T


@feed_forward.mistake(
    "queries and keys swapped",
    "You ask with p and look up x. It is the text that asks: x goes through to_query, p through "
    "to_key.",
)
def _(p, to_query, to_key, to_value):
    return (p @ to_query.T) @ to_key / len(to_key) ** 0.5, to_value @ p.T


@feed_forward.mistake(
    "W_V transposed",
    "W_V is transposed. In (20) it is on the left, so its columns are the values.",
)
def _(p, to_query, to_key, to_value):
    return feed_forward(p, to_query, to_key, to_value)[0], p @ to_value.T


@feed_forward.mistake(
    "divided by √dim",
    "You divide by the root of dim, the size of a token. Attention divides by the root of the size "
    "of a key.",
)
def _(p, to_query, to_key, to_value):
    return (p @ to_key.T) @ to_query / p.shape[1] ** 0.5, to_value @ p.T


@feed_forward.mistake(
    "the queries' projection is missing",
    "These are the keys of p, but x is not a query: it must still go through to_query, and "
    "W_K x has no other place for it.",
)
def _(p, to_query, to_key, to_value):
    return (p @ to_key.T) / len(to_key) ** 0.5, to_value @ p.T
