"""Where does the attention of a trained model look: at the first token, at itself, at p?"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.attention import watch_attention
from minititans.model import TitansLM
from minititans.tasks.text import Text


@dataclass(frozen=True)
class Looks:
    """Where the attention of tokens in the second half of a text goes, as shares.

    Each is `[layers, heads]`, a mean over texts and tokens. `equal` is what a token would draw if
    all visible tokens drew the same.
    """

    first: Tensor  # at the first token
    own: Tensor  # at the token itself
    before: Tensor  # at the token before it
    persistent: Tensor  # at all persistent tokens together
    equal: float


@torch.no_grad()
def looks(model: TitansLM, tokens: Tensor) -> Looks:
    """Let a model of attention layers read tokens `[batch, time]`, and see where each looks."""
    model.eval()
    with watch_attention(model) as seen:
        model(tokens)
    layers = torch.stack([weights for [weights] in seen.values()])  # [layers, batch, heads, t, p+t]
    time = tokens.shape[1]
    p, half = layers.shape[-1] - time, time // 2
    layers = layers[..., half:, :]
    place = torch.arange(half, time)
    rows = torch.arange(time - half)

    def mean(weights: Tensor) -> Tensor:  # [layers, batch, heads, queries]
        return weights.mean((1, 3))

    return Looks(
        first=mean(layers[..., p]),
        own=mean(layers[..., rows, p + place]),
        before=mean(layers[..., rows, p + place - 1]),
        persistent=mean(layers[..., :p].sum(-1)),
        equal=float((1 / (p + place + 1.0)).mean()),
    )


@torch.no_grad()
def bits_per_byte(model: TitansLM, tokens: Tensor) -> float:
    """Bits per byte in the second half of texts `[batch, time]`."""
    half = tokens.shape[1] // 2
    logits, _ = model.eval()(tokens)
    nats = F.cross_entropy(logits[:, half:-1].flatten(0, 1), tokens[:, half + 1 :].flatten())
    return nats.item() / math.log(2)


def unseen_texts(count: int = 32, length: int = 128, seed: int = 0) -> Tensor:
    """Stretches of the built-in corpus that no model was trained on, `[count, length]`."""
    held_out = Text().held_out
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(held_out) - length, (count, 1), generator=generator)
    return held_out[starts + torch.arange(length)].long()
