"""One process or many. Under `torchrun` each process takes its rows of every batch.

Data-parallel (DDP): every process has the whole model, and gradients are averaged. Sharded
(FSDP2): every process keeps its share of each weight and of the optimiser's state, and a block's
weights come together only while the block is at work.
"""

import gc
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from minititans.model import TitansLM


@dataclass(frozen=True)
class World:
    """Which process this is, of how many, and where its model lives."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """This process's rows of a batch, which is the same in all processes."""
        return rows.chunk(self.size)[self.rank].to(self.device)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            dist.barrier()

    def let_first(self, work: Callable[[], Any]) -> Any:
        """The result of work that the first process does for all; if it fails, all of them fail."""
        if self.size == 1:
            return work()
        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told[0] = work()
            except (ValueError, OSError) as error:
                told[1] = str(error)
        dist.broadcast_object_list(told)
        if told[1] is not None:
            raise ValueError(told[1])
        return told[0]


@contextmanager
def world(device: str) -> Iterator[World]:
    """The process group that `torchrun` asks for through the environment, or one process alone.

    Everything that uses the group must be out of use when the `with` ends. A data-parallel wrapper
    that outlives its group would wait for the group's threads while they wait for Python.
    """
    if "WORLD_SIZE" not in os.environ:
        yield World(choose_device(device))
        return
    chosen = choose_device(device, int(os.environ["LOCAL_RANK"]))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(chosen, dist.get_rank(), dist.get_world_size())
        gc.collect()  # in case the wrapper is part of a cycle
        dist.barrier()
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)  # they hold the wrapper too
        gc.collect()
        raise
    finally:
        dist.destroy_process_group()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device: got {name!r}, expected auto, cpu, cuda, cuda:1 or mps")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(f"device: got {name!r}, but torch cannot use it here; use cpu or auto")
    if device.type == "cuda":
        count = torch.cuda.device_count()
        device = torch.device("cuda", local_rank if device.index is None else device.index)
        if device.index >= count:
            found = f"finds only {count} here" if count else "finds no GPU here"
            raise ValueError(f"device: got {name!r}, but torch {found}; use cpu or auto")
    return device


def spread(model: TitansLM, world: World, shard: bool) -> nn.Module:
    """What to call instead of `model` in training, so that all processes learn together."""
    if shard:
        if not dist.is_initialized():
            raise ValueError(
                "shard: needs several processes: torchrun --nproc-per-node 2 -m minititans.train"
            )
        # Nothing changes a block's output in place, which is what this warning is about.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        return model
    if world.size > 1:
        # A memory that is carried on does not use its start weights: they get no gradient.
        return DistributedDataParallel(model, find_unused_parameters=True)
    return model


def without_sync(model: nn.Module, wait: bool):
    """While `wait`, gradients add up in each process and are not averaged yet."""
    if isinstance(model, DistributedDataParallel) and wait:
        return model.no_sync()
    return nullcontext()


def reshard(model: nn.Module) -> None:
    """Split a sharded model's weights again after a forward pass without a backward pass.

    Until then its outermost weights are whole, and are not those that the optimiser knows.
    """
    if isinstance(model, FSDPModule):
        model.reshard()


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor put together; any other unchanged. Every process must call this."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, other: Tensor) -> Tensor:
    """The whole `tensor` laid out as `other` is, in storage of its own."""
    tensor = tensor.to(other.device, copy=True)
    if isinstance(other, DTensor):
        return distribute_tensor(tensor, other.device_mesh, other.placements)
    return tensor


def total(number: Tensor, world: World) -> float:
    """The sum of a number over all processes."""
    number = number.detach().clone()
    if world.size > 1:
        dist.all_reduce(number)
    return number.item()
