"""Lab 10: a needle in a haystack. The task's rows and targets, what counts as found, and why."""

import torch
import torch.nn.functional as F

from minititans.course.labs.task import Lab
from minititans.tasks import IGNORE
from minititans.tasks.needle import ASK, MARK

LAB = Lab("10", "A needle in a haystack")


def whole_numbers(draw, low: int, high: int, *shape: int) -> torch.Tensor:
    """From low to high, both included."""
    return torch.randint(low, high + 1, shape, generator=draw.rng)


# Rows of the four shortest lengths there are.
SHORT = tuple({"value_tokens": 1, "time": time} for time in range(1, 5))


def noise_and_facts(draw) -> dict:
    batch, value_tokens = draw.size("batch"), draw.size("value_tokens")
    room = draw.tokens(6) - 1  # words of noise that neither needle nor question replaces
    return {
        "noise": whole_numbers(draw, 32, 63, batch, 2 * (2 + value_tokens) + room),
        "starts": whole_numbers(draw, 0, room, batch),
        "key": whole_numbers(draw, 2, 15, batch),
        "value": whole_numbers(draw, 16, 31, batch, value_tokens),
    }


@LAB.task(
    "10.1",
    "A needle in every row",
    inputs=noise_and_facts,
    returns="tokens [batch, time]",
    gradients=False,
    corners=SHORT,
    hints=(
        "Write one row on paper: which tokens does the needle replace, and which the question? The "
        "row stays as long as it was.",
        "Work on a copy of the noise. Row b: [MARK, key, value …] from starts[b] on, and "
        "[ASK, key, value …] over its last tokens.",
        "A loop over rows is fine. With n = 2 + value.shape[1] and fact = torch.cat([key[b:b+1], "
        "value[b]]), tokens[b, starts[b] + 1 : starts[b] + n] = fact, and the last n − 1 tokens "
        "are the same fact.",
    ),
)
def haystack(noise, starts, key, value):
    return _rows(noise, starts, key, value)


def _rows(noise, starts, key, value, mark=MARK, asked=ASK, question=True):
    """The rows by scatter, with places where something else can be put in."""
    facts = torch.cat([key[:, None], value], 1)
    width = 1 + facts.shape[1]
    needle = F.pad(facts, (1, 0), value=mark)
    tokens = noise.scatter(1, starts[:, None] + torch.arange(width), needle)
    if question:
        tokens[:, -width:] = F.pad(facts, (1, 0), value=asked)
    return tokens


@haystack.mistake(
    "one place for all rows",
    "Every row has its needle where the first row has it. starts holds one place per row.",
)
def _(noise, starts, key, value):
    return _rows(noise, starts[:1].expand_as(starts), key, value)


@haystack.mistake(
    "no question",
    "The needle is there, but the row ends in noise. The question and its answer replace the last "
    "tokens.",
)
def _(noise, starts, key, value):
    return _rows(noise, starts, key, value, question=False)


@haystack.mistake(
    "MARK and ASK swapped",
    "MARK and ASK are swapped: MARK announces the fact, ASK the question.",
)
def _(noise, starts, key, value):
    return _rows(noise, starts, key, value, mark=ASK, asked=MARK)


@haystack.mistake(
    "needle inserted",
    "The rows have grown: you insert needle and question between the words. They replace words of "
    "the noise, so that a row stays as long as it was.",
)
def _(noise, starts, key, value):
    facts = torch.cat([key[:, None], value], 1)
    rows = [
        torch.cat([
            row[:start], torch.tensor([MARK]), fact, row[start:], torch.tensor([ASK]), fact,
        ])
        for row, start, fact in zip(noise, starts.tolist(), facts)
    ]  # fmt: skip
    return torch.stack(rows)


@haystack.mistake(
    "off by one",
    "The needles begin one token too late. MARK itself is at starts.",
)
def _(noise, starts, key, value):
    return _rows(noise, starts + 1, key, value)


