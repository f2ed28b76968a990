"""The memory rule as Triton kernels, for NVIDIA GPUs: optional, the same numbers as `chunked`.

`forward.py` and `backward.py` are the kernels, `tiles.py`, `gates.py` and `surprise.py` what they
are made of, `launch.py` calls them, and `budget.py` says where they fit. Triton is imported by
the first call and not before: nothing else in this library needs it.
"""

from minititans.memory.triton.budget import fits, why_not
from minititans.memory.triton.rule import fused

__all__ = ["fits", "fused", "why_not"]
