"""The checks of the exercises: right answers pass, wrong ones fail and are told why."""

import ast
import copy
import re
from functools import partial
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import grad, jacrev, vjp

from minititans.course.checking.attempt import LIMIT, run_all, run_each
from minititans.course.checking.judge import TOLERANCE, difference, judge, right_answers
from minititans.course.checking.record import Attempt
from minititans.course.checking.rules import DOORS, RULES
from minititans.course.checks import examine
from minititans.course.labs import Lab, all_labs, find_task
from minititans.course.labs.draw import LARGE
from minititans.course.making.exercises import solutions
from minititans.course.making.nbgrader_cells import CHECK
from minititans.memory.scan import linear_recurrence

ROOT = Path(__file__).resolve().parents[2]
TASKS = [task for lab in all_labs().values() for task in lab.tasks]
MISTAKES = [(task, mistake) for task in TASKS for mistake in task.mistakes]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
slowly = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def cells_of(path: Path) -> str:
    """The cells of a lab that define and import: its functions, without what shows them."""
    cells = path.read_text(encoding="utf-8").split("# %%")
    wanted = (cell for cell in cells if "BEGIN SOLUTION" in cell or "import torch" in cell)
    return "\n".join(cell.partition("\n")[2] for cell in wanted)


def load_solutions() -> dict:
    found = {}
    for path in solutions(ROOT):
        namespace = {}
        exec(compile(cells_of(path), str(path), "exec"), namespace)
        for id, name in CHECK.findall(path.read_text(encoding="utf-8")):
            found[id] = namespace[name]
    return found


SOLUTIONS = load_solutions()


def test_every_task_has_a_solution_under_its_name_and_every_solution_a_task():
    assert {id: f.__name__ for id, f in SOLUTIONS.items()} == {t.id: t.function for t in TASKS}


def test_labs_have_three_to_seven_tasks_numbered_in_order():
    assert {"01", "02", "03", "04", "05", "06"} <= {*all_labs()}  # and any later one
    for number, lab in all_labs().items():
        assert 3 <= len(lab.tasks) <= 7
        assert [t.id for t in lab.tasks] == [f"{number}.{i + 1}" for i in range(len(lab.tasks))]


@each_task
def test_a_task_has_three_hints_and_mistakes_of_different_names(task):
    assert len(task.hints) == 3 and len(set(task.hints)) == 3
    names = [mistake.name for mistake in task.mistakes]
    assert len(names) >= 3 and len(set(names)) == len(names)


def test_tasks_forbid_what_their_text_rules_out():
    forbidden = {task.id: task.forbids for task in TASKS if task.forbids}
    assert forbidden == {
        "01.3": ("loop",), "01.4": ("loop",), "06.4": ("loop",),
        "02.3": ("autograd",), "05.2": ("autograd",), "05.4": ("autograd",),
        "09.3": ("autograd",),
    }  # fmt: skip
    assert {rule for rules in forbidden.values() for rule in rules} == set(RULES)
    for path in solutions(ROOT):
        for task in path.read_text(encoding="utf-8").split("\n# ## ")[1:]:
            text = task.split("# %%")[0].replace("\n# ", " ").lower()
            says = {"autograd": "without autograd", "loop": "out a loop|no loop"}
            found = tuple(rule for rule, words in says.items() if re.search(words, text))
            assert found == forbidden.get(task[:4], ()), task[:4]


@each_task
def test_a_solution_passes(task):
    result = examine(task.id, SOLUTIONS[task.id])  # with other seeds: test_checks_seeds.py
    assert result.passed, result.message
    assert (result.kind, result.mistake, result.diagnosis) == ("passed", None, "right")


@pytest.mark.parametrize(
    ("task", "mistake"), MISTAKES, ids=[f"{t.id}-{m.name}".replace(" ", "-") for t, m in MISTAKES]
)
def test_a_mistake_fails_and_is_named_rightly(task, mistake):
    result = examine(task.id, mistake.answer)  # with other seeds: test_checks_seeds.py
    assert not result.passed
    assert result.mistake == result.diagnosis == mistake.name, result.message
    assert mistake.says.split()[0] in result.message
    assert result.message.startswith(f"✗ {task.id} {task.function}")


