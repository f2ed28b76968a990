"""JupyterLab, or Notebook 7, in a real browser: to test the widgets and take screenshots.

Needs Chromium, and playwright (in the extra `test`) to control it. Playwright's own browsers are
not needed: any Chromium or Chrome on the path will do.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Every cell is on the page, even those that are out of sight.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}
KERNEL = "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
START_TIME = 180  # seconds that JupyterLab and a kernel may take to start on a busy machine
RUN_TIME = 600  # seconds that a notebook may take there


def missing() -> str:
    """What is missing and how to get it; empty if there is nothing."""
    if find_spec("playwright") is None:
        return "playwright is not installed: pip install -c constraints.txt playwright"
    if find_browser() is None:
        return (
            "no Chromium or Chrome was found: install one (on Debian and Ubuntu "
            "`sudo apt-get install chromium`), or name it in the environment variable BROWSER_PATH"
        )
    return ""


def find_browser() -> str | None:
    named = os.environ.get("BROWSER_PATH")
    return next(filter(None, map(shutil.which, (named, *BROWSERS) if named else BROWSERS)), None)


# The two programs: the option that lets a test control it, and where it shows a notebook alone.
PROGRAMS = {
    "jupyterlab": ("LabApp", "doc/tree"),
    "notebook": ("JupyterNotebookApp", "notebooks"),
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab or Notebook 7."""

    address: str
    token: str
    path: str

    def page(self, notebook: str) -> str:
        """The address of a notebook, alone on its page."""
        return f"{self.address}/{self.path}/{notebook}?token={self.token}"


@contextmanager
def jupyterlab(folder: Path, settings: Path, program: str = "jupyterlab") -> Iterator[Lab]:
    """Serve a folder on this machine only. settings: an empty folder for its own files."""
    steered, shown_at = PROGRAMS[program]
    for name, values in SETTINGS.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    port, token = _free_port(), secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", program, "--no-browser"),
        *(f"--port={port}", "--ServerApp.port_retries=0", "--ServerApp.ip=127.0.0.1"),
        *(f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}"),
        f"--{steered}.expose_app_in_browser=True",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    environment = os.environ | {"JUPYTERLAB_SETTINGS_DIR": str(settings)}
    log = settings / "jupyterlab.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    lab = Lab(f"http://127.0.0.1:{port}", token, shown_at)
    try:
        _wait_for(lab, server, log)
        yield lab
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(30)
        server.kill()


@contextmanager
def browser() -> Iterator:
    """A Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        try:
            yield chromium
        finally:
            chromium.close()


def open_notebook(page, lab: Lab, notebook: str) -> None:
    """Open a notebook and wait until its kernel is ready."""
    page.goto(lab.page(notebook), timeout=1000 * START_TIME)
    page.wait_for_function(f"{KERNEL} === 'idle'", timeout=1000 * START_TIME)


def run_all(page) -> None:
    """Run all cells and wait for the last."""
    page.set_default_timeout(1000 * RUN_TIME)
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(f"{KERNEL} === 'idle'", timeout=1000 * RUN_TIME)
    page.set_default_timeout(30_000)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(lab: Lab, server: subprocess.Popen, log: Path) -> None:
    for _ in range(4 * START_TIME):
        if server.poll() is not None:
            break
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{lab.address}/api?token={lab.token}", timeout=5)
            return
        time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-2000:]}")
