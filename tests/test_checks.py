"""The checks of the exercises: right answers pass, wrong ones fail and are told why."""

import ast
import copy
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from minititans.course.check_attempt import Attempt, run_all
from minititans.course.check_judge import TOLERANCE, judge
from minititans.course.checks import examine
from minititans.course.exercises import solutions
from minititans.course.exercises_nbgrader import CHECK
from minititans.course.labs import Lab, all_labs, find_task

ROOT = Path(__file__).resolve().parent.parent
TASKS = [task for lab in all_labs().values() for task in lab.tasks]
MISTAKES = [(task, mistake) for task in TASKS for mistake in task.mistakes]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
slowly = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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


def test_labs_have_three_to_six_tasks_numbered_in_order():
    assert {"01", "02", "03", "04", "05", "06"} <= {*all_labs()}  # and any later one
    for number, lab in all_labs().items():
        assert 3 <= len(lab.tasks) <= 6
        assert [t.id for t in lab.tasks] == [f"{number}.{i + 1}" for i in range(len(lab.tasks))]


@each_task
def test_a_task_has_three_hints_and_mistakes_of_different_names(task):
    assert len(task.hints) == 3 and len(set(task.hints)) == 3
    names = [mistake.name for mistake in task.mistakes]
    assert len(names) >= 3 and len(set(names)) == len(names)


@each_task
@pytest.mark.parametrize("seed", [0, 1, 271828])
def test_a_solution_passes(task, seed):
    result = examine(task.id, SOLUTIONS[task.id], seed)
    assert result.passed, result.message
    assert (result.kind, result.mistake, result.diagnosis) == ("passed", None, "right")


@pytest.mark.parametrize(
    ("task", "mistake"), MISTAKES, ids=[f"{t.id}-{m.name}".replace(" ", "-") for t, m in MISTAKES]
)
def test_a_mistake_fails_and_is_named_rightly(task, mistake):
    for seed in (0, 314159):
        result = examine(task.id, mistake.answer, seed)
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
    return replace_leaf(answer, leaf, change(flat, spot).reshape(tensors[leaf].shape))


@pytest.mark.slow
@each_task
@given(data=st.data())
@slowly
def test_an_answer_with_one_number_wrong_by_a_millionth_fails(task, data):
    leaf, place = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 30))
    by = data.draw(st.floats(1e-6, 1e3)) * data.draw(st.sampled_from([1, -1]))
    seed = data.draw(st.integers(0, 999))

    def wrong(*arguments):
        answer = task(*arguments)
        scale = max(1.0, max(t.detach().abs().max().item() for t in leaves(answer)))
        return put_wrong(answer, leaf, place, lambda flat, spot: flat + by * scale * spot)

    assert by * 1.0 and abs(by) > TOLERANCE
    assert not examine(task.id, wrong, seed).passed


def conditions(task):
    """Ways in which inputs differ: what a wrong answer may be wrong on, and nothing else."""
    by_name = task.cases(0)[0]
    found = []
    for name, example in by_name.items():
        if isinstance(example, Tensor) and example.dim() > 0:
            for axis in range(example.dim()):
                found.append((f"{name} has 1 along axis {axis}", name, axis, "one"))
                found.append((f"{name} has more than 1 along axis {axis}", name, axis, "many"))
        if name in ("eta", "alpha", "gate"):
            found.append((f"{name} is 0 somewhere", name, 0.0, "holds"))
            found.append((f"{name} is 1 somewhere", name, 1.0, "holds"))
    return found


def applies(condition, value) -> bool:
    _, _, what, kind = condition
    if kind == "one":
        return value.shape[what] == 1
    if kind == "many":
        return value.shape[what] > 1
    return bool((value == what).any())


@pytest.mark.slow
@each_task
def test_an_answer_that_is_wrong_only_on_some_inputs_fails(task):
    names = list(task.cases(0)[0])
    for condition in conditions(task):
        for seed in (1, 77):
            seen = []

            def wrong(*arguments, condition=condition, seen=seen):
                answer = task(*arguments)
                value = arguments[names.index(condition[1])]
                if not applies(condition, value):
                    return answer
                seen.append(condition)
                return put_wrong(answer, 0, 0, lambda flat, spot: flat + 0.01)

            assert not examine(task.id, wrong, seed).passed, condition[0]
            assert seen, f"no input of the check has it: {condition[0]}"


@pytest.mark.parametrize("task", [t for t in TASKS if t.gradients], ids=lambda task: task.id)
def test_right_numbers_with_a_wrong_gradient_fail(task):
    def detached(*arguments):
        return replace_each(task(*arguments), Tensor.detach)

    def partly(*arguments):  # the first tensor gets no gradient
        tensors = [number for number, a in enumerate(arguments) if list(leaves(a))]
        cut = [
            replace_each(a, Tensor.detach) if n == tensors[0] else a
            for n, a in enumerate(arguments)
        ]
        return task(*cut)

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
def test_a_solution_with_one_thing_changed_fails_or_is_right_on_a_thousand_inputs(path):
    count = 0
    for id, function, what in changed_solutions(path):
        count += 1
        if examine(id, function, seed=3).passed:
            for seed in range(100, 180):
                result = examine(id, function, seed)
                assert result.passed, f"{id}: {what} passes with seed 3, not with {seed}"
    assert count >= 10


@pytest.mark.slow
@each_task
@given(seed=st.integers(0, 10**6))
@slowly
def test_right_answers_pass_with_any_seed(task, seed):
    result = examine(task.id, SOLUTIONS[task.id], seed)
    assert result.passed, result.message


def test_the_last_attempt_repeats_the_first_case_and_inputs_are_seeded():
    task = find_task("02.3")
    assert torch.equal(task.cases(4)[5]["W"], task.cases(4)[5]["W"])
    assert task.cases(4)[5]["W"].shape != task.cases(5)[5]["W"].shape or not torch.equal(
        task.cases(4)[5]["W"], task.cases(5)[5]["W"]
    )
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
