"""`python -m minititans.training`, the same as `minititans train`; for torchrun.

minititans train                                        a small MAC on the built-in corpus
minititans train --variant lmm --data my/texts          another variant, your own files
torchrun --nproc-per-node 2 -m minititans.train ...     data-parallel; with --shard under FSDP2
"""

import argparse
import sys
from collections.abc import Sequence

from minititans.training.command import DESCRIPTION, add_arguments, run


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m minititans.train", **DESCRIPTION)
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
