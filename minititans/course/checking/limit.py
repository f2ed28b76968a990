"""A time limit for a student's function, which runs in the notebook's own process.

What counts is processor time, so that nobody fails because the machine is busy; a function that
only waits is stopped as well, but later. On the main thread of Linux and macOS a timer signal
interrupts it, even while it sleeps. Anywhere else (Windows, other threads) a second thread raises
the exception in it, which takes effect when the next line of Python runs. Neither can stop a call
into C that never returns: for that there is the notebook's stop button, and the grader, which gives
each submission a process of its own.
"""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

TICK = 0.1  # seconds between two looks at the clock
WAITING = 6  # how much longer it may take if it waits instead of working


class OutOfTime(BaseException):
    """Not an Exception: a student's `except Exception` must not swallow it."""


class Budget:
    """A number of seconds of processor time, from now on."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.began = time.process_time(), time.monotonic()

    def spent(self) -> bool:
        waiting = time.monotonic() - self.began[1]
        if waiting < self.seconds:
            return False  # asking for the processor time is slow on some systems
        working = time.process_time() - self.began[0]
        return working > self.seconds or waiting > WAITING * self.seconds


def call_within(budget: Budget, function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)`, or `OutOfTime` when the budget is spent.

    >>> call_within(Budget(1.0), max, 3, 4)
    4
    """
    if budget.spent():
        raise OutOfTime
    on_main_thread = threading.current_thread() is threading.main_thread()
    if on_main_thread and hasattr(signal, "setitimer"):
        return _with_timer_signal(budget, function, arguments)
    return _with_second_thread(budget, function, arguments)


def _run(function: Callable, arguments: tuple) -> Any:
    """A frame to recognise: whatever is above it on the stack is not ours."""
    return function(*arguments)


def _with_timer_signal(budget: Budget, function: Callable, arguments: tuple) -> Any:
    def look(signum, frame):
        if not budget.spent():
            return
        inner = []
        while frame is not None and frame.f_code is not _run.__code__:
            inner.append(frame)
            frame = frame.f_back
        if frame is not None:  # else the function has just returned: nothing to stop
            _stop_on_next_line(inner)
            raise OutOfTime

    tracer, handler = sys.gettrace(), signal.signal(signal.SIGALRM, look)
    timer = signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        return _run(function, arguments)
    finally:
        sys.settrace(tracer)  # first: signal.signal is Python code, and would be stopped too
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _stop_on_next_line(frames: list[FrameType]) -> None:
    """Raise twice: `while True: try … except: pass` swallows one exception, but not a second one
    raised by the very line that swallowed the first."""

    def trace(frame, event, argument):
        if event == "line":
            raise OutOfTime
        return trace

    sys.settrace(trace)
    for frame in frames:
        frame.f_trace = trace


def _with_second_thread(budget: Budget, function: Callable, arguments: tuple) -> Any:
    target = ctypes.c_ulong(threading.get_ident())
    done = threading.Event()

    def watch():
        while not done.wait(TICK):
            if budget.spent():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(OutOfTime))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return _run(function, arguments)
    finally:
        stopped = False
        while not stopped:
            try:
                done.set()
                watcher.join()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, None)  # one may be under way
                stopped = True
            except OutOfTime:
                pass
