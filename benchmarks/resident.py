"""How much memory this process holds, and the most that it ever held, in bytes.

Linux reports both (`VmRSS` and `VmHWM` in /proc/self/status) and can set the second back to the
first. Elsewhere there is only `ru_maxrss`, the most so far, which stands in for both.
"""

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.measurement import Unavailable

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def resident() -> int:
    """What the process holds now."""
    return _status("VmRSS") if STATUS.exists() else _max_so_far()


def peak() -> int:
    """The most it held since the start, or since `reset_peak` where that works."""
    return _status("VmHWM") if STATUS.exists() else _max_so_far()


def reset_peak() -> bool:
    """Forget the peak so far; False where the system does not let us."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def extra_peak(run: Callable[[], object]) -> int:
    """How much more memory a call needs than was held before it.

    Where the peak cannot be reset, an earlier and higher peak would hide this one: the answer
    is then an upper bound.
    """
    give_back()
    reset_peak()
    before = resident()
    run()
    return peak() - before


def give_back() -> None:
    """Give back what was freed but kept for reuse, so that it counts when it is used again."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        if trim is not None:
            trim(0)


def _status(key: str) -> int:
    for row in STATUS.read_text().splitlines():
        name, _, amount = row.partition(":")
        if name == key:
            return int(amount.split()[0]) * 1024
    raise Unavailable(f"this system does not report {key}")


def _max_so_far() -> int:
    try:
        import resource
    except ImportError as error:
        raise Unavailable("this system does not say how much memory a process holds") from error
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
