"""What a check says is true and useful: by how much, why, and what to do about it."""

import os
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from minititans.course.checks import check, examine
from minititans.course.labs import find_task


def surprise(W, key, value):
    return torch.outer(W @ key - value, key)


def said(id, function):
    result = examine(id, function)
    assert not result.passed
    return " ".join(result.message.split())


# Numbers.


def test_a_small_difference_is_told_with_its_size_and_likely_cause():
    for id, answer in (
        ("02.5", lambda key: (1 / key.float().square().sum()).double()),
        ("04.4", lambda tokens: 1 - torch.exp(-0.693147 / tokens)),
    ):
        message = said(id, answer)
        assert "off by" in message and "float32" in message and "rounded" in message
        found, wanted = message.split(" is ")[1].split(": off by")[0].split(", expected ")
        assert found != wanted
        assert "times what it should be" not in message


def test_rounding_is_shown_as_zero():
    def forgets_to_cancel(keys, values):
        return find_task("01.5")(keys, values) + 0.5

    assert "e-1" not in said("01.5", forgets_to_cancel)
    [one] = [case for case in find_task("01.5").cases(None) if len(case["keys"]) == 1][:1]
    assert find_task("01.5")(**one).abs().max() < 1e-15  # which is what is expected there


def test_a_factor_is_told_unless_it_is_one():
    assert "3 times what it should be" in said("02.3", lambda *pair: 3 * surprise(*pair))
    assert "wrong sign" in said("01.2", lambda M, query: -(M @ query))
    assert "times" not in said("02.3", lambda *pair: (1 + 1e-6) * surprise(*pair))


def test_swapped_axes_are_a_matter_of_shape():
    message = said("01.4", lambda q, k, v: ((q @ k.mT).tril() @ v).mT)
    assert "y has shape [2, 4, 3], expected [2, 3, 4]: y [batch, time, d_value]" in message


def test_a_corner_is_named():
    def wrong_at_one(W, S, alpha):
        return (1 - alpha) * W + S if alpha < 1 else W + S

    assert "It goes wrong where alpha is 1." in said("04.1", wrong_at_one)

    def wrong_for_repeats(keys, values):
        same = len(keys) > 1 and torch.equal(keys[0], keys[1])
        return values.T @ keys * (1 + same)

    assert "where keys are the same at every token" in said("01.3", wrong_for_repeats)


# Gradients.


def test_a_formula_that_merely_differs_is_not_accused_of_cutting():
    def by_cases(theta, eta, n):
        return theta * n if eta == 1 else theta * (1 - eta**n) / (1 - eta)

    message = said("03.4", by_cases)
    assert "It goes wrong where eta is 1." in message
    assert "no gradient flows back to eta" in message and "leaves eta out" in message
    message = said("04.1", lambda W, S, alpha: (1 - alpha.clamp(1e-12, 1 - 1e-12)) * W + S)
    assert "the gradient with respect to alpha is 0, expected" in message
    assert "Either part of the way back is cut off" in message and "clamp" in message


def test_torch_errors_are_explained():
    def natural(W, key, value):
        loss = (W @ key - value).square().sum() / 2
        return torch.autograd.grad(loss, W)[0]

    message = said("02.2", natural)
    assert "does not require grad" in message and "requires_grad_()" in message
    assert "torch.func.grad" in message and "torch.autograd.grad(loss, W)[0]" in message

    def in_place(W, queries, keys, values, theta):
        rows = []
        for q, k, v, th in zip(queries, keys, values, theta):
            M, row = W.clone(), []
            for t in range(len(k)):
                M -= th[t] * torch.outer(M @ k[t] - v[t], k[t])
                row.append(M @ q[t])
            rows.append(torch.stack(row))
        return torch.stack(rows)

    message = said("02.6", in_place)
    assert "modified by an inplace operation" in message
    assert "even your own copy, make a new one" in message and "anomaly" not in message


def test_complex_numbers_and_numpy_are_called_what_they_are():
    message = said("02.3", lambda *pair: surprise(*pair) + 0j)
    assert "u is a tensor of complex numbers, expected u [d_value, d_key]" in message
    assert "a NumPy array" in said("02.3", lambda *pair: surprise(*pair).detach().numpy())
    assert "a NumPy number" in said("02.1", lambda *pair: np.float64(1.0))
    assert "an extra bracket or comma" in said("02.3", lambda *pair: (surprise(*pair),))


