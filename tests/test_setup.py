"""The files that install and start minititans agree with each other, and do what they say."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from minititans import doctor

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = "pip install -c constraints.txt -e '.[lab,test]'"

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def direct_dependencies() -> list[Requirement]:
    """Every package that pyproject.toml names, extras included, minititans itself left out."""
    lines = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        lines += extra
    return [each for each in map(Requirement, lines) if each.name != PROJECT["name"]]


def pins() -> dict[str, str]:
    """constraints.txt as {package: version}."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, version = line.split("==")
        assert canonicalize_name(name) not in found, f"{name} is pinned twice"
        found[canonicalize_name(name)] = version
    return found


def make(*arguments, folder=ROOT, **variables) -> subprocess.CompletedProcess:
    command = ["make", *arguments, *(f"{name}={value}" for name, value in variables.items())]
    # Options of an outer make, such as --silent or --jobs, must not reach this one.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


# pyproject.toml, constraints.txt, environment.yml


@pytest.mark.parametrize("requirement", direct_dependencies(), ids=str)
def test_every_direct_dependency_is_pinned_at_a_version_it_allows(requirement):
    pinned = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned)


def test_nothing_is_pinned_that_is_not_a_direct_dependency():
    assert set(pins()) == {canonicalize_name(each.name) for each in direct_dependencies()}


def test_conda_takes_the_oldest_python_that_the_package_allows():
    # The pins must work on every Python that pyproject.toml allows; the oldest is the hardest.
    [python] = [each for each in conda_lines() if each.startswith("python")]
    version = python.removeprefix("python=")
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={version}")
    assert Version(version).release == doctor.OLDEST_PYTHON
    assert f"sys.version_info < {doctor.OLDEST_PYTHON}" in MAKEFILE


def test_conda_installs_the_rest_from_this_repository_as_make_does():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert "conda-forge" in environment["channels"]
    assert "pip" in conda_lines()
    [pip] = [each["pip"] for each in environment["dependencies"] if isinstance(each, dict)]
    # conda hands these lines to pip as a requirements file, where no quotes are wanted.
    assert f"pip install {' '.join(pip)}" == INSTALL.replace("'", "")
    assert INSTALL.removeprefix("pip ") in MAKEFILE.replace("--disable-pip-version-check ", "")
    extras = Requirement("minititans" + pip[1].removeprefix("-e .")).extras
    assert extras and extras <= set(PROJECT["optional-dependencies"])


def conda_lines() -> list[str]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    return [each for each in environment["dependencies"] if isinstance(each, str)]


def test_the_doctor_looks_at_what_pyproject_requires():
    required = {each.name: each for each in map(Requirement, PROJECT["dependencies"])}
    assert {"torch", *doctor.LIBRARY_PACKAGES} == set(required)
    oldest_torch = ".".join(map(str, doctor.OLDEST_TORCH))
    assert required["torch"].specifier == SpecifierSet(f">={oldest_torch}")
    lab = {Requirement(each).name for each in PROJECT["optional-dependencies"]["lab"]}
    assert set(doctor.COURSE_PACKAGES) <= lab


# The command


