"""Lab 08: three ways to add a memory. MAL's order, the gate, MAG, MAC's segment, a leak."""

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.attention import segment_mask, window_mask
from minititans.course.labs.rule import library
from minititans.course.labs.task import Lab

LAB = Lab("08", "Three ways to add a memory")
EPS, SILENT = 1e-6, 1.0  # what the two sides of the gate add to the mean of their squares


# The parts that the lab gives, by other means: the library's rule and masks, torch's attention.


def ask(M, x):
    return _unit(x) @ M.T


def write(M, x, theta):
    keys, gate = _unit(x)[None], theta.expand(1, len(x))
    nothing = torch.zeros_like(gate)
    y, M, _ = library(keys, keys, x[None], gate, nothing, nothing, M)
    return y[0], M[0]


def attend(x, context, visible):
    return F.scaled_dot_product_attention(x[None], context[None], context[None], visible)[0]


def norm(x, weight, least: float = EPS, axis: int = -1):
    return weight * x / (x.square().mean(axis, keepdim=True) + least).sqrt()


def _unit(x):
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()


def some_text(draw) -> dict:
    """M, p and x, and theta as one number."""
    dim, persistent = draw.size("dim"), draw.size("persistent")
    return {
        "M": draw.normal(dim, dim),
        "p": draw.normal(persistent, dim),
        "x": draw.normal(draw.tokens(5), dim),
        "theta": draw.gate(),
    }


def with_window(draw) -> dict:
    window = draw.size("window")
    return some_text(draw) | {"window": window}


def weights(draw, dim: int) -> dict:
    return {"weight_y": draw.normal(dim), "weight_m": draw.normal(dim)}


@LAB.task(
    "08.1",
    "MAL: one after the other",
    inputs=with_window,
    returns="o [time, dim]",
    hints=(
        "Follow one token: which reads it first, the memory or attention? What does the other one "
        "get to see?",
        "p and x become one sequence. The memory writes all of it; attention slides over its "
        "answers. Finally, drop those that belong to p.",
        "torch.cat([p, x]), then write(...)[0], then attend(y, y, sees(...)) and [len(p):].",
    ),
)
def mal(M, p, x, theta, window):
    return _mal(M, p, x, theta, window_mask(len(p) + len(x), len(p) + len(x), window))


def _mal(M, p, x, theta, visible):
    y, _ = write(M, torch.cat([p, x]), theta)
    return attend(y, y, visible)[len(p) :]


def _square(p, x, window):
    return window_mask(len(p) + len(x), len(p) + len(x), window)


@mal.mistake(
    "attention first",
    "Here attention reads the words and the memory reads what attention found. In MAL the memory "
    "comes first.",
)
def _(M, p, x, theta, window):
    px = torch.cat([p, x])
    return write(M, attend(px, px, _square(p, x, window)), theta)[0][len(p) :]


@mal.mistake(
    "memory does not read p",
    "The memory should read p before x: then p is written, and the first windows see its answers.",
)
def _(M, p, x, theta, window):
    return _mal(M, p[:0], x, theta, window_mask(len(x), len(x), window))


@mal.mistake(
    "asked, not written",
    "The memory is asked, M*, but never written. M(x) without a star changes M with every token.",
)
def _(M, p, x, theta, window):
    y = ask(M, torch.cat([p, x]))
    return attend(y, y, _square(p, x, window))[len(p) :]


@mal.mistake(
    "attention to the words",
    "Attention looks at the words themselves, and the memory's answers are lost.",
)
def _(M, p, x, theta, window):
    px = torch.cat([p, x])
    return attend(px, px, _square(p, x, window))[len(p) :]


@mal.mistake(
    "queries from the words",
    "Your queries are the words, and your keys the memory's answers. In (31) the answers are both.",
)
def _(M, p, x, theta, window):
    px = torch.cat([p, x])
    return attend(px, write(M, px, theta)[0], _square(p, x, window))[len(p) :]


@mal.mistake("no window", "Every token sees everything before it. Where is the window?")
def _(M, p, x, theta, window):
    return _mal(M, p, x, theta, _square(p, x, None))


@mal.mistake(
    "window off by one", "The window shows one token too many: a token itself counts as one."
)
def _(M, p, x, theta, window):
    return _mal(M, p, x, theta, _square(p, x, window + 1))


@mal.mistake(
    "p in every window",
    "Here every token sees p. That is MAG's window with a star; in MAL p drops out of the window.",
)
def _(M, p, x, theta, window):
    y, _ = write(M, torch.cat([p, x]), theta)
    return attend(y[len(p) :], y, window_mask(len(x), len(x), window, len(p)))