@haystack.mistake(
    "value before key",
    "Key and value are swapped. The key comes first: it is what the question asks for.",
)
def _(noise, starts, key, value):
    facts, width = torch.cat([value, key[:, None]], 1), 2 + value.shape[1]
    tokens = noise.scatter(1, starts[:, None] + torch.arange(width), F.pad(facts, (1, 0)))
    tokens[:, -width:] = F.pad(facts, (1, 0), value=ASK)
    return tokens


@haystack.mistake(
    "question without its answer",
    "The rows end with the key. The answer belongs to the row, too: the model is compared with it, "
    "and when a value has several tokens, the model reads each one before it says the next.",
)
def _(noise, starts, key, value):
    tokens = _rows(noise, starts, key, value, question=False)
    tokens[:, -2:] = torch.stack([torch.full_like(key, ASK), key], 1)
    return tokens


def tokens_and_width(draw) -> dict:
    value_tokens = draw.number("value_tokens", 1, 5)
    time = value_tokens + 1 + draw.tokens(6)
    return {
        "tokens": whole_numbers(draw, 0, 63, draw.size("batch"), time),
        "value_tokens": value_tokens,
    }


@LAB.task(
    "10.2",
    "What counts",
    inputs=tokens_and_width,
    returns="targets [batch, time]",
    gradients=False,
    corners=SHORT,
    hints=(
        "At which place does a language model say the last token of a row: at the last place, or "
        "one earlier?",
        "The target at place t is the token at t + 1. Only the last value_tokens tokens of a row "
        "count, so only that many places have a target, and the last place of all has none.",
        "Begin with torch.full_like(tokens, IGNORE). Then fill the places from −value_tokens − 1 "
        "up to, but not including, −1.",
    ),
)
def targets_of(tokens, value_tokens):
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -value_tokens - 1 : -1] = tokens[:, -value_tokens:]
    return targets


@targets_of.mistake(
    "not shifted",
    "The targets are at the places of the tokens themselves. There the model has already read the "
    "token and only needs to repeat it: it would learn to copy, not to remember.",
)
def _(tokens, value_tokens):
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -value_tokens:] = tokens[:, -value_tokens:]
    return targets


@targets_of.mistake(
    "every token",
    "Every token is a target. Noise cannot be predicted, and hundreds of its tokens would drown "
    "the few that count.",
)
def _(tokens, value_tokens):
    return F.pad(tokens[:, 1:], (0, 1), value=IGNORE)


@targets_of.mistake(
    "the key too",
    "The key is a target too. Nobody can know in advance which key will be asked for.",
)
def _(tokens, value_tokens):
    return targets_of(tokens, value_tokens + 1)


@targets_of.mistake(
    "one token of the value",
    "Only one token of the value counts. A value of several tokens is found when all are right.",
)
def _(tokens, value_tokens):
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -value_tokens - 1] = tokens[:, -value_tokens]
    return targets


@targets_of.mistake(
    "zero for IGNORE",
    "Where nothing is asked you have 0, which is the token MARK. The loss leaves out IGNORE.",
)
def _(tokens, value_tokens):
    targets = targets_of(tokens, value_tokens)
    return targets.masked_fill(targets == IGNORE, 0)


@targets_of.mistake(
    "shifted the other way",
    "The targets are one place too late. The model speaks before it reads: what it says at place t "
    "is compared with the token at t + 1.",
)
def _(tokens, value_tokens):
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -value_tokens:] = tokens[:, -value_tokens - 1 : -1]
    return targets


def logits_and_targets(draw) -> dict:
    batch, value_tokens = draw.size("batch", 2, 6), draw.number("value_tokens", 1, 3)
    time, vocab = value_tokens + draw.tokens(5), draw.size("vocab", 3, 6)
    targets = torch.full((batch, time), IGNORE)
    targets[:, -value_tokens - 1 : -1] = whole_numbers(draw, 0, vocab - 1, batch, value_tokens)
    logits = draw.normal(batch, time, vocab)
    # Row 0 says everything right, row 1 all but one token, the others as it comes.
    said = torch.rand(batch, time, generator=draw.rng) < 0.7
    said[0], said[1, -value_tokens - 1 : -1] = True, True
    said[1, -2 if draw.case % 2 else -value_tokens - 1] = False
    meant = torch.where(said, targets, (targets + 1) % vocab).clamp(min=0)
    logits = logits.scatter_add(2, meant[..., None], torch.full_like(logits[..., :1], 9.0))
    return {"logits": logits, "targets": targets}


