"""The public API against a table of bad arguments: each is refused in words that name it.

`fuzz_calls.py` has what is called, with good arguments for everything that a row does not change.
"""

import copy
import re
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from fuzz_calls import (
    CALLS,
    LAYERS,
    MEMORIES,
    MEMORY_CALLS,
    PROMPT,
    SMALL,
    Q,
    X,
    memory,
    randn,
    state_after_three_tokens,
)

from minititans import MemoryState, NeuralMemory, TitansConfig, TitansLM
from minititans.arguments import ARGUMENTS
from minititans.memory.neural_memory import BACKENDS
from minititans.model import ModelState


class Row(NamedTuple):
    """Bad values of an argument, and what the error says; blames: the name in it, if another."""

    call: str
    argument: str
    values: list[Any]
    words: str
    blames: str | None = None


NAN, INF = float("nan"), float("inf")
NOT_A_NUMBER = [None, True, False, "3", "", b"3", [3], (), {}, 1j, NAN, INF, -INF, torch.tensor(3)]
NOT_WHOLE = [*NOT_A_NUMBER, 1.5, 2.0, -1, 10**30, -(10**30), 10**5000]
NOT_POSITIVE = [*NOT_WHOLE, 0]
NOT_FINITE = [*NOT_A_NUMBER, -1.0, 10**400]
NOT_A_SWITCH = [None, 0, 1, "yes", NAN, [], torch.tensor(True)]
NOT_A_NAME = [None, 3, "quick", "", ["auto"], b"auto", NAN, torch.tensor(1)]
NOT_A_STRING = [None, 3, ["mac"], b"mac", NAN]
NOT_A_GENERATOR = [None, 0, "cpu", torch.Generator]

AT_LEAST_1 = "expected a whole number of at least 1"
AT_LEAST_0 = "expected a whole number of at least 0"


def but_none(values):
    return [value for value in values if value is not None]


MODEL = [
    *(
        Row("TitansConfig", name, NOT_POSITIVE, AT_LEAST_1)
        for name in ("vocab_size", "dim", "layers", "heads", "window", "segment")
    ),
    Row("TitansConfig", "dim", [10], "expected a multiple of heads, 4"),
    Row("TitansConfig", "persistent", NOT_WHOLE, AT_LEAST_0),
    Row("TitansConfig", "ff", but_none(NOT_POSITIVE), f"{AT_LEAST_1}.*, or None for 8/3 of dim"),
    *(
        Row("TitansConfig", name, NOT_A_SWITCH, "expected True or False")
        for name in ("tie", "literal", "checkpoint")
    ),
    Row("TitansConfig", "variant", NOT_A_STRING, "expected a string"),
    Row("TitansConfig", "backend", NOT_A_NAME, "expected one of 'auto', 'sequential', 'chunked'"),
    Row("with_parameters", "target", [*NOT_FINITE, 0, 1e300], "expected a finite number above 0"),
    Row("with_parameters", "target", [1, 10.0], "make it narrower or shallower"),
    Row("preset", "preset", [*NOT_A_NAME, "1b", "170M"], "expected one of '170m'"),
    Row("TitansLM", "config", [None, {}, "mac", vars(SMALL), TitansConfig], "a TitansConfig"),
    Row("TitansLM", "config", [replace(SMALL, variant="mamba9")], "one of 'mac'", "variant"),
    *(
        row
        for call, name in (("forward", "tokens"), ("generate", "prompt"))
        for row in (
            Row(call, name, [None, [[1, 2]], "abc", 3], "expected a tensor of whole numbers"),
            Row(call, name, [PROMPT.float()], "got float32, expected a tensor of whole numbers"),
            Row(call, name, [PROMPT.bool(), PROMPT.cfloat()], "expected a tensor of whole numbers"),
            Row(call, name, [PROMPT[0]], rf"got shape \[3\], .*use {name}\[None\]"),
            Row(call, name, [PROMPT[:, :0], PROMPT[:0], PROMPT[None]], r"expected \[batch, time\]"),
            Row(call, name, [PROMPT + 11, PROMPT - 1], "got values from .* expected 0 to 10"),
            Row(call, name, [torch.full((1, 1), 2**64 - 1, dtype=torch.uint64)], "from 2..63 on"),
            Row(call, name, [PROMPT.to("meta")], "is on meta, expected cpu"),
            Row(call, "state", ["state", {}, 3, [], X], "expected a ModelState"),
            Row(call, "state", [ModelState([], 0)], "made for 0 layers, expected 1"),
            Row(call, "state", [ModelState(None, 0)], "expected a list", "state.blocks"),
            Row(call, "state", [ModelState([None], 3)], "got None, expected", "state.blocks[0]"),
            Row(
                call, "state", [ModelState([], -1), ModelState([], NAN)], AT_LEAST_0, "state.tokens"
            ),
        )
    ),
    Row("generate", "max_new_tokens", NOT_WHOLE, AT_LEAST_0),
    Row("generate", "temperature", NOT_FINITE, "expected a finite number of at least 0"),
    Row("generate", "top_k", but_none(NOT_POSITIVE), f"{AT_LEAST_1}.*, or None for all tokens"),
    Row("generate", "seed", but_none(NOT_WHOLE), f"{AT_LEAST_0} and at most .*, or None for"),
]

