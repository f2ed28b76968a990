"""The settings of a model, in one frozen dataclass."""

from dataclasses import dataclass, replace

from minititans.arguments import check, check_heads, choice

VARIANTS = ("mac", "mag", "mal", "lmm")
# Attention to everything, or in a sliding window; without or with persistent tokens.
ATTENTIONS = ("transformer", "swa", "persistent_transformer", "persistent_swa")

# What a memory is made of; the rest is the model's.
MEMORY: tuple[str, ...] = ("depth", "expansion", "chunk_size", "momentum", "forgetting", "conv")
MEMORY += ("gates", "exact", "residual", "theta_start", "eta_start", "alpha_start")

# The paper's sizes (section 5.1) with its vocabulary: width, layers, heads, parameters.
PRESETS = {
    "170m": (768, 12, 12, 170e6),
    "340m": (1024, 20, 16, 340e6),
    "400m": (1024, 24, 16, 400e6),
    "760m": (1536, 24, 16, 760e6),
}


@dataclass(frozen=True)
class TitansConfig:
    """What a `TitansLM` is made of.

    variant:    "mac", "mag", "mal" or "lmm"; "transformer" or "swa", which have no persistent
                tokens, or "persistent_transformer" or "persistent_swa", which do; the name of a
                relative such as "deltanet"; or two names with a plus, "deltanet+swa", in
                alternating blocks
    vocab_size, dim, layers, heads: as in any language model; heads are attention's and the memory's
    ff:         hidden size of the SwiGLU in each block; None for 8/3 of dim
    tie:        one matrix for the embedding and the head
    window:     tokens that sliding-window attention sees (MAG, MAL, swa)
    segment:    tokens in a segment of MAC
    persistent: number of persistent tokens in every block of a variant that has them
    depth, expansion, chunk_size, momentum, forgetting, conv, gates, exact, residual, theta_start,
    eta_start, alpha_start, backend: the memory's, see `NeuralMemory`
    literal:    MAC exactly as the paper writes it, to show that it sees the future
    checkpoint: compute each block's activations again in the backward pass, to save memory
    """

    variant: str = "mac"
    vocab_size: int = 256
    dim: int = 64
    layers: int = 2
    heads: int = 4
    ff: int | None = None
    tie: bool = True
    window: int = 64
    segment: int = 64
    persistent: int = 4
    depth: int = 2
    expansion: int = 1
    chunk_size: int = 16
    momentum: bool = True
    forgetting: bool = True
    conv: int = 4
    gates: str = "token"
    exact: bool = True
    residual: bool = True
    theta_start: float = 0.12
    eta_start: float = 0.35
    alpha_start: float = 1e-5
    backend: str = "auto"
    literal: bool = False
    checkpoint: bool = False

    def __post_init__(self):
        check(**vars(self))
        check_heads(self.dim, self.heads)
        if self.literal and self.variant != "mac":
            raise ValueError(
                f"literal: got True, expected False: it is for 'mac', not {self.variant!r}"
            )

    @property
    def ff_size(self) -> int:
        return self.ff if self.ff is not None else -(-8 * self.dim // 24) * 8

    def with_parameters(self, target: float) -> "TitansConfig":
        """The same model with `ff` chosen so that it has about `target` parameters.

        >>> from minititans.model import count_parameters
        >>> sizes = [count_parameters(TitansConfig(v).with_parameters(2e5)) for v in VARIANTS]
        >>> all(abs(size / 2e5 - 1) < 0.05 for size in sizes)
        True
        """
        # Here and not above: the model needs torch, and a configuration alone, with which the
        # command line shows its options, does not.
        from minititans.model import count_parameters

        check(target=target)
        step = 1 if target < 1e7 else 8  # hardware prefers multiples of 8
        without = count_parameters(replace(self, ff=step)) - 3 * self.dim * step * self.layers
        ff = round((target - without) / (3 * self.dim * self.layers) / step) * step
        if ff < 1:
            raise ValueError(
                f"target: got {target:,.0f} parameters, but this {self.variant} has {without:,} "
                "before its feed-forward layers; make it narrower or shallower"
            )
        return replace(self, ff=ff)

    @classmethod
    def preset(cls, name: str, variant: str = "mac", **changes) -> "TitansConfig":
        """One of the paper's sizes, for any variant at the same number of parameters.

        >>> TitansConfig.preset("170m").dim
        768
        """
        choice(*PRESETS).check("preset", name)
        dim, layers, heads, parameters = PRESETS[name]
        sizes = {"vocab_size": 32_000, "dim": dim, "layers": layers, "heads": heads}
        memory = {"chunk_size": 64, "window": 512, "segment": 512, "persistent": 16}
        return cls(variant=variant, **(sizes | memory | changes)).with_parameters(parameters)
