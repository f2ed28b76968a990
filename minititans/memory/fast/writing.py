"""The loop of the fast form: surprise and writing, chunk by chunk, and its derivative.

Only this part of the rule must wait for the previous chunk. Autograd would find the derivative of
the plain form's `surprise` and `write`; by hand, the same matmuls take a fraction of the calls, and
whatever need not wait for another chunk is computed for all chunks at once (`recall`).

`d_x` is the derivative of whatever is being minimised with respect to x.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.chunked import surprise
from minititans.memory.fast.backward import Derivatives, chunk_back
from minititans.memory.fast.derivatives import apart, call, given, scaled, split, together
from minititans.memory.fast.recall import Rule, recall
from minititans.memory.gates import Before, Products
from minititans.memory.state import Layers
from minititans.precision import in_full_precision


class Written(NamedTuple):
    """What n chunks leave behind, with one tensor per layer."""

    W: Layers  # [rows·n, d_out, d_in]   what each chunk started with
    S: Layers
    W_after: Layers  # [rows, d_out, d_in]   after the last chunk
    S_after: Layers
    E: Layers  # [rows·n, b, d_out]   each chunk's surprise, in factors
    A: Layers  # [rows·n, b, d_in]

    @classmethod
    def of(cls, tensors, layers: int) -> "Written":
        """From one sequence of all of them; the first layer's A, the keys, is left out."""
        tensors = iter(tensors)
        sizes = [layers] * 5 + [layers - 1]
        return cls(*([next(tensors) for _ in range(size)] for size in sizes))


def write_chunks(
    rule: Rule, k: Tensor, v: Tensor, P: Products, W: Layers, S: Layers, W_start: Layers
) -> Written:
    """Learn n chunks, continuing from W and S; k, v, P: `[rows·n, b, …]`.

    W_start is where the first chunk's surprise is measured: W, unless the chunk was already open.
    """
    # As views: the compiler would refuse the same tensor twice, as W and as W_start.
    W_start = [w.view_as(w) for w in W_start]
    last = [P.H[:, -1:].mT, P.G[:, -1:].mT, *(x[:, -1:] for x in P[2:])]
    before = P.before() if rule.exact else ()
    outputs = call(_WriteChunks, rule, k, v, *last, *before, *W, *S, *W_start)
    written = Written.of(outputs, len(W))
    return written._replace(A=[k, *written.A])


class _WriteChunks(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(rule: Rule, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        gates, (W, S, at) = tensors[: rule.gates], thirds(tensors[rule.gates :])
        began, found = [], []
        for k_n, v_n, *gates_n in zip(*(apart(x, rule.chunks) for x in (k, v, *gates))):
            P_n = Products(*gates_n[:5])
            before = Before(*gates_n[5:]) if rule.exact else None
            A, E, _ = surprise(k_n, v_n, before, W, S, at, rule.residual)
            E = scaled(E, rule.steps)
            began.append((*W, *S))
            found.append((*E, *A[1:]))
            W, S = write(P_n, W, S, A, E)
            at = W
        return *map(together, zip(*began)), *W, *S, *map(together, zip(*found))

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.rule, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *outputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, *d_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        rule, saved = ctx.rule, ctx.saved_tensors
        k, _, *gates = saved[: 2 + rule.gates]
        at, outputs = (saved[2 + rule.gates + i * rule.layers :] for i in (2, 3))
        written = Written.of(outputs, rule.layers)
        d = Written.of(given(d_outputs, outputs), rule.layers)
        at = list(at[: rule.layers]) if rule.chunks == 1 else written.W
        A = [k, *written.A]
        recalled = recall(rule, A, written.E, gates[:5], gates[5:], written.W, written.S, at)
        asked = Derivatives(d.W, d.S, [torch.zeros_like(k), *d.A], d.E)

        d_W, d_S, found = d.W_after, d.S_after, []
        steps = zip(split(recalled, rule.chunks), split(asked, rule.chunks))
        for number, (chunk, asked_here) in reversed(list(enumerate(steps))):
            own, d_at, others = chunk_back(rule, chunk, asked_here, d_W, d_S)
            found.append((own.A[0], *others))
            d_W, d_S = own.W, own.S
            if number > 0:  # the first chunk may have been measured at other weights than W
                d_W = [x if y is None else x + y for x, y in zip(d_W, d_at)]
        return None, *map(together, zip(*reversed(found))), *d_W, *d_S, *d_at


def thirds(tensors) -> list[Layers]:
    """Three lists with the same number of layers, from one sequence of all of them."""
    layers = len(tensors) // 3
    return [list(tensors[i : i + layers]) for i in range(0, 3 * layers, layers)]


def write(P: Products, W: Layers, S: Layers, A: Layers, E: Layers) -> tuple[Layers, Layers]:
    """The plain form's, in fewer calls; P: the last rows, those of H and G as columns."""
    H, G, m, f, beta = P
    kept = [torch.addcmul(beta * w, f, s) for w, s in zip(W, S)]
    after = [torch.baddbmm(w, (G * e).mT, a) for w, a, e in zip(kept, A, E)]
    return after, [torch.baddbmm(m * s, (H * e).mT, a) for s, a, e in zip(S, A, E)]