def test_the_mistakes_that_people_make_everywhere_are_in_the_bank():
    names = {mistake.name for _, mistake in MISTAKES}
    assert {
        "sign of the gradient",
        "alpha for 1 − alpha",
        "decay after the write",
        "transposed outer product",
        "read before write",
        "eta on the wrong side",
        "off by one",
        "mean for sum",
        "chunk-start weights forgotten",
        "batch rows mixed",
    } <= names


# No wrong answer passes: not by a little, not in one place, not on some inputs only.


def leaves(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)


def replace_leaf(value, number, new):
    """A copy of nested lists and tuples with the tensor of that number exchanged."""
    if isinstance(value, Tensor):
        return new if number == 0 else value
    if isinstance(value, list | tuple):
        parts = []
        for item in value:
            parts.append(replace_leaf(item, number, new))
            number -= len(list(leaves(item)))
        return type(value)(parts)
    return value


def put_wrong(answer, leaf, place, change):
    """The answer with one number in it changed."""
    tensors = list(leaves(answer))
    leaf %= len(tensors)
    flat = tensors[leaf].reshape(-1)
    spot = torch.arange(flat.numel()) == place % flat.numel()
    changed = change(flat, spot)
    if not flat.is_floating_point():  # the least that whole numbers can be wrong by
        changed = flat + (changed != flat).to(flat.dtype)
    return replace_leaf(answer, leaf, changed.reshape(tensors[leaf].shape))


@pytest.mark.slow
@each_task
@given(data=st.data())
@slowly
def test_an_answer_with_one_number_wrong_by_a_millionth_fails(task, data):
    leaf, place = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 30))
    by = data.draw(st.floats(1e-6, 1e3)) * data.draw(st.sampled_from([1, -1]))

    def wrong(*arguments):
        answer = SOLUTIONS[task.id](*arguments)  # which does what the task asks for
        scale = max(1.0, max(t.detach().abs().max().item() for t in leaves(answer)))
        return put_wrong(answer, leaf, place, lambda flat, spot: flat + by * scale * spot)

    assert by * 1.0 and abs(by) > TOLERANCE
    assert not examine(task.id, wrong).passed


def numbers_in(arguments) -> dict[str, int]:
    """Every size of the inputs, by a name: "keys along axis 0", "how many weights", "tokens"."""
    found = {}
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            found |= {f"{name} along axis {n}": size for n, size in enumerate(value.shape)}
        elif isinstance(value, list):
            found[f"how many {name}"] = len(value)
        elif isinstance(value, int):
            found[name] = value
    return found


def conditions(task):
    """Ways in which inputs differ: what a wrong answer may be wrong on, and nothing else."""
    example = task.cases(0)[0]
    for size in numbers_in(example):
        sizes = {numbers_in(case)[size] for case in task.cases(None)}
        if len(sizes) == 1:  # the task itself says how many
            continue
        least = min(sizes)  # mostly 1
        for n in range(least, least + 4):
            yield f"{size} is exactly {n}", lambda case, size=size, n=n: numbers_in(case)[size] == n
        most = least + 3
        yield f"{size} is large", lambda case, size=size, n=most: numbers_in(case)[size] > n
    for name in {"theta", "eta", "alpha", "gate"} & example.keys():
        for limit in (0.0, 1.0):
            yield (
                f"{name} is {limit} somewhere",
                lambda case, name=name, limit=limit: bool((case[name] == limit).any()),
            )


@each_task
def test_every_kind_of_input_is_among_those_of_a_check(task):
    for seed in (0, 1, 77, 4711):
        cases = task.cases(seed)
        for words, applies in conditions(task):
            assert any(map(applies, cases)), f"no input of the check has it: {words}"
            assert not all(map(applies, cases)), f"all have it: {words}"


