"""The memory rule as Triton kernels, for NVIDIA GPUs: optional, the same numbers as `chunked`.

`forward.py` is the kernel that reads and learns. `surprise.py`, `reading.py`, `writing.py` and
`gates.py` have its steps, each with its derivative; `solve.py` and `tiles.py` have what these are
made of. `launch.py` calls the kernels, and `budget.py` says where they fit. Triton is imported by
the first call and not before: nothing else in this library needs it.
"""

from minititans.memory.triton.budget import fits, why_not, why_not_layer
from minititans.memory.triton.rule import fused

__all__ = ["fits", "fused", "why_not", "why_not_layer"]
