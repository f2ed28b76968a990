"""Refuse what the memory cannot read, in words that name the argument and the remedy."""

from torch import Tensor, nn

from minititans.arguments import check
from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.tensors import check_finite, check_tensor, dtype_name


def check_backend(why_not: str | None) -> None:
    """Refuse the Triton kernels where they cannot run, with the reason."""
    if why_not is not None:
        raise ValueError(f"backend: got 'triton', but {why_not}")


def check_state(state: MemoryState, batch: int, heads: int, chunk_size: int, like: Tensor) -> None:
    """The state belongs to this batch, these heads, this chunk size, device and precision."""
    if not isinstance(state, MemoryState):
        raise TypeError(
            f"state: got {type(state).__name__}, expected a MemoryState; "
            "MemoryState.start(weights, batch) makes a fresh one"
        )
    if (state.batch, state.heads) != (batch, heads):
        raise ValueError(
            f"state: made for batch {state.batch} and {state.heads} heads, "
            f"expected batch {batch} and {heads} heads"
        )
    if state.chunk_size not in (None, chunk_size):
        raise ValueError(
            f"state: made with chunk_size {state.chunk_size}, expected {chunk_size}: "
            "keep the chunk size the state was made with, or start a new state"
        )
    if state.weights[0].device != like.device:
        raise ValueError(
            f"state: is on {state.weights[0].device}, expected {like.device}; "
            f"move it with state.to({str(like.device)!r})"
        )
    if state.weights[0].itemsize < 4:
        raise TypeError(
            f"state: its weights are {dtype_name(state.weights[0])}, expected float32 or float64, "
            "in which small writes are not rounded away; use state.to(torch.float32)"
        )


def check_rule(
    q: Tensor, k: Tensor, v: Tensor, gates: Gates, state: MemoryState, chunk_size: int
) -> None:
    """Everything `sequential`, `chunked` and `scan` are called with."""
    check(chunk_size=chunk_size)
    sizes: dict[str, int] = {}
    check_tensor("q", q, "batch heads time dim_key", sizes)
    check_tensor("k", k, "batch heads time dim_key", sizes)
    check_tensor("v", v, "batch heads time dim_value", sizes)
    if not isinstance(gates, Gates):
        raise TypeError(f"gates: got {type(gates).__name__}, expected Gates(theta, eta, alpha)")
    named = {f"gates.{name}": gate for name, gate in vars(gates).items()}
    for name, gate in named.items():
        check_tensor(name, gate, "batch heads time", sizes)
    for name, tensor in {"k": k, "v": v, **named}.items():
        if tensor.device != q.device:
            raise ValueError(f"{name}: is on {tensor.device}, expected {q.device}, where q is")
    check_state(state, sizes["batch"], sizes["heads"], chunk_size, q)
    for layer, tensors in enumerate(zip(state.weights, state.momentum, state.chunk_start)):
        for name, tensor in zip(("weights", "momentum", "chunk_start"), tensors):
            check_finite(f"state.{name}[{layer}]", tensor)


def check_layers(weights: list[Tensor], dim_key: int, dim_value: int, residual: bool) -> None:
    """The layers of an MLP memory fit each other, the keys and the values."""
    expected_in = dim_key
    for layer, W in enumerate(weights):
        if W.dim() != 4:
            raise ValueError(
                f"state: layer {layer} has shape {list(W.shape)}, "
                "expected 4 axes [batch heads d_out d_in]"
            )
        if W.shape[-1] != expected_in:
            source = "the keys have" if layer == 0 else f"layer {layer - 1} gives"
            raise ValueError(
                f"state: layer {layer} takes {W.shape[-1]} numbers, but {source} {expected_in}"
            )
        is_last = layer + 1 == len(weights)
        if residual and not is_last and W.shape[-2] % W.shape[-1]:
            raise ValueError(
                f"state: layer {layer} adds {W.shape[-2]} numbers to the {W.shape[-1]} it takes, "
                "expected a multiple; residual=False has layers that do not add"
            )
        expected_in = W.shape[-2]
    if expected_in != dim_value:
        raise ValueError(
            f"state: the last layer gives {expected_in} numbers, but the values have {dim_value}"
        )


def check_module(weights: list[Tensor], network: nn.Module, exact: bool) -> None:
    """The state holds this module's parameters."""
    check_not_exact("network", exact)
    if not isinstance(network, nn.Module):
        raise TypeError(f"network: got {type(network).__name__}, expected a torch.nn.Module")
    parameters = dict(network.named_parameters())
    if len(weights) != len(parameters):
        raise ValueError(
            f"state: has {len(weights)} tensors, but network has {len(parameters)} parameters; "
            "MemoryState.start_from(network, batch, heads) makes one that fits"
        )
    for w, (name, parameter) in zip(weights, parameters.items()):
        if w.shape[2:] != parameter.shape:
            raise ValueError(
                f"state: {name} has shape {list(w.shape[2:])}, expected {list(parameter.shape)}"
            )


def check_not_exact(what: str, exact: bool) -> None:
    """Refuse `exact=True` where a whole chunk is measured at the weights it started with."""
    if exact:
        raise ValueError(
            f"exact: got True, but {what} measures a chunk at the weights it started with; "
            "expected exact=False"
        )