LAYER = [
    *(
        Row(call, name, NOT_POSITIVE, AT_LEAST_1)
        for call in ("WindowAttention", "SegmentAttention", "deltanet")
        for name in ("dim", "heads")
    ),
    Row("WindowAttention", "dim", [6], "heads, 2, times an even number"),
    Row("WindowAttention", "window", but_none(NOT_POSITIVE), f"{AT_LEAST_1}.*, or None for"),
    Row("SegmentAttention", "segment", NOT_POSITIVE, AT_LEAST_1),
    Row("SegmentAttention", "literal", NOT_A_SWITCH, "expected True or False"),
    Row("window_mask", "queries", NOT_POSITIVE, AT_LEAST_1),
    Row("window_mask", "queries", [4], "got 4, expected at most as many as keys, 3"),
    Row("window_mask", "keys", NOT_POSITIVE, AT_LEAST_1),
    Row("window_mask", "prefix", NOT_WHOLE, AT_LEAST_0),
    Row("segment_mask", "persistent", NOT_WHOLE, AT_LEAST_0),
    Row("window_attention", "window", but_none(NOT_POSITIVE), f"{AT_LEAST_1}.*, or None for"),
    Row(
        "window_attention",
        "k",
        [Q[:, :, :2]],
        "got 3, expected at most as many as keys, 2",
        "queries",
    ),
    *(
        Row("SegmentAttention.forward", name, [None, X.double(), X[..., :7], X * NAN, X[0, 0]], "")
        for name in ("persistent", "retrieved", "x")
    ),
    Row("SegmentAttention.forward", "retrieved", [X[:, :2], X[:1]], "expected x's"),
    Row("SegmentAttention.forward", "state", ["state", {}, X], "expected a SegmentState"),
    Row("deltanet", "chunk_size", NOT_POSITIVE, AT_LEAST_1),
    Row("deltanet", "conv", NOT_WHOLE, AT_LEAST_0),
    Row("deltanet", "projection", [None, "gla", 3], "expected a module's class"),
    *(
        row
        for call in ("MAC", "MAG", "MAL", "LMM")
        for row in (
            Row(call, "persistent", NOT_WHOLE, AT_LEAST_0),
            Row(call, "dim", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "memory", [None, "lmm", {}, NeuralMemory], "expected a NeuralMemory"),
            Row(call, "memory", [memory(dim=16)], "its dim is 16, expected 8"),
        )
    ),
    Row("MAC", "segment", NOT_POSITIVE, AT_LEAST_1),
    Row("MAG", "window", but_none(NOT_POSITIVE), AT_LEAST_1),
    Row("MAL", "heads", NOT_POSITIVE, AT_LEAST_1),
    *(
        row
        for call in (f"{name}.forward" for name in LAYERS)
        for row in (
            Row(call, "x", [None, [1.0], "x", 3], "expected a tensor"),
            Row(call, "x", [X.double(), X.half(), X.bfloat16()], "expected float32, the layer's"),
            Row(call, "x", [X.long(), X.bool(), X.cfloat()], "expected a floating-point tensor"),
            Row(call, "x", [X[0], X[0, 0], X[None]], "expected 3 axes"),
            Row(call, "x", [X[..., :7]], "got 7 for the axis 'dim'.*expected 8"),
            Row(call, "x", [X[:, :0], X[:0]], "is empty"),
            Row(call, "x", [X * NAN, X * INF], "contains NaN or infinite"),
            Row(call, "x", [X.to("meta")], "is on meta, expected cpu"),
            Row(
                call, "state", ["state", {}, 3, X, ModelState([], 0)], "got .*, expected a .*State"
            ),
        )
    ),
    *(
        row
        for call in ("loop", "relative_chunked")
        for row in (
            Row(call, "tokens", ["text", 3, {}, Q], "expected Tokens"),
            Row(call, "q", [Q[0]], "expected 4 axes", "tokens.q"),
            Row(call, "k", ["k", [1.0]], "expected a tensor", "tokens.k"),
            Row(call, "v", [Q[:, :, :2]], "got 2 for the axis 'time'", "tokens.v"),
            Row(call, "decay", [NAN * Q[..., 0]], "contains NaN", "tokens.decay"),
            Row(call, "a", [None], "expected both a and b", "tokens.a"),
            Row(call, "b", [Q.to("meta")], "is on meta, expected cpu", "tokens.b"),
            Row(call, "state", ["S", 3, [1.0]], "expected a tensor or None"),
            Row(call, "state", [randn(1, 2, 4, 5), randn(4, 4)], "got shape .*, expected"),
            Row(call, "state", [randn(1, 2, 4, 4).half()], "got torch.float16, expected"),
            Row(call, "state", [randn(1, 2, 4, 4).long()], "got torch.int64, expected"),
            Row(call, "state", [NAN * randn(1, 2, 4, 4)], "contains NaN"),
            Row(call, "state", [randn(1, 2, 4, 4).to("meta")], "is on meta, expected cpu"),
        )
    ),
    Row("relative_chunked", "chunk_size", NOT_POSITIVE, AT_LEAST_1),
    Row("loop", "q", [None], "got None, expected a tensor", "tokens.q"),
    Row("loop", "decay", [None], "got None, expected a tensor", "tokens.decay"),
    Row("retnet", "gamma", [0.5, None], r"expected a tensor \[heads\]"),
    Row("retnet", "gamma", [Q[0], Q[0, 0, :, 0]], r"got shape .*, expected \[heads 2\]"),
    Row("retnet", "position", NOT_WHOLE, AT_LEAST_0),
    Row("mamba2", "A", [-1.0, None], r"expected a tensor \[heads\]"),
    Row("mamba2", "dt", [Q, Q[0]], r"got shape .*, expected \[batch 1, heads 2, time 3\]"),
    Row("gated_deltanet", "beta", [1, None, "beta"], "expected a tensor"),
    Row("gated_deltanet", "alpha", [Q], r"got shape .*, expected \[batch 1, heads 2, time 3\]"),
    Row("gated_deltanet", "k", [Q[..., :3]], "got shape .*dim_key 4"),
]

