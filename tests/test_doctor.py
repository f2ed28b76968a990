"""`minititans doctor`: what it finds, how it says it, and how it ends."""

import os
import subprocess
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

import pytest

from minititans import cli, doctor
from minititans.doctor import Finding


def importer_without(*missing):
    """The real importer, on a machine where the named packages are not installed."""

    def importer(name):
        if name in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return import_module(name)

    return importer


def finding(name, findings):
    [found] = [each for each in findings if each.name == name]
    return found


def test_everything_required_is_found_where_the_tests_run():
    findings = doctor.examine()
    assert [each.name for each in findings if each.required and not each.present] == []
    assert doctor.exit_code(findings) == 0


def test_versions_in_the_report_are_those_that_are_installed():
    import torch

    findings = doctor.examine()
    assert finding("torch", findings).detail.startswith(torch.__version__)
    assert str(torch.get_num_threads()) in finding("CPU", findings).detail.split("torch uses")[1]
    assert finding("einops", findings).detail == import_module("einops").__version__


@pytest.mark.parametrize("name", ["torch", *doctor.LIBRARY_PACKAGES, *doctor.COURSE_PACKAGES])
def test_a_missing_required_package_is_named_with_advice_and_fails(name):
    findings = doctor.examine(importer_without(name))
    assert finding(name, findings) == Finding(
        name, present=False, detail="not installed", advice=doctor.INSTALL
    )
    assert doctor.exit_code(findings) == 1
    assert doctor.report(findings).endswith(f"Required, but missing or too old: {name}.")


def test_a_machine_without_gpu_triton_git_or_bubblewrap_passes(monkeypatch):
    monkeypatch.setenv("PATH", "")
    findings = doctor.examine(importer_without("triton"))
    assert not finding("Triton", findings).present
    assert not finding("git", findings).present
    assert not finding("bubblewrap", findings).present
    assert doctor.exit_code(findings) == 0
    assert all(each.advice for each in findings if not each.present)


def test_without_torch_the_other_lines_are_still_there():
    names = [each.name for each in doctor.examine(importer_without("torch"))]
    assert names == [each.name for each in doctor.examine()]


def test_a_broken_package_is_told_apart_from_a_missing_one():
    def broken(name):
        raise OSError("libgomp.so.1: cannot open shared object file\nsecond line")

    def missing_a_dependency(name):
        raise ModuleNotFoundError("No module named 'sympy'", name="sympy")

    assert doctor.look_at_package("numpy", broken).detail == (
        "installed, but cannot be imported: OSError: libgomp.so.1: cannot open shared object file"
    )
    torch, found = doctor.look_at_torch(missing_a_dependency)
    assert torch is None
    assert found.detail == "installed, but needs sympy, which is not"


@pytest.mark.parametrize(
    ("version", "present"), [("2.5.1+cpu", False), ("2.6.0", True), ("2.13.0", True), ("3.0", True)]
)
def test_an_old_torch_counts_as_missing(version, present):
    torch = ModuleType("torch")
    torch.__version__ = version
    torch.version = SimpleNamespace(cuda=None)
    _, found = doctor.look_at_torch(lambda name: torch)
    assert found.present is present
    assert bool(found.advice) is not present


@pytest.mark.parametrize(
    ("version", "present"), [((3, 10, 14), False), ((3, 11, 0), True), ((4, 0, 0), True)]
)
def test_an_old_python_counts_as_missing(version, present):
    assert doctor.look_at_python(version).present is present


def test_cuda_gpus_are_listed_with_their_memory():
    properties = SimpleNamespace(name="Made-up 100", total_memory=80e9)
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_properties=lambda index: properties,
    )
    found = doctor.look_at_gpu(SimpleNamespace(cuda=cuda))
    assert found.present
    assert found.detail == "Made-up 100 (80.0 GB), Made-up 100 (80.0 GB)"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_where_ticks_cannot_be_shown_plain_ascii_stands_for_them(encoding):
    assert doctor.marks(encoding) == ("[ok]", "[no]", "[--]")


def test_a_report_holds_nothing_that_its_encoding_cannot_show():
    text = doctor.report([Finding("Python", True, "3.11 (/home/Zoë/π/python)")], encoding="ascii")
    assert text.isascii()
    assert "[ok]" in text


def test_the_command_prints_the_report_on_an_ascii_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "minititans.cli", "doctor"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        encoding="ascii",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[ok] Python")


def test_the_command_fails_where_torch_cannot_be_imported(tmp_path):
    """In a Python of its own, with a torch.py that refuses to be imported before the real one."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "minititans.cli", "doctor"],
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "✗ torch" in done.stdout
    assert doctor.INSTALL in done.stdout


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    assert "doctor" in capsys.readouterr().out


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["operate"])
    assert stop.value.code == 2
    assert "operate" in capsys.readouterr().err
