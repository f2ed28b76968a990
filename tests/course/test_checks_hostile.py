"""Students' code that misbehaves gets plain words: no traceback, no hang, no harm done."""

import asyncio
import builtins
import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch

from minititans.course import checks
from minititans.course.checking import limit
from minititans.course.checking.limit import Budget, OutOfTime, call_within
from minititans.course.checking.rules import DOORS
from minititans.course.checks import NotYet, check, examine, example
from minititans.course.labs import find_task

RIGHT = "02.3"  # surprise(M, key, value)


def right(M, key, value):
    return torch.outer(M @ key - value, key)


def examine_quickly(function, id=RIGHT):
    return examine(id, function, limit=0.5)


def raises(W, key, value):
    numbers = [1, 2, 3]
    return numbers[7]


def prints_a_lot(W, key, value):
    for number in range(300):
        print("thinking", number)
    return right(W, key, value)


def prints_and_is_wrong(W, key, value):
    print("my error is", 42)
    return -right(W, key, value)


def loops(W, key, value):
    while True:
        pass


def loops_and_swallows(W, key, value):
    while True:
        try:
            while True:
                sum(range(100))
        except BaseException:
            pass


def sleeps(W, key, value):
    time.sleep(10_000)


def swallows_in_a_with(W, key, value):
    import contextlib

    while True:
        with contextlib.suppress(BaseException):
            while True:
                sum(range(100))


def prints_for_ever(W, key, value):
    while True:
        print("x" * 1000)


def leaves(W, key, value):
    sys.exit("bye")


def quits(W, key, value):
    raise KeyboardInterrupt


def recurses(W, key, value):
    return recurses(W, key, value)


def is_a_hole(W, key, value):
    raise NotImplementedError("02.3: Return the gradient.")


def is_a_hole_of_nbgrader(W, key, value):
    raise NotImplementedError


def abstract():
    raise NotImplementedError("not for this device")