TASK = [
    Row("load_task", "task", [*NOT_A_NAME, "Copying"], "expected one of copying, needle, text"),
    Row("Copying", "vocab_size", [*NOT_POSITIVE, 2], "expected a whole number of at least 3"),
    Row("Copying.batch", "length", [*NOT_POSITIVE, 2], "expected a whole number of at least 3"),
    Row("Needle.batch", "length", [1, 23], "expected at least 24 for 4 needles"),
    Row("Text.batch", "length", [10**8], "expected less than the"),
    *(
        row
        for call in ("Copying.batch", "Needle.batch", "Text.batch")
        for row in (
            Row(call, "size", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "generator", NOT_A_GENERATOR, "expected a torch.Generator"),
        )
    ),
    Row("Needle", "kind", NOT_A_NAME, "expected one of 'pk', 'n', 'w'"),
    Row("Needle", "needles", [*NOT_POSITIVE, 15], f"{AT_LEAST_1} and at most 14"),
    Row("accuracy", "model", [None, 3], "expected a function"),
    Row("accuracy", "task", [None, "pk"], "expected a Needle"),
    *(
        Row("accuracy", name, NOT_POSITIVE, AT_LEAST_1)
        for name in ("length", "samples", "batch", "block")
    ),
    Row("generator", "seed", NOT_WHOLE, AT_LEAST_0),
    Row("Text", "data", [3, b"file", ["file"], ""], "expected the path of a file or folder"),
    Row("Text", "data", ["/no/such/file"], "does not exist"),
    Row("NGram", "order", NOT_WHOLE, AT_LEAST_0),
    Row("NGram", "text", [None, "text", 3], "expected bytes"),
    Row("NGram", "text", [b"", b"abc"], "expected more than the order, 3"),
    Row("probability", "context", [None, "abr"], "expected bytes"),
    Row("probability", "byte", [None, -1, 256, "a", 0.5, NAN], "from 0 to 255"),
    Row("bits_per_byte", "text", [None, "abra", b"", b"a"], "expected (bytes|at least 2)"),
    Row("generators", "seeds", [3, None, {0}], "expected a list of whole numbers"),
    Row("generators", "seeds", [[0, bad] for bad in NOT_WHOLE], AT_LEAST_0),
    Row("Maps", "dim", NOT_POSITIVE, AT_LEAST_1),
    Row("Maps", "units", NOT_POSITIVE, AT_LEAST_1),
    Row("Maps", "slope", but_none(NOT_A_NUMBER), "expected a finite number, or None"),
    Row("Maps.batch", "maps", NOT_POSITIVE, AT_LEAST_1),
    Row("Maps.batch", "pairs", NOT_POSITIVE, AT_LEAST_1),
    Row("Maps.batch", "generator", NOT_A_GENERATOR, "expected a torch.Generator"),
    Row("Maps.batch", "asked", [3, "keys"], "expected a tensor"),
]

