"""What every test run shares: how many threads torch uses, and what pytest must not import."""

import os
from importlib.util import find_spec

# Before torch is imported, and inherited by notebook kernels. Threads that wait busily slow
# small matmuls down many times over as soon as another process wants the same cores.
os.environ.setdefault("OMP_NUM_THREADS", "2")
if "PYTEST_XDIST_WORKER" in os.environ:  # `make test` runs two of them side by side
    os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# `--doctest-modules` imports each .py file that it finds, and importing these would run them.
collect_ignore_glob = ["notebooks/*.py", "exercises/*.py", "solutions/*.py", "benchmarks/*.py"]
if find_spec("triton") is None:  # optional, and none for Windows and macOS
    collect_ignore_glob += [
        f"minititans/memory/triton/{name}.py"
        for name in ("backward", "forward", "gates", "launch", "surprise", "tiles")
    ]