class BadWords(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raises_without_words(W, key, value):
    raise BadWords


def changes_the_weights(W, key, value):
    W -= right(W, key, value)
    return W


def changes_and_puts_back_a_key(W, key, value):
    answer = right(W, key, value)
    key.zero_()
    return answer


def switches_gradients_on(W, key, value):
    W.requires_grad_()
    return right(W, key, value)


calls = []


def counts_its_calls(W, key, value):
    calls.append(1)
    return right(W, key, value) + 1e-3 * (len(calls) > 2 * len(find_task(RIGHT).cases(0)))


def rolls_dice(W, key, value):
    return right(W, key, value) * (1 + 0.1 * torch.rand(()))


def is_float32(W, key, value):
    return right(W, key, value).float()


def without_gradient_mode(W, key, value):
    with torch.no_grad():
        return right(W, key, value)


async def is_async(W, key, value):
    return right(W, key, value)


def is_a_generator(W, key, value):
    yield right(W, key, value)


class Sneaky(torch.Tensor):
    """Answers every question as it likes."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.zeros(3, 3)


def is_sneaky(W, key, value):
    return torch.zeros(W.shape, dtype=W.dtype).as_subclass(Sneaky)


def contains_itself(W, key, value):
    answer = []
    answer.append(answer)
    return answer


MISBEHAVIOUR = [
    (None, "not a function", "got None, not a function"),
    (torch.zeros(2), "not a function", "Give it the function itself"),
    (dict, "not a function", "not a function"),
    (lambda W, key: W, "signature", "surprise(M, key, value)"),
    (lambda: 0, "signature", "cannot be called as"),
    (raises, "raised", "IndexError: list index out of range"),
    (raises, "raised", "return numbers[7]"),
    (raises_without_words, "raised", "BadWords"),
    (leaves, "raised", "SystemExit: bye"),
    (quits, "stopped", "interrupted"),
    (recurses, "raised", "RecursionError"),
    (is_a_hole, "not written", "not written yet.\n  02.3: Return"),
    (is_a_hole_of_nbgrader, "not written", "Write surprise(M, key, value)"),
    (lambda W, key, value: abstract(), "raised", "NotImplementedError: not for this device"),
    (loops, "too slow", "never end"),
    (sleeps, "too slow", "never end"),
    (loops_and_swallows, "too slow", "never end"),
    (swallows_in_a_with, "too slow", "never end"),
    (prints_for_ever, "too slow", "It printed: xxx"),
    (lambda W, key, value: None, "nothing", "Is the `return` missing?"),
    (lambda W, key, value: 3.5, "type", "u is a float"),
    (lambda W, key, value: 7, "type", "u is a whole number, expected a tensor"),
    (lambda W, key, value: "u", "type", "u is a str"),
    (
        lambda W, key, value: np.zeros((2, 2)),
        "type",
        "u is a NumPy array",
    ),
    (lambda W, key, value: {"u": W}, "type", "u is a dict"),
    (lambda W, key, value: [], "type", "is a list"),
    (lambda W, key, value: (W, W), "type", "2 results, expected 1: u [d_value, d_key]"),
    (lambda W, key, value: [[W]], "type", "a list or tuple with one thing in it"),
    (lambda W, key, value: [W], "type", "an extra bracket or comma"),
    (lambda W, key, value: W.to(torch.complex128), "type", "u is a tensor of complex numbers"),
    (contains_itself, "type", "a list"),
    (lambda W, key, value: W.to_sparse(), "type", "sparse"),
    (lambda W, key, value: W.to("meta"), "type", "meta"),
    (lambda W, key, value: W * float("nan"), "not finite", "NaN"),
    (lambda W, key, value: W / 0, "not finite", "infinite"),
    (lambda W, key, value: W[None], "shape", "[1, 2, 4], expected [2, 4]: u [d_value, d_key]"),
    (lambda W, key, value: W[:0], "shape", "[0, 4]"),
    (is_float32, "dtype", "u is float32, but the inputs are float64"),
    (lambda W, key, value: W > 0, "dtype", "u is bool"),
    (changes_the_weights, "changed inputs", "its own input M"),
    (changes_and_puts_back_a_key, "changed inputs", "its own input key"),
    (switches_gradients_on, "changed inputs", "its own input M"),
    (counts_its_calls, "unsteady", "gave two answers"),
    (rolls_dice, None, "not right"),
    (without_gradient_mode, "gradients", "no gradient flows back to M"),
    (is_async, "type", "a coroutine"),
    (is_a_generator, "type", "a generator"),
    (is_sneaky, "values", "expected"),
    (max, None, "not right"),
    (torch.outer, None, "not right"),
]


@pytest.mark.parametrize(("function", "kind", "words"), MISBEHAVIOUR)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_misbehaviour_gets_a_plain_message(function, kind, words, capsys):
    began = time.monotonic()
    calls.clear()
    result = examine_quickly(function)
    assert not result.passed
    assert kind in (None, result.kind)
    assert words in result.message
    for ours in ("Traceback", "checking", "minititans/course"):
        assert ours not in result.message
    assert len(result.message) < 2500
    assert capsys.readouterr() == ("", "")  # what it printed is in the message, if anywhere
    assert time.monotonic() - began < 60


def test_everything_is_as_before_after_misbehaviour():
    handler, tracer = signal.getsignal(signal.SIGALRM), sys.gettrace()
    for function in (loops, loops_and_swallows, sleeps, without_gradient_mode, leaves):
        examine_quickly(function)
        assert signal.getsignal(signal.SIGALRM) is handler
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert sys.gettrace() is tracer
        assert torch.is_grad_enabled()
        assert builtins.print.__module__ == "builtins"
    assert examine_quickly(right).passed


def uses_autograd(W, key, value):
    return torch.func.grad(lambda W: (W @ key - value).square().sum() / 2)(W)


def asks_for_autograd_and_loops(W, key, value):
    while True:
        with contextlib.suppress(Exception):
            uses_autograd(W, key, value)


def asks_for_autograd_and_raises(W, key, value):
    try:
        uses_autograd(W, key, value)
    finally:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (right, "passed"),
        (uses_autograd, "forbidden"),
        (asks_for_autograd_and_loops, "too slow"),
        (asks_for_autograd_and_raises, "stopped"),
        (leaves, "raised"),
        (loops_and_swallows, "too slow"),
    ],
)
def test_autograd_is_there_again_after_a_task_that_forbids_it(function, kind):
    before = [getattr(place, name) for place, name in DOORS]
    assert examine_quickly(function).kind == kind
    assert [getattr(place, name) for place, name in DOORS] == before
    assert torch.equal(torch.func.grad(torch.sin)(torch.zeros(())), torch.ones(()))
    assert examine("02.2", uses_autograd).passed


def test_autograd_is_forbidden_to_the_answer_only_and_not_to_other_threads():
    found = []
    x = torch.zeros(())

    def asks_elsewhere(W, key, value):
        thread = threading.Thread(target=lambda: found.append(torch.func.grad(torch.sin)(x)))
        thread.start()
        thread.join(timeout=300)
        return right(W, key, value)

    assert examine(RIGHT, asks_elsewhere).passed
    assert found and all(slope == 1 for slope in found)


def test_the_message_says_where_autograd_was_used():
    assert "in line" in examine(RIGHT, uses_autograd).message
    assert "torch.func.grad(lambda W" in examine(RIGHT, uses_autograd).message


def test_a_timer_of_somebody_else_goes_on():
    fired = []
    old = signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60)
        assert examine_quickly(right).passed
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        assert not fired
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_the_limit_holds_in_other_threads_and_where_there_are_no_signals(monkeypatch):
    found = {}

    def work():
        found["loops"] = examine_quickly(loops)
        found["right"] = examine_quickly(right)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert found["loops"].kind == "too slow" and found["right"].passed

    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    assert examine_quickly(loops).kind == "too slow"
    assert examine_quickly(right).passed


def test_a_function_that_only_waits_is_stopped_later_than_one_that_works(monkeypatch):
    monkeypatch.setattr(limit, "WAITING", 2)
    for function, least in ((loops, 0.3), (lambda *_: time.sleep(100), 0.6)):
        began = time.monotonic()
        with pytest.raises(OutOfTime):
            call_within(Budget(0.3), function, 1, 2, 3)
        assert time.monotonic() - began >= least


def test_an_endless_backward_pass_is_stopped():
    class Endless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            while True:
                pass

    result = examine_quickly(lambda W, key, value: Endless.apply(right(W, key, value)))
    assert result.kind == "too slow"


def test_printing_is_no_mistake():
    result = examine(RIGHT, prints_a_lot)
    assert result.passed and "It prints" in result.message
    assert "my error is 42" in examine_quickly(prints_and_is_wrong).message
    assert examine_quickly(prints_and_is_wrong).mistake == "sign of the gradient"


def test_what_differs_is_said_in_the_students_terms():
    def first_token_only(W, queries, keys, values, theta):
        y = checks.find_task("02.6")(W, queries, keys, values, theta)
        return torch.cat([y[:, :1], 1.5 * y[:, 1:] + 1], 1)

    message = examine("02.6", first_token_only).message
    assert "The first token is right; it goes wrong from token 1 on." in message
    message = examine(RIGHT, lambda W, key, value: 5 * right(W, key, value)).message
    assert "Every number is 5 times what it should be." in message
    message = examine("04.1", lambda W, S, alpha: (1 - alpha.clamp(0.05, 0.95)) * W + S).message
    assert "right as long as no gate is exactly 0" in message
    assert "u[" in examine(RIGHT, lambda W, key, value: W).message


# The notebook's `check`.


def test_check_in_a_script_ends_it_with_plain_words(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        textwrap.dedent(
            """
            from minititans.course import check

            def surprise(W, key, value):
                return None

            check("02.3", surprise)
            print("not reached")
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("✗ 02.3 surprise: not right yet.")
    assert "Traceback" not in done.stderr and not (tmp_path / "progress.json").exists()


def test_check_in_a_notebook_stops_it_without_a_traceback(monkeypatch, tmp_path):
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with pytest.raises(NotYet, match="not right yet") as caught:
        check(RIGHT, lambda W, key, value: -right(W, key, value))
    lines = caught.value._render_traceback_()
    assert all(len(line) <= 88 for line in lines)
    shown = " ".join(" ".join(lines).split())
    assert "points exactly the other way" in shown and 'hint("02.3")' in shown
    assert "File" not in shown and "line" not in shown


@pytest.mark.parametrize(("id", "words"), [("2.3", "02.3"), (2.3, "02.3"), ("nonsense", "01.1")])
def test_check_of_an_unknown_task_says_which_there_are(id, words):
    with pytest.raises(SystemExit, match=words):
        check(id, right)


def test_an_example_is_the_case_that_failed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    small = example("02.3")
    assert list(small) == ["M", "key", "value"] and small["M"].shape == (2, 4)

    def not_square(M, key, value):
        return right(M, key, value) * (1 if M.shape[0] == M.shape[1] else 2)

    with pytest.raises(SystemExit):
        check("02.3", not_square)
    failed = example("02.3")
    assert failed["M"].shape[0] != failed["M"].shape[1]
    assert not torch.allclose(not_square(**failed), right(**failed))


def test_checks_inputs_are_fresh_each_time(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    seen = []

    def remembers(W, key, value):
        seen.append(W.clone())
        return right(W, key, value)

    check("02.3", remembers)
    half = len(seen)
    check("02.3", remembers)
    assert torch.equal(seen[0], seen[half])  # the fixed ones
    assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(seen, seen[half:]))


def test_an_event_loop_that_runs_does_no_harm():
    async def in_a_loop():
        return examine_quickly(right).passed, examine_quickly(loops).kind

    assert asyncio.run(in_a_loop()) == (True, "too slow")
