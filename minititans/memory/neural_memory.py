"""The memory as a layer: from any sequence to keys, values, queries and gates, and back.

Section 4.4 of the paper: SiLU on queries, keys and values, queries and keys of length 1, in the
`Frame` of projections, convolution, norm and gate. We add that values are no longer than 1.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor, nn

from minititans.arguments import check
from minititans.frame import Frame
from minititans.memory import network
from minititans.memory.checks import check_backend, check_not_exact, check_state
from minititans.memory.chunked import chunked
from minititans.memory.fast import fast
from minititans.memory.gates import Gates
from minititans.memory.network import bounded, unit
from minititans.memory.scan import scan
from minititans.memory.sequential import sequential
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace
from minititans.memory.triton import fused, why_not_layer
from minititans.precision import full_precision
from minititans.tensors import check_kept, check_sequence

LARGEST_ETA = 0.7  # with shares, no gates up to this were found to make a memory grow
# The layers below the last move with the square of a value, so long values would unsettle them.
# A reading is normalised in any case.
LONGEST_VALUE = 1.0
BACKENDS = {
    "sequential": sequential, "chunked": chunked, "fast": fast, "scan": scan, "triton": fused,
}  # fmt: skip


class NeuralMemory(Frame):
    """A layer that learns the sequence it reads, while it reads it.

    dim:         size of a token's vector, in and out
    heads:       independent memories, each for its own slice of `dim`
    depth:       layers of each memory, 1 to 4; 1 is a matrix
    expansion:   width of the memory's hidden layers, in multiples of a head's size
    chunk_size:  tokens that are read at once. A matrix reads the same with any size; in a deeper
                 memory, layers below the last are measured at the weights a chunk started with
    momentum:    False sets eta to 0: only the momentary surprise counts, equation (8)
    forgetting:  False sets alpha to 0: nothing is forgotten, equation (9)
    conv:        width of the causal convolution after each projection; 0 for none
    backend:     "sequential", "chunked", "fast" or "triton": same result, different speed; "auto"
                 is "triton" on a GPU where it fits, otherwise "fast", see `backend_in_use`. "scan",
                 the paper's own way to parallelise, needs `exact=False`
    gates:       "token", or "chunk" for gates that a chunk shares, taken from its first token
    exact:       the last layer's surprise is measured at its current weights; False measures all
                 layers at those the chunk started with, equation (16)
    residual:    layers add to a vector of length 1, see `network`; False has plain layers
    theta_start, eta_start, alpha_start: the gates before training, roughly

    >>> memory = NeuralMemory(dim=32, heads=2)
    >>> y, state = memory(torch.randn(3, 10, 32))
    >>> more, state = memory(torch.randn(3, 5, 32), state)  # carries on
    >>> y.shape, more.shape, state.position
    (torch.Size([3, 10, 32]), torch.Size([3, 5, 32]), 15)
    """

    def __init__(
        self,
        dim: int,
        heads: int = 4,
        depth: int = 2,
        expansion: int = 1,
        chunk_size: int = 64,
        momentum: bool = True,
        forgetting: bool = True,
        conv: int = 4,
        backend: str = "auto",
        *,
        gates: str = "token",
        exact: bool = True,
        residual: bool = True,
        theta_start: float = 0.12,
        eta_start: float = 0.35,
        alpha_start: float = 1e-5,
    ):
        super().__init__(dim, heads, conv)
        check(
            depth=depth, expansion=expansion, chunk_size=chunk_size, momentum=momentum,
            forgetting=forgetting, backend=backend, gates=gates, exact=exact, residual=residual,
            theta_start=theta_start, eta_start=eta_start, alpha_start=alpha_start,
        )  # fmt: skip
        self.depth, self.expansion = depth, expansion
        self.chunk_size, self.backend, self.gates = chunk_size, backend, gates
        self.momentum, self.forgetting = momentum, forgetting
        self.exact, self.residual, self.rules = exact, residual, BACKENDS
        self.reading = self.writing = True  # `switch_memory` is where these are changed

        self.to_gates = nn.Linear(dim, heads * (1 + momentum + forgetting))
        # A memory starts empty; one of plain layers would stay empty.
        scale = 0.0 if residual or depth == 1 else 1.0
        self.start_weights = nn.ParameterList(
            scale * torch.randn(heads, d_out, d_in) / d_in**0.5 for d_in, d_out in self.layers
        )
        self.add_output()
        self._set_gates(theta=theta_start, eta=eta_start, alpha=alpha_start)
        if backend == "scan":
            check_not_exact("scan", exact)
        if backend == "triton":  # now rather than in the first call; the device may still change
            check_backend(why_not_layer(self, device=None))

    @property
    def backend_in_use(self) -> str:
        """The backend that a call uses: what "auto" means on the layer's device.

        >>> NeuralMemory(dim=32, backend="chunked").backend_in_use
        'chunked'
        """
        return self._backend()

    def _backend(self, inputs: torch.dtype | None = None) -> str:
        """The backend for q, k and v of this dtype; None for the dtype a call would have now."""
        if self.backend != "auto":
            return self.backend
        device = self.start_weights[0].device
        if torch.compiler.is_compiling():
            return "chunked"
        if device.type != "cuda" or why_not_layer(self, device, inputs):
            return "fast"
        return "triton"

    def start(self, batch: int) -> MemoryState:
        """The state before the first token: the learned weights, no momentum.

        In at least float32, whatever the layer's precision: small writes must not be rounded away.
        """
        weights = [w.to(torch.promote_types(w.dtype, torch.float32)) for w in self.start_weights]
        return MemoryState.start(weights, batch)

    def forward(
        self, x: Tensor, state: MemoryState | None = None, trace: bool = False
    ) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
        """Read x, `[batch, time, dim]`, continuing from `state`; return y, of the same shape.

        Any split of a sequence into calls gives the same y. With `trace=True`, a third result is
        the `Trace` of what happened at each token.
        """
        check_sequence(x, self.dim, self.to_qkv.weight)
        state = self.start(len(x)) if state is None else state
        self.check(state, x)

        qkv, conv = self.convolve(self.to_qkv(x), state.conv)  # (11)
        q, k, v = self.in_heads(F.silu(qkv))
        gates = self._gates(x, state)
        options: dict[str, Any] = {"exact": self.exact, "residual": self.residual, "trace": trace}
        backend = self._backend(q.dtype)
        if backend == "scan":
            options["shared_gates"] = self.gates == "chunk"
        inputs = (unit(q), unit(k), bounded(v, LONGEST_VALUE), self._shares(gates, state), state)
        with full_precision(x.device):
            y, after, *traced = self.rules[backend](*inputs, self.chunk_size, **options)
        y = self.answer(x, y)
        if self.writing:  # copies: of views, the gates of all tokens would be kept
            after = replace(after, conv=conv, gates=gates.map(lambda gate: gate[..., -1].clone()))
        else:
            after = replace(state, conv=conv)
        if not traced:
            return y, after
        return y, after, replace(traced[0], **vars(gates.map(Tensor.detach)))

    def read(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Ask without writing, `M*(x W_Q)`: x `[batch, time, dim]`, and the weights of a state.

        The convolution is left out: it belongs to the sequence that is being written.
        """
        check_sequence(x, self.dim, self.to_qkv.weight)
        self.check(MemoryState(weights, weights, weights), x)
        q = F.silu(F.linear(x, self.to_qkv.weight[: self.dim]))
        q = unit(rearrange(q, "b t (h d) -> b h t d", h=self.heads))
        with full_precision(x.device):
            y = self.recall(weights, q.to(weights[0].dtype))
        return self.answer(x, y)

    def recall(self, weights: list[Tensor], q: Tensor) -> Tensor:
        return network.read(weights, q, self.residual)

    def answer(self, x: Tensor, y: Tensor) -> Tensor:
        return super().answer(x, y) if self.reading else torch.zeros_like(x)

    def _gates(self, x: Tensor, state: MemoryState) -> Gates:
        """The gates of every token of x, each `[batch, heads, time]`."""
        if self.gates == "token":
            return self._gates_of(x)
        # A chunk's gates come from its first token, so that no token sees a later one.
        time, size = x.shape[1], self.chunk_size
        rest = min(time, -state.position % size)  # what the open chunk still has room for
        parts = []
        if rest > 0 and state.gates is not None:  # always there when a chunk is open
            parts.append(state.gates.map(lambda gate: repeat(gate, "b h -> b h t", t=rest)))
        if rest < time:
            firsts = self._gates_of(x[:, rest::size])
            parts.append(firsts.map(lambda g: g.repeat_interleave(size, -1)[..., : time - rest]))
        return Gates(*(torch.cat(g, -1) for g in zip(*(vars(p).values() for p in parts))))

    def _gates_of(self, x: Tensor) -> Gates:
        raw = rearrange(self.to_gates(x), "b t (gate h) -> gate b h t", h=self.heads)
        # In at least float32: in bfloat16, an alpha of 1e-5 would leave 1 − alpha at 1.
        raw = list(raw.to(torch.promote_types(raw.dtype, torch.float32)).sigmoid())
        # The fourth power: a sigmoid hardly gets near 0, and these two must be able to close.
        theta = raw.pop(0) ** 4
        eta = LARGEST_ETA * raw.pop(0) if self.momentum else torch.zeros_like(theta)
        alpha = raw.pop(0) ** 4 if self.forgetting else torch.zeros_like(theta)
        return Gates(theta, eta, alpha)

    def _shares(self, gates: Gates, state: MemoryState) -> Gates:
        """The gates to give the rule, so that each surprise is written once."""
        if not self.writing:  # then S_t = 0 and M_t = M_{t−1}
            return gates.map(torch.zeros_like)
        gates = gates.in_shares(None if state.gates is None else state.gates.eta)
        # If no layer is exact, b tokens in a row may write the same error: each writes a bth of it.
        return gates if self.exact else replace(gates, theta=gates.theta / self.chunk_size)

    def _set_gates(self, theta: float, eta: float, alpha: float) -> None:
        """Start with gates near these values: biases at their logits, small weights."""
        values = (
            [theta**0.25] + [eta / LARGEST_ETA] * self.momentum + [alpha**0.25] * self.forgetting
        )
        logits = torch.logit(torch.tensor(values))
        with torch.no_grad():
            self.to_gates.weight.mul_(0.1)
            self.to_gates.bias.copy_(repeat(logits, "gate -> (gate h)", h=self.heads))

    @property
    def layers(self) -> list[tuple[int, int]]:
        """`(d_in, d_out)` of each layer of the memory."""
        dim_head = self.dim // self.heads
        widths = [dim_head] + [self.expansion * dim_head] * (self.depth - 1) + [dim_head]
        return list(pairwise(widths))

    def check(self, state: MemoryState, x: Tensor) -> None:
        """The state was made by a memory of this configuration."""
        check_state(state, len(x), self.heads, self.chunk_size, x)
        shapes = [tuple(w.shape[2:]) for w in state.weights]
        expected = [(d_out, d_in) for d_in, d_out in self.layers]
        if shapes != expected:
            raise ValueError(
                f"state: its layers are {shapes}, expected {expected} (d_out, d_in): "
                "it was made by a memory of another dim, heads, depth or expansion"
            )
        if state.chunk_size is None:
            return  # before the first token
        found = 0 if state.conv is None else state.conv.shape[1] + 1
        if found != self.conv_width:
            raise ValueError(
                f"state: made by a memory with conv={found}, expected conv={self.conv_width}"
            )
        if state.conv is not None:
            shape = (len(x), found - 1, 3 * self.dim)
            check_kept("conv", state.conv, shape, self.to_qkv.weight)
        if state.gates is None and state.position and self.gates == "chunk":
            raise ValueError("state: has no gates for its open chunk, expected one from this layer")

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, heads={self.heads}, depth={self.depth}, expansion={self.expansion}, "
            f"chunk_size={self.chunk_size}, momentum={self.momentum}, "
            f"forgetting={self.forgetting}, exact={self.exact}, residual={self.residual}, "
            f"backend={self.backend!r}"
        )
