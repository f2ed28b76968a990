"""The memory: its rule in several forms, and the layer built on it.

Read `sequential` first: it is the paper, token by token. `chunked` gives the same result with
matmuls, in plain tensor operations. `fast` is `chunked` with hand-written derivatives, and `triton`
is `chunked` as kernels for NVIDIA GPUs. `scan` parallelises as the paper does. All take the same
arguments, but `scan` knows only `exact=False`. `NeuralMemory` is the layer around them.

M is the memory as a whole, W the weights of one of its layers, and S the momentum of either.
"""

from minititans.memory.chunked import chunked
from minititans.memory.fast import fast
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
    "fast",
    "scan",
    "segment_products",
    "sequential",
]