@each_task
def test_one_input_is_large_and_no_two_of_its_sizes_are_equal(task):
    draws = [draw for draw in task.draws(None) if not draw.corner]
    *others, large = sorted(draws, key=lambda draw: draw.case == LARGE)
    assert min(large.sizes) > 4 and len(set(large.sizes)) >= min(len(large.sizes), 5)
    assert large.time is None or large.time >= 12
    if large.time is not None:  # and before that every number of tokens comes once
        times = {draw.time for draw in others}
        assert times == set(range(1, max(times) + 1))


@each_task
def test_the_first_input_is_small_and_no_two_of_its_sizes_are_equal(task):
    first = task.draws(None)[0]
    assert len(set(first.sizes)) == len(first.sizes) and max(first.sizes) <= 6


@pytest.mark.slow
@each_task
def test_an_answer_that_is_wrong_only_on_some_inputs_fails(task):
    names = list(task.cases(0)[0])
    all_conditions = list(conditions(task))
    for words, applies in (all_conditions[0], all_conditions[4], all_conditions[-1]):

        def wrong(*arguments, applies=applies):
            answer = SOLUTIONS[task.id](*arguments)
            if not applies(dict(zip(names, arguments))):
                return answer
            return put_wrong(answer, 0, 0, lambda flat, spot: flat + 0.01)

        assert examine(task.id, wrong, 1).kind in ("values", "raised"), words


TOO_SHORT = {
    "01.3": lambda keys, values: values[:4].T @ keys[:4],
    "01.5": lambda keys, values: find_task("01.5")(keys[:9], values[:9]),
    "03.4": lambda theta, eta, tokens: theta * sum(eta**n for n in range(min(tokens, 7))),
    "05.1": lambda weights, x: find_task("05.1")(weights[:4], x),
}


@pytest.mark.parametrize("id", TOO_SHORT)
def test_an_answer_that_stops_after_a_few_is_wrong(id):
    for seed in range(5):
        assert not examine(id, TOO_SHORT[id], seed).passed


# Right numbers by a way that the task's text rules out.


def loss(W, key, value):
    return (W @ key - value).square().sum() / 2


def by_autograd_grad(W, key, value):
    W = W if W.requires_grad else W.clone().requires_grad_()
    return torch.autograd.grad(loss(W, key, value), W, create_graph=True)[0]


def by_backward(W, key, value):
    W = W.detach().clone().requires_grad_()
    loss(W, key, value).backward()
    return W.grad


def by_forward_mode(W, key, value):
    slopes = torch.func.jacfwd(loss)(W, key, value)
    return slopes.reshape(W.shape)


def by_dual_numbers(W, key, value):
    found = []
    for one in torch.eye(W.numel(), dtype=W.dtype).reshape(-1, *W.shape):
        with dual_level():
            found.append(unpack_dual(loss(make_dual(W, one), key, value)).tangent)
    return torch.stack(found).reshape(W.shape)


def deep_loss(W1, W2, key, value):
    return (W2 @ F.silu(W1 @ key) - value).square().sum() / 2


made_before = grad(loss)  # by a name that nobody can take away any more
AUTOGRAD = [
    ("02.3", torch.func.grad(loss)),
    ("02.3", lambda *pair: torch.func.grad(loss)(*pair)),
    ("02.3", lambda *pair: grad(loss)(*pair)),
    ("02.3", lambda *pair: torch.func.grad_and_value(loss)(*pair)[0]),
    ("02.3", lambda *pair: jacrev(loss)(*pair)),
    ("02.3", lambda W, *pair: vjp(lambda W: loss(W, *pair), W)[1](torch.ones_like(W[0, 0]))[0]),
    ("02.3", lambda W, *pair: torch.autograd.functional.jacobian(lambda W: loss(W, *pair), W)),
    ("02.3", by_autograd_grad),
    ("02.3", by_backward),
    ("02.3", by_forward_mode),
    ("02.3", by_dual_numbers),
    ("02.3", lambda *pair: made_before(*pair)),
    ("05.2", lambda z: torch.func.vmap(torch.func.grad(F.silu))(z)),
    ("05.4", lambda *inputs: torch.func.grad(deep_loss, argnums=(0, 1))(*inputs)),
]


