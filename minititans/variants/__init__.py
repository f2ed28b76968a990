"""Three ways to give a model a memory, the memory alone, and attention alone: one file for each."""

from minititans.variants.lmm import LMM
from minititans.variants.mac import MAC
from minititans.variants.mag import MAG
from minititans.variants.mal import MAL
from minititans.variants.prefixed import PrefixedAttention

__all__ = ["LMM", "MAC", "MAG", "MAL", "PrefixedAttention"]