def two_branches(draw) -> dict:
    dim, time = draw.size("dim"), draw.tokens(5)
    return {"y": draw.normal(time, dim), "m": draw.normal(time, dim)} | weights(draw, dim)


@LAB.task(
    "08.2",
    "The gate",
    inputs=two_branches,
    returns="o [time, dim]",
    hints=(
        "There are two sides, and each is normalised first. Which of them then decides how much of "
        "the other gets through?",
        "Each mean is over the last axis only, with keepdim=True, so that it divides each token by "
        "its own number. The weights come after that.",
        "torch.sigmoid turns attention's side into numbers from 0 to 1; times 2, a side of zeros "
        "leaves the other as it is.",
    ),
)
def gate(y, m, weight_y, weight_m):
    # torch's own norm: an implementation that this lab did not write
    size = y.shape[-1:]
    opening = torch.sigmoid(F.rms_norm(y, size, weight_y, EPS))
    return 2 * opening * F.rms_norm(m, size, weight_m, SILENT)


@gate.mistake(
    "sides swapped",
    "The memory is the gate here, and attention's side passes through it. It is the other way "
    "round.",
)
def _(y, m, weight_y, weight_m):
    return gate(m, y, weight_m, weight_y)


@gate.mistake(
    "factor of two missing",
    "Your gate goes from 0 to 1: it can shrink a number, but never enlarge it. Where is the 2?",
)
def _(y, m, weight_y, weight_m):
    return gate(y, m, weight_y, weight_m) / 2


@gate.mistake("nothing normalised", "Both sides need the norm before their weights.")
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(weight_y * y) * weight_m * m


@gate.mistake(
    "memory not normalised", "The gate is right. The memory's side needs its norm as well."
)
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(norm(y, weight_y)) * weight_m * m


@gate.mistake("no sigmoid", "The sides are multiplied as they are: what turns y into a gate?")
def _(y, m, weight_y, weight_m):
    return 2 * norm(y, weight_y) * norm(m, weight_m, SILENT)


@gate.mistake("added", "The two sides are added. A gate multiplies, number by number.")
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(norm(y, weight_y)) + norm(m, weight_m, SILENT)


@gate.mistake(
    "norm over the tokens",
    "The mean runs over the tokens: then a token's answer depends on later ones. Take it over the "
    "numbers of one token.",
)
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(norm(y, weight_y, EPS, 0)) * norm(m, weight_m, SILENT, 0)


@gate.mistake(
    "weights inside the norm", "The weights come first and the norm undoes part of them again."
)
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(norm(weight_y * y, 1.0)) * norm(weight_m * m, 1.0, SILENT)


@gate.mistake(
    "memory never silent",
    "On the memory's side almost nothing is added to the mean, so its noise is as loud as its "
    "answers. Add 1 to the mean there.",
)
def _(y, m, weight_y, weight_m):
    return 2 * torch.sigmoid(norm(y, weight_y)) * norm(m, weight_m)


def with_window_and_gate(draw) -> dict:
    text = with_window(draw)
    return text | weights(draw, len(text["M"]))


@LAB.task(
    "08.3",
    "MAG: side by side",
    inputs=with_window_and_gate,
    returns="o [time, dim]",
    hints=(
        "There are two branches that read the same words. Write each of them alone, then join them "
        "with your gate.",
        "For attention the queries are the tokens of x, and the context is p and x. Its mask has "
        "two parts side by side: all True for p, the sliding window for x.",
        "The memory writes torch.cat([p, x]); of its answers keep those from len(p) on. Then "
        "gate(y, m, weight_y, weight_m).",
    ),
)
def mag(M, p, x, theta, window, weight_y, weight_m):
    y, m = _branches(M, p, x, theta, window)
    return gate(y, m, weight_y, weight_m)


def _branches(M, p, x, theta, window, visible=None):
    visible = window_mask(len(x), len(x), window, len(p)) if visible is None else visible
    px = torch.cat([p, x])
    return attend(x, px, visible), write(M, px, theta)[0][len(p) :]


@mag.mistake(
    "memory does not read p", "Attention's side is right. The memory should read p before x, too."
)
def _(M, p, x, theta, window, weight_y, weight_m):
    y, _ = _branches(M, p, x, theta, window)
    return gate(y, write(M, x, theta)[0], weight_y, weight_m)


@mag.mistake(
    "attention does not see p", "The memory's side is right. Every token should also see all of p."
)
def _(M, p, x, theta, window, weight_y, weight_m):
    _, m = _branches(M, p, x, theta, window)
    return gate(attend(x, x, window_mask(len(x), len(x), window)), m, weight_y, weight_m)


