"""The memory: the rule three ways, and the layer built on it.

`sequential` reads like the paper, `scan` parallelises as the paper does, and `chunked` is fast.
All three take the same arguments and give the same result. `triton` has the third once more, as
kernels for NVIDIA GPUs; it is optional.
"""

from minititans.memory.chunked import chunked
from minititans.memory.gates import Gates, segment_products
from minititans.memory.neural_memory import NeuralMemory
from minititans.memory.scan import scan
from minititans.memory.sequential import sequential
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace

__all__ = [
    "Gates",
    "MemoryState",
    "NeuralMemory",
    "Trace",
    "chunked",
    "scan",
    "segment_products",
    "sequential",
]
