"""The stepper: what happened at one token of a matrix memory, everything in sight."""

from torch import Tensor

from minititans.experiments.stepping import STORY, Steps, step_through, story
from minititans.palette import BLUE, FAINT, GREY, INK, NOW_BLUE, PALE, PAST_BLUE
from minititans.viz.axis import round_up
from minititans.viz.charts import NORMAL, SMALL, Box, bars, colour_scale, heatmap
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import Explorer, explorer, player, slider

LIMIT = 1.1  # the number with the fullest colour, unless a larger one must be shown


def draw_step(steps: Steps, token: int) -> Drawing:
    """What happened at one token, counted from 1."""
    t = token - 1
    drawing = Drawing(900, 488)
    _timeline(drawing, Box(60, 40, 820, 84), steps, t)
    name = steps.names[t]
    vectors = {
        f"key of {name[0]}": steps.keys[t],
        f"value {name[1:]}": steps.values[t],
        "prediction M k": steps.predictions[t],
        "error v − M k": steps.errors[t],
    }
    limit = _limit(1.2, *vectors.values())  # one for all four, so that heights can be compared
    for place, (title, vector) in enumerate(vectors.items()):
        box = Box(60 + 210 * place, 178, 180, 64)
        bars(drawing, box, vector, title=title, limit=limit)
    for y, words in ((186, f"{limit:g}"), (215, "0"), (244, f"−{limit:g}")):
        drawing.add(Text(52, y, words, SMALL, "end"))
    for x, sign in ((465, "−"), (675, "=")):
        drawing.add(Text(x, 217, sign, 22, "middle"))
    _matrices(drawing, 294, steps, t)
    return drawing


def _limit(least: float, *shown: Tensor) -> float:
    """The end of a scale: `least`, or a round number if something shown is larger."""
    largest = max(float(each.abs().max()) for each in shown)
    return least if largest <= least else round_up(largest, (1, 1.5, 2, 3, 5, 7))


def _timeline(drawing: Drawing, box: Box, steps: Steps, now: int | None) -> None:
    """One bar per token, as high as its surprise; what is still to come is pale."""
    t = len(steps.names) if now is None else now
    slot, most = box.width / len(steps.names), _limit(1.5, steps.surprise[: t + 1])
    bottom = box.y + box.height
    title = "Surprise of every token" + ("" if now is None else " so far")
    drawing.add(Text(box.x, 20, title, NORMAL, bold=True))
    for height in (0.5, 1.0, 1.5) if most == 1.5 else (most / 2, most):
        y = bottom - height / most * box.height
        drawing.add(Line(((box.x, y), (box.x + box.width, y)), PALE, 1))
        drawing.add(Text(box.x - 8, y + 5, f"{height:g}", SMALL, "end"))
    for i, (name, surprise) in enumerate(zip(steps.names, steps.surprise.tolist())):
        x = box.x + i * slot
        if i == t:
            drawing.add(Rect(x, box.y - 4, slot, box.height + 30, fill=NOW_BLUE))
        if i <= t:
            height = surprise / most * box.height
            colour = BLUE if now is None or i == t else PAST_BLUE
            drawing.add(Rect(x + 5, bottom - height, slot - 10, height, colour))
        colour = INK if i <= t else FAINT
        drawing.add(Text(x + slot / 2, bottom + 19, name, 14, "middle", colour, bold=i == t))
    drawing.add(Line(((box.x, bottom), (box.x + box.width, bottom)), INK, 1))
    if now is not None:
        words = f"token {t + 1} of {len(steps.names)}, surprise {float(steps.surprise[t]):.2f}"
        drawing.add(Text(box.x + box.width, 20, words, NORMAL, "end", BLUE, bold=True))


def _matrices(drawing: Drawing, y: float, steps: Steps, t: int) -> None:
    """M before, −u, S and M after as heat maps, each with the formula that made it."""
    S, M = steps.momentum, steps.memory
    shown = (
        ("M before", M[t], "the memory that was asked"),
        ("−u: what was missing", -steps.gradients[t], "error · keyᵀ"),
        ("S: what is written", S[t + 1], f"{steps.eta:.2f} · S − {steps.theta:.2f} · u"),
        ("M after", M[t + 1], f"{1 - steps.alpha:.2f} · M + S"),
    )
    limit = _limit(LIMIT, *(matrix for _, matrix, _ in shown))
    for place, (title, matrix, formula) in enumerate(shown):
        box = Box(60 + 210 * place, y, 150, 150)
        heatmap(drawing, box, matrix, title=title, limit=limit)
        drawing.add(Text(box.x, y + 168, formula, SMALL, colour=GREY))
        drawing.add(Text(box.x, y + 185, f"norm {float(matrix.norm()):.2f}", SMALL, colour=GREY))
    colour_scale(drawing, Box(730, y - 40, 110, 12), limit)


def draw_surprise(steps: Steps) -> Drawing:
    """The surprise of every token of a story, and nothing else."""
    drawing = Drawing(900, 190)
    _timeline(drawing, Box(60, 40, 820, 110), steps, None)
    return drawing


def stepper(
    keys: Tensor | None = None, values: Tensor | None = None, names: tuple[str, ...] = STORY
) -> Explorer:
    """Step through the story, or through your own pairs: keys, values `[time, dim]`.

    It begins at token 15, where the story has A5: a key that is known, with a new value.
    """
    if keys is None or values is None:
        keys, values = story(names)

    def draw(token: int, theta: float, eta: float, alpha: float) -> Drawing:
        return draw_step(step_through(keys, values, names, theta, eta, alpha), token)

    return explorer(
        draw,
        token=player(min(15, len(names)), 1, len(names), "token", interval=900),
        theta=slider(0.9, 0.0, 1.5, 0.05, "theta: how much is written"),
        eta=slider(0.0, 0.0, 0.95, 0.05, "eta: how long surprise lingers"),
        alpha=slider(0.0, 0.0, 1.0, 0.05, "alpha: how much fades"),
    )
