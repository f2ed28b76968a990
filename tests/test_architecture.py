"""Rooms import only from rooms above them, in the order of docs/architecture.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "minititans"
# `with_parameters` must count a model's parameters: it asks the model, when it is called.
ALLOWED = {("config", "model")}


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


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "minititans"}


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


def test_the_memory_needs_nothing_but_what_everything_shares():
    found = {room(m) for f in (PACKAGE / "memory").rglob("*.py") for m in imports(f)}
    shared = {name for name, row in order().items() if row == 0}
    assert found - {"memory", None} <= shared
