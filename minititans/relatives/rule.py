"""One rule that linear attention and its successors are settings of.

    S_t = S_{t-1} (Diag(decay_t) + a_t b_tᵀ) + v_t k_tᵀ      forget, erase along b, write
    y_t = S_t q_t + skip_t v_t                               read

S is one matrix per head, `[dim_value, dim_key]`. `decay` is one number per head, or one per
column of S. The pair `a, b` is for rules that ask the memory before they write to it: the
answer `S_{t-1} a_t` is written along b_t, and where that is minus what the memory knows about
k_t, the new value replaces the old one instead of being added to it. `settings` has the inputs
for each relative.

`loop` is the rule as written above; `chunked` computes the same thing faster.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.relatives.checks import check_tokens, start_or_check


@dataclass(frozen=True)
class Tokens:
    """What the rule needs to know about every token.

    q, k:  `[batch, heads, time, dim_key]`
    v:     `[batch, heads, time, dim_value]`
    decay: `[batch, heads, time]`, or `[batch, heads, time, dim_key]`
    a, b:  `[batch, heads, time, dim_key]`, or None for a rule that only adds
    skip:  `[batch, heads, time]`, or None: how much of a value goes past the memory
    """

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    a: Tensor | None = None
    b: Tensor | None = None
    skip: Tensor | None = None

    def map(self, function) -> "Tokens":
        """Apply one function to every tensor that is not None."""
        return Tokens(**{name: function(x) for name, x in self.present.items()})

    @property
    def present(self) -> dict[str, Tensor]:
        return {name: x for name, x in vars(self).items() if x is not None}


def loop(tokens: Tokens, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Read a sequence token by token while writing it to the memory.

    state: S before the first token, `[batch, heads, dim_value, dim_key]`, zeros if None.
    Returns y, `[batch, heads, time, dim_value]`, and S after the last token.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> y, S = loop(Tokens(q=one, k=one, v=one, decay=torch.full((1, 1, 3), 0.5)))
    >>> y.flatten()
    tensor([1.0000, 1.5000, 1.7500])
    """
    check_tokens(tokens)
    S = start_or_check(state, tokens)
    dtype = S.dtype  # the arithmetic is done in the state's precision
    readings = []
    for t in range(tokens.q.shape[2]):
        now = tokens.map(lambda x, t=t: x[:, :, t].to(dtype))
        decay = now.decay if now.decay.dim() == 3 else now.decay[..., None]  # [b, h, 1 or d_k]
        write = now.v[..., :, None] * now.k[..., None, :]  # v_t k_tᵀ: [b, h, d_v, d_k]
        if now.a is not None and now.b is not None:
            answer = S @ now.a[..., :, None]  # S_{t-1} a_t: [b, h, d_v, 1]
            write = write + answer * now.b[..., None, :]
        S = S * decay[..., None, :] + write
        y = (S @ now.q[..., :, None])[..., 0]
        readings.append(y if now.skip is None else y + now.skip[..., None] * now.v)
    return torch.stack(readings, 2).to(tokens.q.dtype), S
