"""`torchrun -m minititans.train`: the shorter name of `minititans.training`."""

import sys

from minititans.training.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
