"""Watch every attention layer in a model while it reads."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from minititans.attention.segment import SegmentAttention
from minititans.attention.window import WindowAttention


@contextmanager
def watch_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Inside the `with`, collect the weights of every call of every attention layer, by its name.

    Weights are `[batch, heads, queries, keys]`, without a gradient. A sliding window is called once
    per call of the model, MAC's attention once per segment.

    >>> import torch
    >>> model = nn.Sequential(WindowAttention(dim=8, heads=2, window=None))
    >>> with watch_attention(model) as seen:
    ...     y, state = model(torch.randn(1, 5, 8))
    >>> [weights.shape for weights in seen["0"]]
    [torch.Size([1, 2, 5, 5])]
    """
    seen: dict[str, list[Tensor]] = {}
    hooks = []

    def collect(name):
        def hook(layer, args, kwargs, result):
            again = layer.forward(*args, **kwargs, weights=True)  # hooks are not called by this
            seen[name].append(again[2].detach())

        return hook

    for name, layer in model.named_modules():
        if isinstance(layer, (WindowAttention, SegmentAttention)):
            seen[name] = []
            hooks.append(layer.register_forward_hook(collect(name), with_kwargs=True))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
