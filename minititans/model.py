"""A language model around any of the variants: embedding, blocks, head, and generation."""

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minititans import instruments
from minititans.arguments import check, shown
from minititans.blocks import Block
from minititans.config import TitansConfig
from minititans.state import State
from minititans.tensor_files import open_tensors, save_tensors
from minititans.tensors import POSITION, token_ids

FORMAT = "minititans.TitansLM.2"
PART = 4096  # tokens of a prompt that are read at once


@dataclass(frozen=True)
class ModelState(State):
    """The state of every block, and how many tokens were read."""

    blocks: list[Any]
    tokens: int


class TitansLM(nn.Module):
    """Tokens in, logits for the next token out.

    >>> model = TitansLM(TitansConfig(variant="mag", vocab_size=50))
    >>> tokens = torch.randint(50, (2, 20))
    >>> logits, state = model(tokens[:, :12])
    >>> more, state = model(tokens[:, 12:], state)  # carries on
    >>> logits.shape, more.shape, state.tokens
    (torch.Size([2, 12, 50]), torch.Size([2, 8, 50]), 20)
    """

    def __init__(self, config: TitansConfig):
        super().__init__()
        if not isinstance(config, TitansConfig):
            raise TypeError(
                f"config: got {shown(config)}, expected a TitansConfig, such as "
                "TitansConfig(variant='mac')"
            )
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = nn.RMSNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab_size, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02 if config.tie else 1.0)
        nn.init.normal_(self.head.weight, std=0.02)
        if config.tie:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor, state: ModelState | None = None) -> tuple[Tensor, ModelState]:
        """tokens: `[batch, time]`, continuing from `state`; returns `[batch, time, vocab_size]`."""
        x, state = self._read(tokens, state)
        return self.head(self.norm(x)), state

    def _read(self, tokens: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        """Everything but the last norm and the head: `[batch, time, dim]`."""
        tokens = self._ids("tokens", tokens)
        self._check(state)
        x = self.embed(tokens)  # [batch, time, dim]
        if self.config.tie:
            x = x * self.config.dim**0.5  # small for the head, of size 1 for the blocks
        before = [None] * len(self.blocks) if state is None else state.blocks
        after = []
        for block, block_state in zip(self.blocks, before):
            if self.config.checkpoint and torch.is_grad_enabled() and not instruments.in_use(block):
                x, block_state = checkpoint(block, x, block_state, use_reentrant=False)
            else:
                x, block_state = block(x, block_state)
            after.append(block_state)
        read = 0 if state is None else state.tokens
        return x, ModelState(after, read + tokens.shape[1])

    @torch.no_grad()
    def generate(
        self,
        prompt: Tensor,
        max_new_tokens: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
        state: ModelState | None = None,
    ) -> Tensor:
        """Continue `prompt`, `[batch, time]`; returns the prompt and the new tokens.

        Each new token costs the same, however many came before (except with "transformer", whose
        attention keeps everything). A temperature of 0 always takes the likeliest token; a seed
        makes the choice repeatable.
        """
        new = self.stream(prompt, max_new_tokens, temperature, top_k, seed, state)
        return torch.cat([self._ids("prompt", prompt), *new], 1)

    @torch.no_grad()
    def stream(
        self,
        prompt: Tensor,
        max_new_tokens: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
        state: ModelState | None = None,
    ) -> Iterator[Tensor]:
        """What `generate` adds to the prompt, one token `[batch, 1]` after another."""
        if self.config.literal:
            raise ValueError(
                "literal: got a model with literal=True, which reads whole segments and cannot add "
                "to one; expected a model with literal=False"
            )
        check(max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, seed=seed)
        prompt, rng = self._ids("prompt", prompt), None
        self._check(state)
        if seed is not None:
            rng = torch.Generator(device=prompt.device).manual_seed(seed)
        tokens = prompt
        for _ in range(max_new_tokens):
            for part in tokens.split(PART, 1):  # a long prompt in parts: memory stays small
                x, state = self._read(part, state)
            logits = self.head(self.norm(x[:, -1]))  # [batch, vocab]
            tokens = _choose(logits, temperature, top_k, rng)
            yield tokens

    def save(self, path: str | os.PathLike) -> None:
        """Weights and configuration in one safetensors file, written whole or not at all."""
        about = json.dumps(dataclasses.asdict(self.config))
        weights = {name: w.detach().contiguous() for name, w in self._unique().items()}
        save_tensors(path, weights, {"format": FORMAT, "config": about})

    @classmethod
    def load(cls, path: str | os.PathLike, device: str | torch.device = "cpu") -> "TitansLM":
        """A model that `save` wrote, with the dtypes it had."""
        with open_tensors(path, "a saved TitansLM", FORMAT, device) as (file, header):
            model = cls(TitansConfig(**json.loads(header["config"]))).to(device)
            expected = {name: list(weight.shape) for name, weight in model._unique().items()}
            found = {name: file.get_tensor(name) for name in list(file.keys())}
            if {name: list(weight.shape) for name, weight in found.items()} != expected:
                raise ValueError("its weights do not fit its configuration")
            weights = {name: weight.clone() for name, weight in found.items()}
        if model.config.tie:
            weights["head.weight"] = weights["embed.weight"]
        model.load_state_dict(weights, assign=True)
        if model.config.tie:
            model.head.weight = model.embed.weight
        return model

    def _unique(self) -> dict[str, Tensor]:
        """Weights by name; a tied one appears once."""
        weights = self.state_dict()
        if self.config.tie:
            del weights["head.weight"]
        return weights

    def _ids(self, name: str, tokens: Tensor) -> Tensor:
        return token_ids(name, tokens, self.config.vocab_size, self.embed.weight.device)

    def _check(self, state: ModelState | None) -> None:
        ModelState.expect(state)
        if state is None:
            return
        POSITION.check("state.tokens", state.tokens)
        if not isinstance(state.blocks, list):
            raise TypeError(f"state.blocks: got {shown(state.blocks)}, expected a list")
        if len(state.blocks) != len(self.blocks):
            raise ValueError(
                f"state: made for {len(state.blocks)} layers, expected {len(self.blocks)}"
            )
        for layer, block_state in enumerate(state.blocks):
            if not isinstance(block_state, State):
                raise TypeError(
                    f"state.blocks[{layer}]: got {shown(block_state)}, expected the layer's state"
                )


def count_parameters(config: TitansConfig) -> int:
    """How many parameters a model of this configuration has; nothing is allocated."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in TitansLM(config).parameters())


def _choose(
    logits: Tensor, temperature: float, top_k: int | None, rng: torch.Generator | None
) -> Tensor:
    """Choose one token per row of `[batch, vocab]`, as `[batch, 1]`."""
    if temperature < torch.finfo(torch.float32).tiny:  # 0, or 0 as soon as it divides
        return logits.argmax(-1, keepdim=True)
    if top_k is not None:
        smallest = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    below = logits - logits.amax(-1, keepdim=True)  # at most 0: no temperature is too small
    return torch.multinomial((below / temperature).softmax(-1), 1, generator=rng)
