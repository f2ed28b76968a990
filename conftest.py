"""What every test run shares: how many threads torch uses, and what pytest must not import."""

import os
from importlib.util import find_spec

# Before torch is imported, and inherited by notebook kernels: `make test` runs two tests side by
# side, and their matrices are small. Threads that wait for each other would only be in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `--doctest-modules` imports each .py file that it finds, and importing these would run them.
collect_ignore_glob = ["notebooks/*.py", "exercises/*.py", "solutions/*.py", "benchmarks/*.py"]
if find_spec("triton") is None:  # optional, and none for Windows and macOS
    collect_ignore_glob += [
        f"minititans/memory/triton/{name}.py"
        for name in (
            "forward",
            "gates",
            "launch",
            "reading",
            "solve",
            "surprise",
            "tiles",
            "writing",
        )
    ]
