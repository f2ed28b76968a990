"""The relatives of Titans' memory: one linear rule, and how each of them sets it.

`loop` and `chunked` are the rule, slow and fast; `settings` has the inputs that make it each of the
relatives; `RELATIVES` has each as a layer `y, state = layer(x, state)`, built by
`(dim, heads, chunk_size, conv)`.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from minititans.relatives import projections as of
from minititans.relatives.chunked import chunked
from minititans.relatives.relative import Relative, RelativeState
from minititans.relatives.rule import Tokens, loop
from minititans.relatives.ttt import ttt_linear, ttt_mlp

RELATIVES: dict[str, Callable[..., nn.Module]] = {
    "linear_attention": partial(Relative, projection=of.LinearAttention),
    "retnet": partial(Relative, projection=of.RetNet),
    "gla": partial(Relative, projection=of.GLA),
    "hgrn2": partial(Relative, projection=of.HGRN2),
    "mamba2": partial(Relative, projection=of.Mamba2),
    "deltanet": partial(Relative, projection=of.DeltaNet),
    "gated_deltanet": partial(Relative, projection=of.GatedDeltaNet),
    "longhorn": partial(Relative, projection=of.Longhorn),
    "ttt_linear": ttt_linear,
    "ttt_mlp": ttt_mlp,
    "rwkv7": partial(Relative, projection=of.RWKV7),
}

__all__ = ["RELATIVES", "Relative", "RelativeState", "Tokens", "chunked", "loop"]