@LAB.task(
    "10.3",
    "Found or not",
    inputs=logits_and_targets,
    returns="found [batch]",
    gradients=False,
    never_zero=("logits",),  # between equal logits there is no right answer
    hints=(
        "When has a model found a value of three tokens? When it says one of them, or all?",
        "What it says is the argmax over the last axis. Compare it with the targets, and let "
        "places with IGNORE count as right.",
        "right = (said == targets) | (targets == IGNORE), then .all over time, then back to the "
        "logits' dtype: .to(logits.dtype).",
    ),
)
def found(logits, targets):
    return _right(logits, targets).all(1).to(logits.dtype)


def _right(logits, targets):
    return (logits.argmax(-1) == targets) | (targets == IGNORE)


@found.mistake(
    "share of the tokens",
    "This is the share of a value's tokens that are right. Half a number is of no use: a needle is "
    "found when all of its tokens are right.",
)
def _(logits, targets):
    asked = targets != IGNORE
    return (_right(logits, targets) & asked).sum(1) / asked.sum(1).to(logits.dtype)


@found.mistake(
    "one token is enough",
    "You accept a single right token. A needle is found when all of its tokens are right.",
)
def _(logits, targets):
    return (logits.argmax(-1) == targets).any(1).to(logits.dtype)


@found.mistake(
    "IGNORE counted",
    "You also compare where nothing is asked. There the target is IGNORE, which no model can say.",
)
def _(logits, targets):
    return (logits.argmax(-1) == targets).all(1).to(logits.dtype)


@found.mistake(
    "shifted twice",
    "You shift the targets against the logits. They are already shifted: the target at place t is "
    "what the model should say there.",
)
def _(logits, targets):
    right = _right(logits[:, :-1], targets[:, 1:])
    return right.all(1).to(logits.dtype)


@found.mistake(
    "one number for all rows",
    "This is one number for the whole batch. The next task needs to know which rows were found.",
)
def _(logits, targets):
    return _right(logits, targets).all(1).to(logits.dtype).mean()


def found_and_depth(draw) -> dict:
    samples, bins = draw.size("samples", 1, 12), draw.number("bins", 1, 5)
    depth = whole_numbers(draw, 0, 64, samples) / 64
    depth[-1] = 1.0  # there is an end
    return {
        "found": whole_numbers(draw, 0, 1, samples).double(),
        "depth": depth.double(),
        "bins": bins,
    }


@LAB.task(
    "10.4",
    "Accuracy by depth",
    inputs=found_and_depth,
    returns="share [bins]",
    gradients=False,
    corners=(
        {"depth": 1.0},
        {"depth": 0.5, "bins": 2, "samples": 4},
        {"found": 1.0, "samples": 9, "bins": 3},
    ),
    hints=(
        "Which part of the haystack does a depth of 0.3 belong to, if there are 4 parts? And a "
        "depth of exactly 1?",
        "Part number = depth · bins, rounded down, but never more than bins − 1. Then, for each "
        "part: how many were found, divided by how many there were.",
        "part = (depth * bins).long().clamp(max=bins − 1). For each number i, the mean of "
        "found[part == i]. The mean of nothing is NaN, and that is what it should be.",
    ),
)
def by_depth(found, depth, bins):
    return _shares(found, (depth * bins).long().clamp(max=bins - 1), bins)


def _shares(found, part, bins):
    member = F.one_hot(part, bins).to(found.dtype)  # [samples, bins]
    return found @ member / member.sum(0)


@by_depth.mistake(
    "the end falls out",
    "A depth of exactly 1 is in none of your parts. It belongs to the last one.",
)
def _(found, depth, bins):
    inside = depth < 1
    return _shares(found[inside], (depth[inside] * bins).long(), bins)


