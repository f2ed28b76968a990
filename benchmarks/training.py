"""How much a deeper memory costs to train, and what its relatives cost at equal parameters."""

import torch
import torch.nn.functional as F

from benchmarks.measurement import Measured, Progress
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans import TitansConfig, TitansLM
from minititans.relatives import RELATIVES

BATCH, TIME, PARAMETERS = 8, 512, 200_000


def measure_depth(quick: bool, progress: Progress) -> Measured:
    """Seconds of a training step at depth 4 over those at depth 1."""
    names = {f"depth {depth}": TitansConfig("lmm", depth=depth) for depth in (1, 2, 3, 4)}
    return compare(names, "depth 4", "depth 1", quick, progress)


def measure_relatives(quick: bool, progress: Progress) -> Measured:
    """Seconds of a training step of the memory (depth 1) over DeltaNet's; details have them all."""
    configs = {"lmm": TitansConfig("lmm", depth=1)}
    configs |= {name: TitansConfig(name) for name in (*RELATIVES, "transformer", "swa")}
    return compare(configs, "lmm", "deltanet", quick, progress)


def compare(configs, above: str, below: str, quick: bool, progress: Progress) -> Measured:
    """One training step of each model in turn, all with about the same number of parameters."""
    time, rounds = (64, 2) if quick else (TIME, 9)
    tokens = torch.randint(256, (BATCH, time), generator=torch.Generator().manual_seed(0))
    sides = {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = TitansLM(config.with_parameters(PARAMETERS))
        sides[name] = Side(lambda model=model: step(model, tokens))
    seconds = interleaved(sides, rounds, progress)
    return ratio(
        seconds[above],
        seconds[below],
        parameters=PARAMETERS,
        batch=BATCH,
        time=time,
        tokens_per_second={
            name: summary(BATCH * time / s for s in each) for name, each in seconds.items()
        },
    )


def step(model: TitansLM, tokens: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    logits, _ = model(tokens[:, :-1])
    F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