# States after three tokens in which one field was exchanged: layer, field, bad values, words.
KV = randn(2, 2, 3, 4)
STATE = [
    *(
        row
        for name in ("keys", "values")
        for row in (
            Row("WindowAttention", name, [None, "keys", [KV]], "expected a tensor"),
            Row("WindowAttention", name, [KV.double(), KV.cfloat(), KV.long()], "expected float32"),
            Row("WindowAttention", name, [KV.to("meta")], "is on meta, expected cpu"),
            Row("WindowAttention", name, [KV[:1]], "made for batch 1, expected batch 2", "state"),
            Row("WindowAttention", name, [KV[:, :1], KV[..., :3], KV[0]], "got shape .*expected"),
        )
    ),
    Row("WindowAttention", "position", NOT_WHOLE, AT_LEAST_0),
    Row("WindowAttention", "position", [0, 1, 2], "holds 3 tokens after .*, expected", "state"),
    Row("MAC", "segment", [None, 3, 5, "4"], "made with segments of", "state"),
    Row("MAC", "memory", [None, "state", {}], "expected a MemoryState", "state"),
    Row("MAC", "before", [None, [], KV, [None]], "expected a list of one tensor per layer"),
    Row("MAC", "before", [[KV, KV]], "got shape .*expected"),
    Row("MAC", "before", [[None, None]], "expected a tensor"),
    Row("MAC", "position", [*NOT_WHOLE, 4], f"{AT_LEAST_0} and at most 3"),
    Row("MAC", "position", [0, 1], "got 3 tokens, expected .*, as state.position", "state.open"),
    Row("MAC", "open", [None], "got 0 tokens, expected 3"),
    Row("MAC", "open", ["open", {}, KV], "expected a SegmentState", "state"),
    *(
        row
        for layer in ("MAG", "MAL")
        for row in (
            Row(layer, "memory", [None, "state", {}], "expected a MemoryState", "state"),
            Row(layer, "window", ["state", {}, KV], "expected a WindowState", "state"),
        )
    ),
    *(
        row
        for layer in ("deltanet", "gla")
        for row in (
            Row(layer, "S", [None, "S"], "expected a tensor"),
            Row(layer, "S", [randn(2, 2, 4, 3), randn(2, 2, 4)], "got shape .*expected"),
            *(
                Row(layer, "S", [randn(2, 2, 4, 4, dtype=dtype)], "expected float32, the layer's")
                for dtype in (torch.half, torch.bfloat16, torch.double, torch.cfloat, torch.int64)
            ),
            Row(layer, "S", [NAN * randn(2, 2, 4, 4)], "contains NaN or infinite", "state"),
            Row(layer, "S", [randn(2, 2, 4, 4).to("meta")], "is on meta, expected cpu"),
            Row(layer, "position", NOT_WHOLE, AT_LEAST_0),
            Row(
                layer, "conv", [None, "conv", randn(2, 3)], "with conv=0, expected conv=4", "state"
            ),
            Row(layer, "conv", [randn(2, 2, 24)], "with conv=3, expected conv=4", "state"),
            Row(layer, "conv", [randn(2, 3, 23)], "got shape .*expected"),
            Row(layer, "conv", [randn(2, 3, 24).double()], "got float64, expected float32"),
        )
    ),
]