def test_the_console_script_leads_to_a_function():
    module, function = PROJECT["scripts"]["minititans"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_command_knows_its_version():
    done = run_python("-m", "minititans.cli", "--version")
    assert done.stdout.strip() == f"minititans {PROJECT['version']}"


def test_the_command_starts_without_torch():
    code = "import minititans.cli, minititans.doctor, sys; sys.exit('torch' in sys.modules)"
    assert run_python("-c", code).returncode == 0


def run_python(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


# The Makefile


def targets() -> set[str]:
    [line] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    return set(line.split())


@needs_make
def test_make_alone_lists_every_target_with_what_it_does():
    done = make()
    assert done.returncode == 0, done.stderr
    listed = dict(re.findall(r"^  make (\S+) +(\S.*)$", done.stdout, flags=re.MULTILINE))
    assert set(listed) == targets()
    assert {"help", "setup", "lab", "test", "bench", "doctor"} <= targets()
    assert done.stdout == make("help").stdout


@pytest.fixture
def installed(tmp_path):
    """A copy of what `make setup` looks at, as a finished install leaves it."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (1_000_000, 1_000_000))
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.installed").touch()
    os.utime(tmp_path / ".venv/.installed", (2_000_000, 2_000_000))
    return tmp_path


@needs_make
def test_a_second_setup_has_nothing_to_do(installed):
    done = make("--dry-run", "setup", folder=installed)
    assert done.returncode == 0, done.stderr
    assert "pip" not in done.stdout


@needs_make
@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_setup_installs_again_after_a_change(installed, changed):
    os.utime(installed / changed, (3_000_000, 3_000_000))
    assert "pip install" in make("--dry-run", "setup", folder=installed).stdout


@needs_make
@pytest.mark.parametrize("python", ["false", "no-such-python"])
def test_setup_asks_for_a_newer_python_when_it_has_none(installed, python):
    (installed / ".venv/.installed").unlink()
    done = make("setup", folder=installed, PYTHON=python)
    assert done.returncode != 0
    assert "Python 3.11 or newer" in done.stdout
    assert not (installed / ".venv/.installed").exists()


@needs_make
def test_setup_says_what_to_do_when_it_cannot_make_a_virtual_environment(installed):
    (installed / ".venv/.installed").unlink()
    fake = installed / "python-without-venv"
    fake.write_text('#!/bin/sh\n[ "$1" = -c ]\n')  # passes the version check, fails at `-m venv`
    fake.chmod(0o755)
    done = make("setup", folder=installed, PYTHON=str(fake))
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stdout


@needs_make
def test_jupyterlab_listens_on_this_machine_only_and_keeps_its_token(installed):
    command = make("--dry-run", "lab", folder=installed).stdout
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "token" not in command and "password" not in command
    [url] = re.findall(r"--LabApp.default_url=/lab/tree/(\S+)", command)
    assert (ROOT / url).is_file()


# The README


def test_the_readme_shows_every_way_to_start():
    install = INSTALL.replace("'", '"')  # as PowerShell needs it, and other shells take it
    for command in ("make lab", "make test", "conda env create -f environment.yml", install):
        assert f"\n{command}" in README
    assert INSTALL in doctor.INSTALL


def test_the_readme_is_short_and_wrapped():
    lines = README.splitlines()
    assert len(lines) < 120
    prose = [line for line in lines if not line.startswith(("|", "!["))]
    assert max(map(len, prose)) <= 100


def test_every_make_target_in_the_readme_exists():
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE))
    assert named and named <= targets()


def test_every_file_in_the_readme_exists():
    files = re.findall(r"\b[\w/]+\.(?:ipynb|txt|yml|png)\b", README)
    assert files
    assert [each for each in files if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_the_readme_example_runs(example):
    exec(compile(example, "README.md", "exec"), {})


# pytest and CI


def test_tests_and_notebook_kernels_take_one_core_each():
    assert os.environ["OMP_NUM_THREADS"] == str(torch.get_num_threads())


def test_the_ci_script_is_executable_and_parses():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    if shutil.which("bash"):
        assert subprocess.run(["bash", "-n", str(script)], timeout=60).returncode == 0


def test_hosted_ci_calls_the_same_script():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    commands = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert "sudo .ci/run" in commands


@needs_make
def test_the_hooks_check_what_make_lint_checks_with_the_same_tools(installed):
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repo["repo"] for repo in config["repos"]} == {"local"}  # nothing is downloaded
    entries = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]
    lint = make("--dry-run", "lint", folder=installed).stdout.splitlines()
    wanted = [" ".join(line.replace(" --check", "").rstrip(" .").split()) for line in lint]
    assert wanted == [entry.removesuffix(" --force-exclude") for entry in entries]


def test_the_version_is_in_one_place():
    texts = {path: path.read_text() for path in (ROOT / "minititans").rglob("*.py")}
    assert [path for path, text in texts.items() if f'"{PROJECT["version"]}"' in text] == []
    assert f"\n## {PROJECT['version']} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
