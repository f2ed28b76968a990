"""What can be chosen about a run, in one frozen dataclass.

Nothing here imports torch, so that `--help` answers at once and on any machine.
"""

import dataclasses
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from minititans.config import TitansConfig
from minititans.training.options import check_option, is_name, option

# Several minutes on two CPU cores with the built-in corpus. `carry` teaches a memory to last: each
# step continues with the memory that the step before left, for 25 steps in the same text.
DEFAULT_MODEL = TitansConfig(
    variant="mac", dim=128, layers=2, heads=4, window=128, segment=128, chunk_size=16
)


@dataclass(frozen=True)
class TrainConfig:
    """A run: the model, what it reads, how long and how fast it learns, and where it is kept.

    >>> TrainConfig(lengths=(64, 128), steps=10).folder.as_posix()
    'runs/mac'
    """

    model: TitansConfig = DEFAULT_MODEL

    data: str | None = option(None, "a text file or a folder of files (default: built-in corpus)")
    task: str | None = option(None, "train on a task from minititans.tasks, given by name")
    dataset: str | None = option(
        None,
        "stream a Hugging Face dataset, or a local .parquet file or folder of them; for example "
        "HuggingFaceFW/fineweb-edu. Needs the extra [data]",
    )
    subset: str | None = option(None, "which configuration of --dataset, such as sample-10BT")
    column: str = option("text", "the column of --dataset that holds the text")

    steps: int = option(1500, "number of steps of the optimiser", least=1)
    batch: int = option(8, "sequences per step, across all processes", least=1)
    lengths: tuple[int, ...] = option(
        (128, 256), "lengths of sequences, separated by commas; each step draws one", least=2
    )
    carry: int = option(
        25,
        "steps that continue in the same text, each with the memory that the step before left; "
        "teaches a memory to last. Fewer in a short text; tasks start over in every step",
        least=1,
    )
    accumulate: int = option(1, "parts in which a step is computed, to save memory", least=1)
    lr: float = option(4e-3, "highest learning rate", above=0, most=1)
    final_lr: float = option(
        0.05, "learning rate at the end, as a share of the highest", least=0, most=1
    )
    warmup: int = option(50, "steps in which the learning rate rises from zero", least=0)
    weight_decay: float = option(0.1, "decay of matrices; vectors are left alone", least=0, most=1)
    beta2: float = option(0.99, "AdamW's second beta", least=0, below=1)
    clip: float = option(1.0, "bound on the norm of the gradient", above=0)
    seed: int = option(0, "seed of the weights and the order of the data", least=0, most=2**63 - 1)

    precision: str = option(
        "auto",
        "precision of matrix products; auto is bfloat16 (autocast) where a GPU has it, else "
        "float32",
        choices=("auto", "float32", "bfloat16"),
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:1, ...")
    shard: bool = option(False, "under torchrun: split weights over the processes (FSDP2)")

    name: str | None = option(None, "the run's folder in --runs (default: the variant's name)")
    runs: str = option("runs", "the folder of all runs")
    eval_every: int = option(200, "steps between two evaluations; 0 for the end only", least=0)
    eval_bytes: int = option(100_000, "bytes of held-out text per evaluation", least=100)
    save_every: int = option(50, "steps between two checkpoints; 0 for the end only", least=0)
    sample: int = option(400, "bytes of text to generate at the end", least=0)
    quiet: bool = option(False, "no progress bar")

    def __post_init__(self):
        for each in options():
            check_option(each, getattr(self, each.name))
        given = [name for name in ("data", "task", "dataset") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]}: got {given[1]} as well, expected one source of data")
        if self.batch % self.accumulate:
            raise ValueError(
                f"batch: got {self.batch}, expected a multiple of accumulate, {self.accumulate}"
            )
        if self.name is not None and not is_name(self.name):
            raise ValueError(
                f"name: got {self.name!r}, expected the name of one folder inside --runs"
            )

    def steps_in_passage(self, start: int) -> int:
        """How many steps from `start` on, counted from 0, continue in the same text."""
        return min(self.carry if self.task is None else 1, self.steps - start)

    @property
    def folder(self) -> Path:
        return Path(self.runs) / (self.name or self.model.variant)

    def to_json(self) -> dict[str, Any]:
        """As plain values; `from_json` is the inverse."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainConfig":
        model, lengths = TitansConfig(**values["model"]), tuple(values["lengths"])
        return cls(**(values | {"model": model, "lengths": lengths}))


# Options that may differ when a run continues: they do not change what is learned.
MAY_CHANGE = frozenset(
    {"name", "runs", "eval_every", "save_every", "sample", "quiet", "device", "shard"}
)


def options() -> list[dataclasses.Field]:
    return [each for each in fields(TrainConfig) if "help" in each.metadata]


def differences(old: TrainConfig, new: TrainConfig) -> list[str]:
    """What would change the result, as lines `option: was a, now b`."""
    lines = []
    for each in fields(TrainConfig):
        before, now = getattr(old, each.name), getattr(new, each.name)
        if each.name in MAY_CHANGE or before == now:
            continue
        if each.name == "model":
            lines += changes(dataclasses.asdict(before), dataclasses.asdict(now))
        else:
            lines += changes({each.name: before}, {each.name: now})
    return lines


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """
    >>> changes({"dim": 64, "heads": 4}, {"dim": 128, "heads": 4})
    ['dim: was 64, now 128']
    """
    names = (name for name in old if old[name] != new[name])
    return [f"{name}: was {old[name]!r}, now {new[name]!r}" for name in names]
