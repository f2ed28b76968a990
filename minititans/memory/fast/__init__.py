"""The chunked form with its derivatives written by hand, for CPUs: same numbers, more speed.

rule         `fast`, with the arguments and results of `chunked`
gates        the products of gates
writing      the loop over chunks
recall       what the way back needs to know again
backward     back through one chunk
"""

from minititans.memory.fast.rule import fast

__all__ = ["fast"]