# What minititans.memory refuses itself: a table of its own.
MEMORY = [
    *(
        row
        for call in ("TitansConfig", "NeuralMemory")
        for row in (
            Row(call, "dim", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "heads", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "depth", [*NOT_POSITIVE, 5], f"{AT_LEAST_1} and at most 4"),
            Row(call, "expansion", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "chunk_size", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "conv", NOT_WHOLE, AT_LEAST_0),
            Row(call, "momentum", NOT_A_SWITCH, "expected True or False"),
            Row(call, "forgetting", NOT_A_SWITCH, "expected True or False"),
            Row(call, "gates", NOT_A_NAME, "expected one of 'token', 'chunk'"),
            Row(call, "backend", NOT_A_NAME, "expected one of 'auto'"),
        )
    ),
    *(
        row
        for call in (f"{name}.forward" for name in MEMORIES)
        for row in (
            Row(call, "x", [None, [1.0], "x", 3], "expected a tensor"),
            Row(call, "x", [X.long(), X.bool(), X.cfloat()], "expected a floating-point tensor"),
            Row(call, "x", [X[0], X[0, 0], X[None]], "expected 3 axes"),
            Row(call, "x", [X[..., :7]], "got 7 for the axis 'dim'.*expected 8"),
            Row(call, "x", [X[:, :0], X[:0]], "is empty"),
            Row(call, "x", [X * NAN, X * INF], "contains NaN or infinite"),
            Row(call, "state", ["state", {}, 3, X], "expected a MemoryState"),
        )
    ),
    *(
        row
        for call in ("sequential", "chunked")
        for row in (
            *(
                row
                for name in "qkv"
                for row in (
                    Row(call, name, [None, "text", [1.0]], "expected a tensor"),
                    Row(call, name, [Q.long(), Q.bool()], "expected a floating-point tensor"),
                    Row(call, name, [Q[0], Q[None]], "expected 4 axes"),
                    Row(call, name, [NAN * Q, INF * Q], "contains NaN or infinite"),
                )
            ),
            *(
                row
                for name in ("theta", "eta", "alpha")
                for row in (
                    Row(call, name, [None, 0.1], "expected a tensor", f"gates.{name}"),
                    Row(call, name, [NAN * Q[..., 0]], "contains NaN", f"gates.{name}"),
                )
            ),
            Row(call, "chunk_size", NOT_POSITIVE, AT_LEAST_1),
            Row(call, "gates", ["token", {}, 3], r"expected Gates\(theta, eta, alpha\)"),
            Row(call, "state", ["state", {}, Q], "expected a MemoryState"),
            Row(call, "state", [MemoryState.start([randn(2, 4, 4)], 3)], "expected batch 1"),
        )
    ),
]


