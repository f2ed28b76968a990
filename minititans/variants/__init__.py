"""Three ways to give a model a memory, and the memory alone: one file each."""

from minititans.variants.lmm import LMM
from minititans.variants.mac import MAC
from minititans.variants.mag import MAG
from minititans.variants.mal import MAL

__all__ = ["LMM", "MAC", "MAG", "MAL"]
