"""What test runs share: torch's threads, what pytest must not import, order, notebooks' budget."""

import os
from importlib.util import find_spec

import pytest

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


def pytest_collection_modifyitems(items):
    """Files with slow tests come first: short ones fill the time that a core would wait at last."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Under nbval, after a notebook's last cell: the work of its kernel must be in the budget."""
    last = item.path.suffix == ".ipynb" and (nextitem is None or nextitem.path != item.path)
    if not last or item.path.parent.name != "notebooks":
        return (yield)
    from minititans.course.making.build import BUDGET, kernel_work

    before = kernel_work()
    result = yield  # ends the kernel
    seconds = kernel_work() - before
    assert seconds < BUDGET, f"{item.path.name} took {seconds:.0f} s, expected below {BUDGET}"
    return result
