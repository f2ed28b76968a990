"""What `test_fuzz.py` calls: each a function of the arguments that are changed, the rest good."""

from functools import cache

import torch

from minititans import Gates, MemoryState, NeuralMemory, TitansConfig, TitansLM
from minititans.attention import (
    SegmentAttention,
    WindowAttention,
    segment_mask,
    window_attention,
    window_mask,
)
from minititans.memory import chunked, sequential
from minititans.relatives import RELATIVES, Tokens, loop, settings
from minititans.relatives import chunked as relative_chunked
from minititans.tasks import load_task
from minititans.tasks.copying import Copying
from minititans.tasks.maps import Maps, generators
from minititans.tasks.needle import Needle, accuracy, generator
from minititans.tasks.ngram import NGram
from minititans.tasks.text import Text
from minititans.variants import LMM, MAC, MAG, MAL

SMALL = TitansConfig(
    vocab_size=11, dim=8, layers=1, heads=2, chunk_size=2, segment=4, window=4, depth=1
)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


PROMPT, X = torch.zeros(2, 3, dtype=torch.long), randn(2, 3, 8)
Q, GATE = randn(1, 2, 3, 4), torch.full((1, 2, 3), 0.1)


def memory(**changed):
    return NeuralMemory(**({"dim": 8, "heads": 2, "chunk_size": 2} | changed))


LAYERS = {
    "WindowAttention": cache(lambda: WindowAttention(8, 2, window=4)),
    "MAC": cache(lambda: MAC(8, 2, memory(), segment=4)),
    "MAG": cache(lambda: MAG(8, 2, memory(), window=4)),
    "MAL": cache(lambda: MAL(8, 2, memory(), window=4)),
    "LMM": cache(lambda: LMM(8, memory())),
    "deltanet": cache(lambda: RELATIVES["deltanet"](8, heads=2)),
    "gla": cache(lambda: RELATIVES["gla"](8, heads=2)),
}
MEMORIES = {
    "NeuralMemory": cache(memory),
    "ttt_mlp": cache(lambda: RELATIVES["ttt_mlp"](8, heads=2, chunk_size=2)),
}


@cache
def state_after_three_tokens(name: str, batch: int = 2):
    return (LAYERS | MEMORIES)[name]()(randn(batch, 3, 8))[1]


def with_good(function, **good):
    return lambda **changed: function(**(good | changed))


def reading(name):
    """The layer reads three tokens after three others."""
    layer = (LAYERS | MEMORIES)[name]
    return lambda x=X, state=None: layer()(x, state)


def relative_rule(rule):
    def call(tokens=None, state=None, **changed):
        options = {"chunk_size": changed.pop("chunk_size")} if "chunk_size" in changed else {}
        good = {"q": Q, "k": Q, "v": Q, "decay": torch.ones(1, 2, 3), "a": Q, "b": Q}
        return rule(Tokens(**(good | changed)) if tokens is None else tokens, state, **options)

    return call


def memory_rule(rule):
    def call(state=None, gates=None, chunk_size=2, **changed):
        good = {"theta": GATE, "eta": GATE, "alpha": GATE}
        inputs = [changed.pop(name, Q) for name in "qkv"]
        gates = Gates(**(good | changed)) if gates is None else gates
        state = MemoryState.start([torch.eye(4).expand(2, 4, 4)], 1) if state is None else state
        return rule(*inputs, gates, state, chunk_size)

    return call


@cache
def model():
    return TitansLM(SMALL)


@cache
def text():
    return Text()


def batch_of(task, length):
    good = {"size": 2, "length": length, "generator": torch.Generator().manual_seed(0)}
    return lambda **changed: task().batch(**(good | changed))


def variant(make, **good):
    return lambda **changed: make(**({"dim": 8, "memory": memory()} | good | changed))


def zeros_for(tokens, state):
    return torch.zeros(*tokens.shape, 64), None


CALLS = {
    "TitansConfig": TitansConfig,
    "with_parameters": with_good(TitansConfig().with_parameters, target=2e5),
    "preset": lambda preset="170m": TitansConfig.preset(preset),
    "TitansLM": with_good(TitansLM, config=SMALL),
    "forward": lambda tokens=PROMPT, state=None: model()(tokens, state),
    "generate": lambda **changed: model().generate(
        **({"prompt": PROMPT, "max_new_tokens": 1} | changed)
    ),
    "WindowAttention": with_good(WindowAttention, dim=8, heads=2, window=4),
    "SegmentAttention": with_good(SegmentAttention, dim=8, heads=2, segment=4),
    "window_mask": with_good(window_mask, queries=2, keys=3, window=2),
    "segment_mask": with_good(segment_mask, queries=2, length=3, persistent=1),
    "MAC": variant(MAC, heads=2),
    "MAG": variant(MAG, heads=2),
    "MAL": variant(MAL, heads=2),
    "LMM": variant(LMM),
    "deltanet": with_good(RELATIVES["deltanet"], dim=8, heads=2),
    **{f"{name}.forward": reading(name) for name in LAYERS},
    "SegmentAttention.forward": with_good(
        SegmentAttention(8, 2, segment=4), persistent=X[0], retrieved=X, x=X
    ),
    "window_attention": with_good(window_attention, q=Q, k=Q, v=Q, window=2),
    "retnet": with_good(settings.retnet, q=Q, k=Q, v=Q, gamma=GATE[0, :, 0]),
    "mamba2": with_good(settings.mamba2, C=Q, B=Q, x=Q, dt=GATE, A=-GATE[0, :, 0], D=GATE[0, :, 0]),
    "gated_deltanet": with_good(settings.gated_deltanet, q=Q, k=Q, v=Q, alpha=GATE, beta=GATE),
    "loop": relative_rule(loop),
    "relative_chunked": relative_rule(relative_chunked),
    "load_task": lambda task="copying": load_task(task),
    "Copying": Copying,
    "Copying.batch": batch_of(Copying, length=8),
    "Needle": Needle,
    "Needle.batch": batch_of(Needle, length=64),
    "accuracy": with_good(accuracy, model=zeros_for, task=Needle(), length=16, samples=1),
    "generator": with_good(generator, seed=0, step=0),
    "Text": Text,
    "Text.batch": batch_of(text, length=8),
    "NGram": with_good(NGram, text=b"abracadabra"),
    "probability": with_good(NGram(b"abracadabra").probability, context=b"abr", byte=97),
    "bits_per_byte": with_good(NGram(b"abracadabra").bits_per_byte, text=b"abra"),
    "generators": with_good(generators, name="training", seeds=[0, 1]),
    "Maps": Maps,
    "Maps.batch": with_good(Maps().batch, maps=2, pairs=3, generator=torch.Generator()),
}

MEMORY_CALLS = {
    "NeuralMemory": memory,
    "TitansConfig": TitansConfig,
    "sequential": memory_rule(sequential),
    "chunked": memory_rule(chunked),
    **{f"{name}.forward": reading(name) for name in MEMORIES},
}