@pytest.mark.parametrize(("id", "answer"), AUTOGRAD)
def test_autograd_fails_where_the_task_asks_for_the_closed_form(id, answer):
    before = [getattr(place, name) for place, name in DOORS]
    result = examine(id, answer)
    assert (result.passed, result.kind) == (False, "forbidden"), result.message
    assert f"{id} asks for the closed form: no autograd here." in result.message
    assert result.diagnosis == "not as the task asks"
    assert [getattr(place, name) for place, name in DOORS] == before


def test_autograd_is_fine_where_nothing_is_said_against_it():
    for answer in (by_autograd_grad, made_before, grad(loss)):
        assert examine("02.2", answer).passed


def loop_in_lab_06(W, S, W_start, queries, keys, values, theta, eta, alpha):
    readings = []
    for t in range(len(keys)):
        S = eta[t] * S - theta[t] * torch.outer(W_start @ keys[t] - values[t], keys[t])
        W = (1 - alpha[t]) * W + S
        readings.append(W @ queries[t])
    return torch.stack(readings)


def loop_in_lab_01(queries, keys, values):
    M, readings = values.new_zeros(len(keys), values.shape[-1], keys.shape[-1]), []
    for t in range(keys.shape[1]):
        M = M + values[:, t, :, None] * keys[:, t, None, :]
        readings.append((M @ queries[:, t, :, None])[..., 0])
    return torch.stack(readings, 1)


LOOPS = [
    ("01.3", lambda keys, values: sum(torch.outer(v, k) for k, v in zip(keys, values))),
    ("01.4", loop_in_lab_01),
    ("06.4", loop_in_lab_06),
]


@pytest.mark.parametrize(("id", "answer"), LOOPS)
def test_a_loop_over_tokens_fails_where_the_task_asks_for_matrix_products(id, answer):
    for seed in range(3):
        result = examine(id, answer, seed)
        assert (result.passed, result.kind) == (False, "forbidden"), result.message
        assert f"The numbers are right, but {id} asks for matrix products." in result.message
    wrong = examine(id, lambda *inputs: 2 * answer(*inputs))
    assert wrong.kind == "values" and "matrix products" not in wrong.message


def with_all_memories(queries, keys, values):
    memories = torch.einsum("btv,btk->btvk", values, keys).cumsum(1)
    return torch.einsum("btvk,btk->btv", memories, queries)


def with_a_scan(queries, keys, values):
    memories = torch.einsum("btv,btk->btvk", values, keys)
    keep = memories.new_ones(keys.shape[:2])
    memories = linear_recurrence(keep, memories, torch.zeros_like(memories[:, 0]))
    return torch.einsum("btvk,btk->btv", memories, queries)


def row_by_row(queries, keys, values):
    rows = zip(queries, keys, values)
    return torch.stack([(q @ k.T).tril() @ v for q, k, v in rows])


@pytest.mark.parametrize("answer", [with_all_memories, with_a_scan, row_by_row])
def test_what_is_no_loop_over_tokens_passes(answer):
    assert examine("01.4", answer).passed


def test_a_loop_over_gates_is_no_loop_over_tokens():
    source = (ROOT / "solutions/06_chunks.py").read_text(encoding="utf-8")
    assert "for t in range(len(gate))" in source  # which 06.4 calls
    assert examine("06.4", SOLUTIONS["06.4"]).passed


# What a wrong answer is told about where it is wrong.


def spoiled(id, applies):
    """The right answer, with 0.01 added wherever it applies."""
    names = list(find_task(id).cases(0)[0])

    def answer(*arguments):
        found = SOLUTIONS[id](*arguments)
        if not applies(**dict(zip(names, arguments))):
            return found
        return put_wrong(found, 0, 0, lambda flat, spot: flat + 0.01)

    return answer