@by_depth.mistake(
    "counts for shares",
    "You count needles. With more haystacks a count grows; a share does not.",
)
def _(found, depth, bins):
    part = (depth * bins).long().clamp(max=bins - 1)
    return found @ F.one_hot(part, bins).to(found.dtype)


@by_depth.mistake(
    "divided by all haystacks",
    "You divide by the number of all haystacks. Divide by the number of those whose needle lies in "
    "that part.",
)
def _(found, depth, bins):
    part = (depth * bins).long().clamp(max=bins - 1)
    return found @ F.one_hot(part, bins).to(found.dtype) / len(found)


@by_depth.mistake(
    "nothing known is not zero",
    "Where no needle lies you say 0: none found. But nothing is known there. Let 0/0 be NaN.",
)
def _(found, depth, bins):
    return by_depth(found, depth, bins).nan_to_num(0.0)


@by_depth.mistake(
    "nearest in place of below",
    "You round the depth to the nearest of several points. Parts are intervals: 0 to 1/bins, and "
    "so on.",
)
def _(found, depth, bins):
    return _shares(found, (depth * (bins - 1)).round().long(), bins)


@by_depth.mistake(
    "upside down",
    "The parts are in reverse. Depth 0, the beginning of the haystack, is the first.",
)
def _(found, depth, bins):
    return by_depth(found, depth, bins).flip(0)


KEEPS, FORGETS, DIES = 0, 1, 2


def old_and_new(draw) -> dict:
    models = draw.size("models", 1, 6)
    return {"old": draw.gate(models), "new": draw.gate(models)}


@LAB.task(
    "10.5",
    "What happened to the memory?",
    inputs=old_and_new,
    returns="verdict [models]",
    gradients=False,
    corners=(
        {"old": 0.5, "new": 0.5},
        {"old": 0.9, "new": 0.1},
        {"old": 0.1, "new": 0.9},
        {"old": 0.1, "new": 0.1},
        {"old": 0.49, "new": 0.51},
    ),
    hints=(
        "Take a memory that cannot learn a new needle. If the old one is gone too, does that "
        "tell you anything more?",
        "Ask about the new needle first. If it is lost, the memory is dead, whatever became of the "
        "old one. Only then does the old one tell forgetting from keeping.",
        "torch.where(new < 0.5, DIES, torch.where(old < 0.5, FORGETS, KEEPS)) is a tensor of whole "
        "numbers.",
    ),
)
def verdict(old, new):
    return torch.where(new < 0.5, DIES, torch.where(old < 0.5, FORGETS, KEEPS))


@verdict.mistake(
    "old needle asked first",
    "Where both needles are lost you say that it forgets. But a memory that only forgets would "
    "have learned the new needle: this one is dead.",
)
def _(old, new):
    return torch.where(old < 0.5, FORGETS, torch.where(new < 0.5, DIES, KEEPS))


@verdict.mistake(
    "dead only if both are lost",
    "You call a memory dead only where the old needle is lost too. A dead memory may still hold "
    "what it learned while it was alive.",
)
def _(old, new):
    dead = (old < 0.5) & (new < 0.5)
    return torch.where(dead, DIES, torch.where(old < 0.5, FORGETS, KEEPS))


@verdict.mistake(
    "forgetting and dying swapped",
    "Forgetting and dying are swapped. Which of the two takes the old needles, and which lets no "
    "new one in?",
)
def _(old, new):
    return torch.where(new < 0.5, FORGETS, torch.where(old < 0.5, DIES, KEEPS))


@verdict.mistake(
    "one half is lost",
    "You call a probability of exactly one half lost. Lost is *below* one half.",
)
def _(old, new):
    return torch.where(new <= 0.5, DIES, torch.where(old <= 0.5, FORGETS, KEEPS))


@verdict.mistake(
    "only the old needle",
    "You look at the old needle only. Then forgetting and dying cannot be told apart.",
)
def _(old, new):
    return torch.where(old < 0.5, FORGETS, KEEPS)
