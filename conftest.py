"""What every test run shares: how many threads torch uses, and what pytest must not import."""

import os

# Before torch is imported, and inherited by notebook kernels. Threads that wait busily slow
# small matmuls down many times over as soon as another process wants the same cores.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# `--doctest-modules` imports each .py file that it finds, and importing these would run them.
collect_ignore_glob = ["notebooks/*.py", "exercises/*.py", "solutions/*.py", "benchmarks/*.py"]
