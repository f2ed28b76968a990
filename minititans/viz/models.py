"""How each model looks in every figure, and what it is called there."""

from minititans.palette import BLACK, BLUE, GREEN, MORE_COLOURS, ORANGE, PURPLE, RED, SKY

OLIVE, WINE, *SPARE = MORE_COLOURS
# Colour, marker and line style of each model: the three together read in grey, too.
LOOKS = {
    "mac": (BLUE, "o", "-"),
    "mag": (GREEN, "s", "-"),
    "mal": (PURPLE, "^", "-"),
    "lmm": (RED, "D", "-"),
    "swa": (SKY, "v", "--"),
    "transformer": (BLACK, "X", "--"),
    "deltanet": (ORANGE, "P", ":"),
    "gated_deltanet": (OLIVE, "*", ":"),
    "mamba2": (WINE, "p", ":"),
}
OTHERS = list(zip(SPARE, "h<>d8Hx+1", (":", "-.", "-.", "-.", "-.", ":", ":", "-.", "-.")))
NAMES = {
    "mac": "MAC", "mag": "MAG", "mal": "MAL", "lmm": "LMM", "swa": "sliding window",
    "transformer": "Transformer", "deltanet": "DeltaNet", "gated_deltanet": "Gated DeltaNet",
    "mamba2": "Mamba-2", "lmm-matrix": "LMM, a matrix", "lmm-frozen": "LMM, frozen chunks",
    "lmm-plain": "LMM, plain layers", "lmm-forgets": "LMM, α from 0.001",
    "linear_attention": "linear attention", "retnet": "RetNet", "gla": "GLA", "hgrn2": "HGRN2",
    "longhorn": "Longhorn", "ttt_linear": "TTT-linear", "ttt_mlp": "TTT-MLP", "rwkv7": "RWKV-7",
    "gated_deltanet+swa": "Gated DeltaNet, window",
}  # fmt: skip
