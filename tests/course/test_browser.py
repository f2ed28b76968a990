"""The widgets in Chromium: every control of every notebook in JupyterLab, one in Notebook 7."""

import ast
import os
import shutil
import statistics
from pathlib import Path

import nbformat
import pytest

from minititans.course.making.browser import browser, jupyterlab, missing, open_notebook, run_all

ROOT = Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / "test-artefacts"
SCREEN = {"width": 1280, "height": 800}  # a small laptop
TALLEST = 620  # pixels of a widget, so that its sliders and its picture are seen together
REDRAW = 100  # milliseconds from a slider's move to the new picture, median, on a free machine
HANGS = 20  # times that: on a busy machine a picture may be late, but not this late

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no tests in a browser: {missing()}"),
]


def is_widget(cell: nbformat.NotebookNode) -> bool:
    texts = (output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", []))
    return any(text.startswith("Explorer(") for text in texts)


NOTEBOOKS = [
    path.name
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    if any(map(is_widget, nbformat.read(path, as_version=4).cells))
]


def keep_what_widgets_need(path: Path) -> None:
    """Leave out the code whose names no widget depends on: nbval runs it."""
    notebook, wanted, kept = nbformat.read(path, as_version=4), set(), []
    for cell in reversed(notebook.cells):
        if cell.cell_type == "code":
            made, used = names_in(cell.source)
            if not (is_widget(cell) or made & wanted):
                continue
            wanted |= used
        kept.insert(0, cell)
    notebook.cells = kept
    nbformat.write(notebook, path)


def names_in(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell makes, and those that it uses."""
    made, used = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).split(".")[0])
    return made, used


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Copies of the notebooks, with what their widgets need."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "results"):  # notebooks read stored results
        shutil.copytree(ROOT / name, folder / name)
    for name in NOTEBOOKS:
        keep_what_widgets_need(folder / "notebooks" / name)
    return folder


@pytest.fixture(scope="module")
def lab(course, tmp_path_factory):
    with jupyterlab(course, tmp_path_factory.mktemp("settings")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport=SCREEN)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
    yield page
    page.close()


def test_there_are_notebooks_with_widgets():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_widget_works_in_jupyterlab(name, lab, page):
    open_notebook(page, lab, f"notebooks/{name}")
    assert page.locator(".minititans-explorer").count() == 0
    assert page.get_by_text("Loading widget").count() == 0, "a picture should stand there"
    assert page.locator(".jp-OutputArea img").count() > 0

    run_all(page)
    assert errors_in_outputs(page) == []
    explorers = page.locator(".minititans-explorer")
    explorers.first.wait_for()
    ARTEFACTS.mkdir(exist_ok=True)
    for number in range(explorers.count()):
        try_out(page, explorers.nth(number), f"{Path(name).stem}-{number + 1}")
    assert [words for words in page.complaints if is_ours(words)] == []


def test_a_widget_works_in_notebook_7(course, page, tmp_path):
    with jupyterlab(course, tmp_path, "notebook") as notebook_7:
        open_notebook(page, notebook_7, "notebooks/02_surprise.ipynb")
        run_all(page)
        assert errors_in_outputs(page) == []
        ARTEFACTS.mkdir(exist_ok=True)
        explorer = page.locator(".minititans-explorer").first
        explorer.scroll_into_view_if_needed()
        # With the mouse: there, arrow keys belong to the notebook as long as no cell is edited.
        for number in range(explorer.locator(".noUi-target").count()):
            before = picture(explorer)
            slider = explorer.locator(".noUi-target").nth(number)
            slider.click(position={"x": 0.7 * slider.bounding_box()["width"], "y": 2})
            wait_for_another(page, explorer, before)
        play(page, explorer, explorer.locator(".widget-play").locator("button").first)
        explorer.screenshot(path=ARTEFACTS / "notebook-7.png")


def try_out(page, explorer, name: str) -> None:
    """Move every control; after each move the picture is different."""
    explorer.scroll_into_view_if_needed()
    explorer.screenshot(path=ARTEFACTS / f"{name}-before.png")
    height = explorer.bounding_box()["height"]
    print(f"{name}: {height:.0f} pixels high")
    assert height <= TALLEST
    handles = explorer.locator(".noUi-handle")
    assert handles.count() > 0, "a widget without a slider"
    for number in range(handles.count()):
        handle = handles.nth(number)
        key = "ArrowLeft" if at_its_end(handle) else "ArrowRight"
        before = picture(explorer)
        handle.focus()
        page.keyboard.press(key)
        wait_for_another(page, explorer, before)
    for number in range(explorer.locator("select").count()):
        box = explorer.locator("select").nth(number)
        before = picture(explorer)
        box.select_option(index=(box.evaluate("box => box.selectedIndex") + 1) % 2)
        wait_for_another(page, explorer, before)
    for number in range(explorer.locator("input[type=text]").count()):
        before = picture(explorer)
        explorer.locator("input[type=text]").nth(number).fill("a rose is a rose is a rose")
        wait_for_another(page, explorer, before)
    for number in range(explorer.locator("textarea").count()):
        before = picture(explorer)
        explorer.locator("textarea").nth(number).fill("A module is imported once, and then found.")
        wait_for_another(page, explorer, before)
    for number in range(explorer.locator(".widget-play").count()):
        play(page, explorer, explorer.locator(".widget-play").nth(number).locator("button").first)
        choose_speed(page, explorer.locator(".widget-toggle-buttons").nth(number))
    handle = explorer.locator(".noUi-handle").last
    there, back = ("ArrowLeft", "ArrowRight") if at_its_end(handle) else ("ArrowRight", "ArrowLeft")
    is_quick(page, explorer, f"{name}: slider", handle, [there, back] * 7 + [there])
    for number in range(explorer.locator("textarea").count()):
        box = explorer.locator("textarea").nth(number)
        is_quick(page, explorer, f"{name}: letter", box, list("and so on and on"))
    explorer.screenshot(path=ARTEFACTS / f"{name}-after.png")


def play(page, explorer, button) -> None:
    """Play shows new pictures by itself, pause stops that."""
    button.click()
    for _ in range(2):
        wait_for_another(page, explorer, picture(explorer))
    button.click()
    page.wait_for_timeout(1500)
    before = picture(explorer)
    page.wait_for_timeout(1500)
    assert picture(explorer) == before, "pause did not stop it"


def busy() -> float:
    """How many programs want each core, on average over a minute; 1 if there are fewer."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
    return max(1.0, load / (os.cpu_count() or 1))


def choose_speed(page, buttons) -> None:
    """A click chooses a speed; what it changes is tested without a browser."""
    fast = buttons.get_by_text("4×")
    fast.click()
    page.wait_for_function("b => b.classList.contains('mod-active')", arg=fast.element_handle())


def is_quick(page, explorer, name: str, focus, keys: list[str]) -> None:
    """Print how long the new picture takes after a key press, and whether it is under 100 ms.

    How busy the machine is decides that too, so only a picture that hangs is a failure.
    """
    took = sorted(redraw_times(page, explorer, focus, keys))
    median, others = statistics.median(took), busy()
    print(
        f"{name} to picture, median {median:.0f} ms, {took[0]:.0f} to {took[-1]:.0f}, "
        f"{others:.1f} programs per core{'' if median < REDRAW * others else ': TOO SLOW'}"
    )
    assert median < HANGS * REDRAW


def redraw_times(page, explorer, focus, keys: list[str]) -> list[float]:
    """Milliseconds from each key press on what has the focus to the change of the picture."""
    focus.focus()
    # The page itself tells when the key goes down and when the picture is another one.
    arm = """explorer => {
        const picture = explorer.querySelector('.widget-html-content');
        window.redraw = new Promise(done => document.addEventListener('keydown', () => {
            const then = performance.now();
            new MutationObserver((_, observer) => {
                observer.disconnect();
                requestAnimationFrame(() => done(performance.now() - then));
            }).observe(picture, {childList: true, subtree: true});
            setTimeout(() => done(-1), 20000);
        }, {once: true, capture: true}));
    }"""
    took = []
    for key in keys:
        explorer.evaluate(arm)
        page.keyboard.press("Space" if key == " " else key)
        took.append(page.evaluate("window.redraw"))
        page.wait_for_timeout(200)
    assert min(took) > 0, "a key was pressed and nothing happened"
    return took


def picture(explorer) -> str:
    return explorer.locator(".widget-html-content").last.inner_html()


def wait_for_another(page, explorer, before: str, seconds: float = 20) -> None:
    for _ in range(int(20 * seconds)):
        if (now := picture(explorer)) != before:
            assert "cannot be drawn" not in now
            return
        page.wait_for_timeout(50)
    raise AssertionError("the picture did not change")


def at_its_end(handle) -> bool:
    now, end = (float(handle.get_attribute(f"aria-{which}")) for which in ("valuenow", "valuemax"))
    return now >= end


def errors_in_outputs(page) -> list[str]:
    """What JupyterLab holds as error outputs, in sight or not."""
    return page.evaluate("""() => {
        const found = [];
        for (const cell of window.jupyterapp.shell.currentWidget.content.widgets)
            for (const output of cell.model.outputs?.toJSON?.() ?? [])
                if (output.output_type === 'error') found.push(output.ename + output.evalue);
        return found;
    }""")


def is_ours(words: str) -> bool:
    """Of what the console says: JupyterLab's own complaints about its server are not ours."""
    return not any(known in words for known in ("Failed to load resource", "favicon"))