GATES, ONES, EQUAL = "no gate is exactly", "except where every size is 1", "all sizes are equal"
PATTERNS = [
    ("04.1", lambda alpha, **_: alpha.detach().item() in (0.0, 1.0), GATES),
    ("06.1", lambda gate: bool(((gate == 0) | (gate == 1)).any()), GATES),
    ("02.3", lambda M, **_: M.shape == (1, 1), ONES),
    ("02.3", lambda M, **_: M.shape[0] != M.shape[1], EQUAL),
    ("06.1", lambda gate: len(gate) > 3, "It is right up to 3 tokens."),
    ("06.1", lambda gate: len(gate) > 1, "It is right up to 1 token."),
    ("02.6", lambda keys, **_: keys.shape[1] > 2, "It is right up to 2 tokens."),
    ("03.4", lambda tokens, **_: tokens > 5, "It is right up to 5 tokens."),
    ("06.1", lambda gate: len(gate) == 3, None),
    ("06.1", lambda gate: len(gate) < 3, None),
    ("01.1", lambda M, **_: M.shape[0] > 3, None),
    ("02.1", lambda M, **_: True, None),
]


@pytest.mark.parametrize(("id", "applies", "words"), PATTERNS)
@pytest.mark.parametrize("seed", range(4))
def test_only_true_patterns_are_told(id, applies, words, seed):
    message = examine(id, spoiled(id, applies), seed).message
    for other in (GATES, ONES, EQUAL, "It is right up to"):
        assert (other in message) == (words is not None and other in words), message
    assert (words or "") in message


@pytest.mark.parametrize("task", [t for t in TASKS if t.gradients], ids=lambda task: task.id)
def test_right_numbers_with_a_wrong_gradient_fail(task):
    right = SOLUTIONS[task.id]

    def detached(*arguments):
        return replace_each(right(*arguments), Tensor.detach)

    def partly(*arguments):  # the first tensor gets no gradient
        tensors = [number for number, a in enumerate(arguments) if list(leaves(a))]
        cut = [
            replace_each(a, Tensor.detach) if n == tensors[0] else a
            for n, a in enumerate(arguments)
        ]
        return right(*cut)

    for function in (detached, partly):
        result = examine(task.id, function)
        assert (result.passed, result.kind) == (False, "gradients"), result.message
        assert "gradient" in result.message or result.mistake


def replace_each(value, function):
    for number, tensor in enumerate(list(leaves(value))):
        value = replace_leaf(value, number, function(tensor))
    return value


# Solutions with one thing in their code changed: each is caught, or is no mistake at all.


SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}


class Change(ast.NodeTransformer):
    """Change the node of this number: an operator, a constant, a comparison, a name's order."""

    def __init__(self, number: int):
        self.left, self.what = number, None

    def turn(self) -> bool:
        self.left -= 1
        return self.left == -1

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) in SWAPS and self.turn():
            self.what = f"{ast.unparse(node)} got another operator"
            node.op = SWAPS[type(node.op)]()
        if isinstance(node.op, ast.MatMult | ast.Sub) and self.turn():
            self.what = f"{ast.unparse(node)} the other way round"
            node.left, node.right = node.right, node.left
        return node

    def visit_Constant(self, node):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and self.turn():
            self.what = f"{node.value} became {node.value + 1}"
            return ast.Constant(node.value + 1)
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        minus = isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
        if minus and self.turn():
            self.what = f"{ast.unparse(node)} lost its minus"
            return node.operand
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if node.attr in ("T", "mT") and self.turn():
            self.what = f"{ast.unparse(node)} lost its transposition"
            return node.value
        return node


def changed_solutions(path: Path):
    """(task id, function, what was changed) for every single change of every hole of a lab."""
    source = cells_of(path)
    ids = {name: id for id, name in CHECK.findall(path.read_text(encoding="utf-8"))}
    tree = ast.parse(source)
    for position, node in enumerate(tree.body):
        if not isinstance(node, ast.FunctionDef) or node.name not in ids:
            continue
        for number in range(100):
            change, other = Change(number), copy.deepcopy(tree)
            other.body[position] = change.visit(other.body[position])
            if change.what is None:
                break
            namespace = {}
            code = compile(ast.fix_missing_locations(other), str(path), "exec")
            exec(code, namespace)
            yield ids[node.name], namespace[node.name], change.what