@mag.mistake(
    "p drops out of the window",
    "Here p is part of the sliding window, and drops out of sight after a few tokens. The star in "
    "(27) keeps it visible.",
)
def _(M, p, x, theta, window, weight_y, weight_m):
    y, m = _branches(M, p, x, theta, window, _square(p, x, window)[len(p) :])
    return gate(y, m, weight_y, weight_m)


@mag.mistake(
    "one after the other",
    "The memory reads what attention found. In MAG both read the words, side by side.",
)
def _(M, p, x, theta, window, weight_y, weight_m):
    y, _ = _branches(M, p, x, theta, window)
    m = write(M, torch.cat([p, y]), theta)[0][len(p) :]
    return gate(y, m, weight_y, weight_m)


@mag.mistake(
    "asked, not written",
    "The memory is asked, M*, but never written. M(x) without a star changes M with every token.",
)
def _(M, p, x, theta, window, weight_y, weight_m):
    y, _ = _branches(M, p, x, theta, window)
    return gate(y, ask(M, x), weight_y, weight_m)


@mag.mistake("sides swapped", "Attention and memory have changed places in the gate.")
def _(M, p, x, theta, window, weight_y, weight_m):
    y, m = _branches(M, p, x, theta, window)
    return gate(m, y, weight_y, weight_m)


@mag.mistake(
    "window off by one", "The window shows one token too many: a token itself counts as one."
)
def _(M, p, x, theta, window, weight_y, weight_m):
    return mag(M, p, x, theta, window + 1, weight_y, weight_m)


def a_segment(draw) -> dict:
    text = some_text(draw)
    named = {"M": text["M"], "p": text["p"], "S": text["x"], "theta": text["theta"]}
    return named | weights(draw, len(text["M"]))


@LAB.task(
    "08.4",
    "MAC: one segment",
    inputs=a_segment,
    returns=("o [time, dim]", "M [dim, dim]"),
    hints=(
        "Five lines, in the table's order. Which of them ask the memory, and which one writes?",
        "The context is torch.cat([p, h, S]), so the mask has three parts side by side: all True, "
        "and then the lower triangle with its diagonal, twice.",
        "write(M, y, theta) gives both what (24) and what (25) need: the answers after each write, "
        "and the memory at the end.",
    ),
)
def mac_segment(M, p, S, theta, weight_y, weight_m):
    return _segment(M, p, S, theta, weight_y, weight_m)


def _segment(
    M, p, S, theta, weight_y, weight_m, *, visible=None, last_M=False, recall=None
) -> tuple[Tensor, Tensor]:
    """A segment of MAC, with places where something else can be put in."""
    h = ask(M, S) if recall is None else recall
    visible = segment_mask(len(S), len(S), len(p)) if visible is None else visible
    y = S + attend(S, torch.cat([p, h, S]), visible)
    m, M = write(M, y, theta)
    return gate(y, ask(M, y) if last_M else m, weight_y, weight_m), M


@mac_segment.mistake(
    "recalled after the write",
    "h comes from a memory that has already written this segment. (21) asks the one from before.",
)
def _(M, p, S, theta, weight_y, weight_m):
    h = ask(write(M, S, theta)[1], S)
    return _segment(M, p, S, theta, weight_y, weight_m, recall=h)


@mac_segment.mistake(
    "all of h visible",
    "A token sees what the memory says about later tokens, and so learns which ones they are. Only "
    "token j and those after it may see h_j.",
)
def _(M, p, S, theta, weight_y, weight_m):
    visible = segment_mask(len(S), len(S), len(p), literal=True)
    return _segment(M, p, S, theta, weight_y, weight_m, visible=visible)


@mac_segment.mistake(
    "asked at the segment's end",
    "The last answers come from the memory at the segment's end, which has read later tokens. Each "
    "token gets the answer right after its own write.",
)
def _(M, p, S, theta, weight_y, weight_m):
    return _segment(M, p, S, theta, weight_y, weight_m, last_M=True)


@mac_segment.mistake(
    "writes the words",
    "The memory writes the segment as it came. In (24) it writes y, what attention made of it.",
)
def _(M, p, S, theta, weight_y, weight_m):
    y = S + attend(S, torch.cat([p, ask(M, S), S]), segment_mask(len(S), len(S), len(p)))
    m, M = write(M, S, theta)
    return gate(y, m, weight_y, weight_m), M