def test_results_are_counted_and_named_as_the_task_names_them():
    message = said("06.2", lambda *gates: find_task("06.2")(*gates)[:2])
    assert "It returns 2 results, expected 3: H [t, i], D [t, s], G [t, i]." in message

    def streamed(change):
        def answer(*inputs):
            y, state = find_task("06.6")(*inputs)
            return change(y, state)

        return said("06.6", answer)

    flat = streamed(lambda y, state: (y, *state))
    assert "It returns 5 results, expected 2: y [time, d_value], state (M, S, M_start, " in flat
    short = streamed(lambda y, state: (y, state[:3]))
    assert "state has 3 parts, expected 4: state (M, S, M_start, position)." in short
    late = streamed(lambda y, state: (y, (*state[:3], state[3] + 1)))
    assert "position is 6, expected 5." in late
    tensor = streamed(lambda y, state: (y, (*state[:3], torch.tensor(state[3]))))
    assert "position is a tensor, expected a whole number." in tensor


def test_an_answer_that_changes_from_call_to_call_is_called_that():
    calls = []

    def drifts(M, query):
        calls.append(1)
        return M @ query * (1 if len(calls) < 30 else 2)

    message = said("01.2", drifts)
    assert "it gave two answers" in message and "goes wrong where" not in message


def test_a_nan_from_a_branch_that_is_not_used_is_explained():
    def by_where(theta, eta, n):
        return torch.where(eta == 1, theta * n, theta * (1 - eta**n) / (1 - eta))

    message = said("03.4", by_where)
    assert "NaN or infinite. torch.where computes both branches" in message


# Leaving, and leaving things behind.


def ipython_exit(*_):
    from IPython.core.autocall import ExitAutocall
    from IPython.core.interactiveshell import InteractiveShell

    ExitAutocall(InteractiveShell.instance())()


@pytest.mark.parametrize(
    "leave",
    [lambda *_: exit(), lambda *_: quit(3), lambda *_: sys.exit("bye"), lambda *_: os._exit(0)],
)
def test_leaving_is_a_message_like_any_other(leave):
    leave_by_name, stdin = os._exit, sys.stdin
    assert "Use return to leave a function." in said("02.3", leave)
    assert os._exit is leave_by_name and sys.stdin is stdin and not stdin.closed
    assert examine("02.3", surprise).passed
    with pytest.raises(SystemExit) as stopped:
        check("02.3", leave)
    assert "example(" not in str(stopped.value)  # to try it outside a check would end the notebook


def test_leaving_as_notebooks_do_leaves_the_kernel_alone(monkeypatch):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell, asked = InteractiveShell.instance(), []
    monkeypatch.setattr(InteractiveShell, "ask_exit", lambda self: asked.append(1), raising=False)
    try:
        assert "Use return to leave a function." in said("02.3", ipython_exit)
        assert not asked
        shell.ask_exit()
        assert asked == [1]  # outside a check it is what it was
    finally:
        InteractiveShell.clear_instance()


def test_a_fork_of_a_function_may_still_end():
    def forks(W, key, value):
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return surprise(W, key, value)

    assert examine("02.3", forks, seed=None).passed


def test_global_settings_are_put_back(tmp_path):
    def sets(W, key, value):
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(3)
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002
        np.seterr(all="raise")
        sys.setrecursionlimit(5_000)
        os.chdir(tmp_path)
        raise ValueError

    def settings():
        return [
            torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(), np.geterr(),
            torch.get_rng_state().tolist(), random.getstate(), sys.getrecursionlimit(),
            np.random.get_state()[1].tolist(), os.getcwd(),  # noqa: NPY002
        ]  # fmt: skip

    before = settings()
    assert "ValueError" in said("02.3", sets)
    assert settings() == before


@pytest.mark.parametrize("close", ["sys.stdout.close()", "sys.__stdout__.close()", "os.close(1)"])
def test_a_closed_output_is_no_traceback(close, tmp_path):
    script = f"""
        import contextlib, os, sys
        import torch
        from minititans.course import check
        def surprise(W, key, value):
            with contextlib.suppress(OSError):
                {close}
            print("into nothing")
            return torch.outer(W @ key - value, key)
        check("02.3", surprise)
        sys.stderr.write("went on")
        sys.stderr.flush()
        os._exit(0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.stderr == "went on"
