"""Rooms import only from rooms above them, in the order of docs/architecture.md."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "minititans"
# `with_parameters` must count a model's parameters: it asks the model, when it is called.
ALLOWED = {("config", "model")}
# Imported by the command line, which must answer without torch: they import the rest when it runs.
BEFORE_TORCH = {
    "cli.py", "config.py", "generation.py", "course/grading/command.py", "experiment_command.py",
    "training/command.py",
}  # fmt: skip
LATE = BEFORE_TORCH | {
    "memory/triton/rule.py",  # where Triton is installed
}

DRAWING = ("matplotlib", "ipywidgets", "IPython", "minititans.palette", "minititans.viz")
# A trace or a model may be looked at; the forms of the rule and what trains are not for drawing.
LEARNING = (
    "torch.nn", "torch.optim", "torch.autograd", "torch.func",
    *(f"minititans.{name}" for name in (
        "attention", "relatives", "training", "variants", "memory.chunked", "memory.fast",
        "memory.neural_memory", "memory.sequential", "memory.scan", "memory.triton",
    )),
)  # fmt: skip


def order() -> dict[str, int]:
    """Each room's row in the table."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| room |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [line.split("|")[1] for line in table]
    return {room: row for row, cell in enumerate(cells) for room in re.findall(r"`(\w+)/?`", cell)}


def room(module: str) -> str | None:
    """`minititans.memory.chunked` is in the room `memory`; the package itself is in none."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imports(path: Path, package: str = "minititans") -> set[str]:
    """The modules that a file imports, of one package or ("") of all."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if package in ("", name.split(".")[0])}


def rooms() -> list[str]:
    names = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    return sorted(name for name in names if re.fullmatch(r"[a-z]\w*", name) and name != "py")


def test_the_page_names_every_room_and_no_other():
    assert set(order()) == set(rooms())


@pytest.mark.parametrize("name", rooms())
def test_a_room_imports_only_from_rooms_above_it(name):
    place = order()
    files = [PACKAGE / f"{name}.py"] if (PACKAGE / f"{name}.py").exists() else []
    files += (PACKAGE / name).rglob("*.py")
    assert files
    for file in files:
        for module in imports(file):
            other = room(module)
            if other in place and other != name and (name, other) not in ALLOWED:
                assert place[other] <= place[name], f"{file.relative_to(ROOT)} imports {module}"
                same_row = place[other] == place[name]
                assert not same_row or name not in {
                    room(m) for f in (PACKAGE / other).rglob("*.py") for m in imports(f)
                }


def imported_late(path: Path) -> set[str]:
    """What of minititans is imported inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = [each for node in functions for each in ast.walk(node)]
    return {
        each.module
        for each in inside
        if isinstance(each, ast.ImportFrom) and each.module.split(".")[0] == "minititans"
    }


def test_modules_import_at_their_top_unless_they_must_start_without_torch():
    late = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if imported_late(p)}
    assert late == LATE


def test_the_command_line_can_be_imported_without_torch():
    names = [f"minititans.{name.removesuffix('.py').replace('/', '.')}" for name in BEFORE_TORCH]
    program = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0


def test_the_memory_needs_nothing_but_what_everything_shares():
    found = {room(m) for f in (PACKAGE / "memory").rglob("*.py") for m in imports(f)}
    shared = {name for name, row in order().items() if row == 0}
    assert found - {"memory", None} <= shared


def test_only_the_palette_knows_what_the_colours_are():
    named = set(re.findall(r"#[0-9A-F]{6}", (PACKAGE / "palette.py").read_text(encoding="utf-8")))
    assert len(named) > 30
    for file in {*PACKAGE.rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")}:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = {str(n.value).upper() for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        colours = {text for text in texts if re.fullmatch(r"#([0-9A-F]{3}|[0-9A-F]{6})", text)}
        outside = colours if file.is_relative_to(PACKAGE) else colours & named
        assert file.name == "palette.py" or not outside, f"{file}: {outside}"


def test_numbers_are_made_in_experiments_and_drawn_in_viz():
    """Experiments need nothing to draw with, and viz nothing that learns."""
    for folder, others in (("experiments", DRAWING), ("viz", LEARNING)):
        for file in (PACKAGE / folder).rglob("*.py"):
            found = {name for name in imports(file, "") if name.startswith(others)}
            assert not found, f"{file.relative_to(ROOT)} imports {found}"