@mac_segment.mistake(
    "no residual", "y is what attention found, and S itself is missing: y = S + Attn(...)."
)
def _(M, p, S, theta, weight_y, weight_m):
    y = attend(S, torch.cat([p, ask(M, S), S]), segment_mask(len(S), len(S), len(p)))
    m, M = write(M, y, theta)
    return gate(y, m, weight_y, weight_m), M


@mac_segment.mistake("p left out", "The persistent tokens are missing from the context.")
def _(M, p, S, theta, weight_y, weight_m):
    return _segment(M, p[:0], S, theta, weight_y, weight_m)


@mac_segment.mistake(
    "h left out", "What was recalled is missing from the context: then this is not MAC."
)
def _(M, p, S, theta, weight_y, weight_m):
    visible = window_mask(len(S), len(S), None, len(p))
    return _segment(M, p, S, theta, weight_y, weight_m, visible=visible, recall=S[:0])


@mac_segment.mistake(
    "h at the gate",
    "The gate gets h, from before the segment. (25) asks the memory again, after the write.",
)
def _(M, p, S, theta, weight_y, weight_m):
    h = ask(M, S)
    y = S + attend(S, torch.cat([p, h, S]), segment_mask(len(S), len(S), len(p)))
    return gate(y, h, weight_y, weight_m), write(M, y, theta)[1]


@mac_segment.mistake(
    "old memory returned",
    "The answers are right. The M that you return is the one from before the segment.",
)
def _(M, p, S, theta, weight_y, weight_m):
    return mac_segment(M, p, S, theta, weight_y, weight_m)[0], M


def text_in_segments(draw) -> dict:
    segment = draw.size("segment")
    text = some_text(draw)
    return text | {"segment": segment} | weights(draw, len(text["M"]))


@LAB.task(
    "08.5",
    "Find the leak",
    inputs=text_in_segments,
    returns="o [time, dim]",
    corners=({"segment": 4, "time": 8}, {"segment": 8, "time": 5}),
    hints=(
        "For each line ask: can anything of a later token get into an earlier one's answer here? "
        "Attention has a mask with three parts; the memory is asked in two places.",
        "One leak is in the words' part of the mask, one in that of h, one in what the gate is "
        "given. Your 08.4 has none of them.",
        "torch.ones(n, n).tril(1) keeps one diagonal too many. What does the underscore in "
        "`_, M = write(...)` throw away?",
    ),
)
def causal_mac(M, p, x, theta, segment, weight_y, weight_m):
    return _in_segments(M, p, x, theta, segment, weight_y, weight_m)


LEAKS = {
    "the next word": "the words' mask still shows the next word",
    "h": "h_j is still visible before token j",
    "the last M": "the gate still asks the memory of the segment's end",
}


def _in_segments(M, p, x, theta, segment, weight_y, weight_m, leaks=(), start_over=False):
    outputs, start = [], M
    for S in x.split(segment):
        n, M = len(S), start if start_over else M
        p_part, h_part, S_part = segment_mask(n, n, len(p)).tensor_split([len(p), len(p) + n], 1)
        if "the next word" in leaks:
            S_part = torch.ones(n, n).tril(1).bool()
        if "h" in leaks:
            h_part = torch.ones(n, n).bool()
        visible = torch.cat([p_part, h_part, S_part], 1)
        last_M = "the last M" in leaks
        o, M = _segment(M, p, S, theta, weight_y, weight_m, visible=visible, last_M=last_M)
        outputs.append(o)
    return torch.cat(outputs)


def _leaking(*leaks):
    def mac(*arguments):
        return _in_segments(*arguments, leaks=leaks)

    return mac


for _left in (
    ("the next word",), ("h",), ("the last M",), ("the next word", "h"),
    ("the next word", "the last M"), ("h", "the last M"), tuple(LEAKS),
):  # fmt: skip
    _words = "; ".join(LEAKS[name] for name in _left)
    _count = {1: "One leak is", 2: "Two leaks are", 3: "All three leaks are"}[len(_left)]
    causal_mac.mistake(f"still leaks: {', '.join(_left)}", f"{_count} left: {_words}.")(
        _leaking(*_left)
    )


@causal_mac.mistake(
    "memory starts over",
    "Every segment begins with the first M. The memory is handed on from segment to segment: that "
    "is what it is for.",
)
def _(*arguments):
    return _in_segments(*arguments, start_over=True)


@causal_mac.mistake(
    "one long segment",
    "The text is read as one segment. Then nothing is recalled from what was written before.",
)
def _(M, p, x, theta, segment, weight_y, weight_m):
    return _in_segments(M, p, x, theta, len(x), weight_y, weight_m)