@pytest.mark.slow
@pytest.mark.parametrize("path", solutions(ROOT), ids=lambda path: path.stem)
def test_a_solution_with_one_thing_changed_fails_or_is_right_on_a_hundred_inputs(path):
    count = 0
    for id, function, what in changed_solutions(path):
        count += 1
        if not is_shown_wrong(find_task(id), function):
            for seed in range(100, 110):
                result = examine(id, function, seed)
                assert result.passed, f"{id}: {what} passes on the fixed inputs, not with {seed}"
    assert count >= 10


def is_shown_wrong(task, function) -> bool:
    """Whether a fixed input shows it, the first of which ends the search."""
    attempts = run_each(task, function, None, LIMIT)
    return any(map(partial(difference, task), attempts, right_answers(task, None)))


def test_the_last_attempt_repeats_the_first_case_and_inputs_are_seeded():
    task = find_task("02.3")
    fixed = len(task.cases(None))
    for case, (one, again, other) in enumerate(zip(*map(task.cases, (4, 4, 5)))):
        assert torch.equal(one["M"], again["M"])
        same = one["M"].shape == other["M"].shape and torch.equal(one["M"], other["M"])
        assert same == (case < fixed)
    attempts = run_all(task, task.reference, 4)
    assert torch.equal(attempts[0].values["u"], attempts[-1].values["u"])
    assert all(v.dtype == torch.float64 for a in attempts for v in a.values.values())


def test_attempts_can_be_judged_in_another_process(tmp_path):
    task = find_task("05.5")
    for function, passed in ((SOLUTIONS["05.5"], True), (task.mistakes[0].answer, False)):
        attempts = run_all(task, function, 9)
        torch.save([attempt.to_plain() for attempt in attempts], tmp_path / "answers")
        plain = torch.load(tmp_path / "answers", weights_only=True)
        result = judge(task, [Attempt.from_plain(each) for each in plain], 9)
        assert result.passed == passed
        assert result.message == examine("05.5", function, 9).message


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("odd"),
        lambda d: d.update(more=1),
        lambda d: d.update(problem="fine"),
        lambda d: d.update(values={"u": "a string"}),
        lambda d: d.update(values={1: torch.zeros(2)}),
        lambda d: d.update(printed=b"bytes"),
        lambda d: d.update(changed=[3]),
        lambda d: d.update(gradients=[]),
        lambda d: d.update(counts=[3]),
        lambda d: d.update(counts=[3, 4.5]),
    ],
)
def test_what_is_no_attempt_is_refused(change):
    plain = Attempt().to_plain()
    change(plain)
    with pytest.raises(ValueError, match="plain"):
        Attempt.from_plain(plain)


def test_half_of_the_attempts_do_not_pass():
    task = find_task("02.3")
    attempts = run_all(task, task.reference)
    assert judge(task, attempts).passed
    assert not judge(task, attempts[:5]).passed
    assert not judge(task, []).passed


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"no task '2.3'; did you mean .*02\.3"):
        find_task("2.3")


def test_a_lab_of_ones_own_is_checked_like_the_others(monkeypatch):
    lab = Lab("77", "Squares")

    @lab.task(
        "77.1",
        "Square",
        inputs=lambda draw: {"x": draw.normal(draw.size())},
        returns="y [dim]",
        hints=("one", "two", "three"),
    )
    def square(x):
        return x * x

    @square.mistake("double", "You double.")
    def _(x):
        return 2 * x

    monkeypatch.setattr("minititans.course.labs.all_labs", lambda: {"77": lab})
    assert examine("77.1", lambda x: x**2).passed
    assert examine("77.1", lambda x: x + x).mistake == "double"
    assert examine("77.1", lambda x: x**3).diagnosis == "wrong numbers"
