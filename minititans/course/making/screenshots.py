"""The README's pictures of the course, taken in JupyterLab: `make screenshots`.

Each shows a widget after its notebook was run, as a student sees it.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from minititans.course.making.browser import (
    Lab,
    browser,
    jupyterlab,
    missing,
    open_notebook,
    run_all,
)

FOLDER = Path("docs/images")


@dataclass(frozen=True)
class Shot:
    """A picture, and the notebook whose widget it shows; its first is number 0."""

    name: str
    notebook: str
    number: int = 0


SHOTS = (
    Shot("reading", "00_start_here"),
    Shot("stepper", "02_surprise", 1),
)


def take(shot: Shot, lab: Lab, chromium, folder: Path) -> Path:
    """Run the notebook, and photograph the page around the widget."""
    page = chromium.new_page(viewport={"width": 1100, "height": 900}, device_scale_factor=1.5)
    open_notebook(page, lab, f"notebooks/{shot.notebook}.ipynb")
    run_all(page)
    explorer = page.locator(".minititans-explorer").nth(shot.number)
    explorer.wait_for()
    # From a little above the widget, so that the text before it is in the picture too.
    explorer.evaluate("widget => widget.closest('.jp-Cell').scrollIntoView({block: 'end'})")
    page.wait_for_timeout(2000)  # until it is drawn
    path = folder / f"{shot.name}.png"
    page.screenshot(path=path)
    page.close()
    return path


def main() -> int:
    if problem := missing():
        print(f"No screenshots: {problem}")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        served, settings = Path(temporary, "course"), Path(temporary, "settings")
        for name in ("notebooks", "results"):  # notebooks read stored results
            shutil.copytree(name, served / name)
        settings.mkdir()
        with jupyterlab(served, settings) as lab, browser() as chromium:
            for shot in SHOTS:
                print(take(shot, lab, chromium, FOLDER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