def cases(rows: list[Row]) -> list:
    return [
        pytest.param(row, value, id=f"{row.call}-{row.argument}-{number}")
        for row in rows
        for number, value in enumerate(row.values)
    ]


def assert_refused(function, row: Row, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        function(**{row.argument: value})
    message = str(refused.value)
    assert re.match(rf"{re.escape(row.blames or row.argument)}: .*{row.words}", message), message
    assert len(message) < 300, message


@pytest.mark.parametrize("row, value", cases(MODEL + LAYER + TASK))
def test_a_bad_argument_is_refused_in_words_that_name_it(row, value):
    assert_refused(CALLS[row.call], row, value)


@pytest.mark.parametrize("row, value", cases(STATE))
def test_a_malformed_state_is_refused_in_words_that_name_the_field(row, value):
    def read(**changed):
        return LAYERS[row.call]()(X, replace(state_after_three_tokens(row.call), **changed))

    assert_refused(read, row._replace(blames=row.blames or f"state.{row.argument}"), value)


@pytest.mark.parametrize("name", LAYERS)
def test_a_state_of_another_batch_is_refused_and_of_the_same_accepted(name):
    LAYERS[name]()(X, state_after_three_tokens(name))
    with pytest.raises(ValueError, match=r"^state: made for batch 3.*, expected batch 2"):
        LAYERS[name]()(X, state_after_three_tokens(name, batch=3))


@pytest.mark.parametrize("row, value", cases(MEMORY))
def test_a_memory_refuses_a_bad_argument_in_words_that_name_it(row, value):
    assert_refused(MEMORY_CALLS[row.call], row, value)


@pytest.mark.parametrize("call", list(CALLS | MEMORY_CALLS))
def test_with_good_arguments_every_call_works(call):
    (MEMORY_CALLS | CALLS)[call]()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("variant", ["mac", "transformer"])
def test_tokens_of_any_integer_type_give_the_logits_of_int64(variant, dtype):
    model = TitansLM(replace(SMALL, variant=variant))
    tokens = torch.tensor([[1, 0, 10, 3]])
    assert torch.equal(model(tokens.to(dtype))[0], model(tokens)[0])
    greedy = model.generate(tokens.to(dtype), 3, temperature=0)
    assert torch.equal(greedy, model.generate(tokens, 3, temperature=0))


@pytest.mark.parametrize("name", LAYERS)
def test_autocast_takes_other_floats_and_states_made_outside_it(name):
    layer = LAYERS[name]()
    expected, _ = layer(X, state_after_three_tokens(name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x in (X, X.bfloat16(), X.half()):
            y, state = layer(x, state_after_three_tokens(name))
            torch.testing.assert_close(y.float(), expected, atol=0.1, rtol=0.1)
        with pytest.raises(TypeError, match="x: got float64, expected float32"):
            layer(X.double())  # which autocast does not convert
    layer(X, state)  # a state that autocast left behind


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_in_half_precision_goes_on_from_a_state_in_float32(name):
    layer, state = LAYERS[name](), state_after_three_tokens(name)
    y, _ = copy.deepcopy(layer).bfloat16()(X.bfloat16(), state)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(X, state)[0], atol=0.1, rtol=0.1)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_layer_in_another_precision_takes_sequences_in_that_precision(name, dtype):
    layer = copy.deepcopy(LAYERS[name]()).to(dtype)
    y, state = layer(X.to(dtype))
    more, _ = layer(X.to(dtype), state)
    assert y.dtype == more.dtype == dtype
    with pytest.raises(TypeError, match=r"x: got float32, expected (bfloat16|float64)"):
        layer(X)


def test_the_table_knows_the_backends_that_the_memory_has():
    assert ARGUMENTS["backend"].choices == ("auto", *BACKENDS)
