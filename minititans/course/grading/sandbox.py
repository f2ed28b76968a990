"""The sandbox that bubblewrap builds: a few read-only folders, no network, no other process.

`bwrap` builds it around a process that only waits, and a fork of the zygote moves in, as `nsenter`
would. A Python started inside would not need to move, but it would need to import torch, which
takes longer than running a submission.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/nix/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
WORK = "/tmp/submission"  # /tmp is the only place that can be written to; /dev/shm leads there
# The first process: no signal from inside ends it, and it need not clean up after its orphans.
WAIT = ("sh", "-c", "trap '' CHLD; echo ready; exec cat")
NAMESPACES = 0x20000 | 0x4000000 | 0x8000000 | 0x20000000 | 0x40000000  # mounts, UTS, IPC, PID, net
USER_NAMESPACE = 0x10000000
CAPABILITY_VERSION = 0x20080522


class CannotLockIn(OSError):
    """Submissions cannot be isolated here, at least not in the way asked for."""


@dataclass(frozen=True)
class Sandbox:
    """bwrap: the process that holds it; first: the first one inside, by its number outside."""

    bwrap: subprocess.Popen
    first: int

    def enter(self) -> None:
        """Move this process in; only those that it forks see the sandbox's list of processes."""
        kinds = NAMESPACES | (USER_NAMESPACE if os.getuid() else 0)
        call("setns", os.pidfd_open(self.first), kinds)

    def end(self) -> None:
        """Ends the first process; the kernel then ends all others inside, however well hidden."""
        self.bwrap.kill()
        self.bwrap.communicate()


def build(disk: int) -> Sandbox:
    """disk: bytes that can be written in it."""
    if shutil.which("bwrap") is None:
        raise CannotLockIn("bubblewrap is not installed")
    reading, writing = os.pipe()
    command = ["bwrap", *options(disk), "--info-fd", str(writing), *WAIT]
    pipe = subprocess.PIPE
    bwrap = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as file:
        info = file.read()
    if bwrap.stdout.readline() != b"ready\n":
        raise CannotLockIn(bwrap.communicate()[1].decode(errors="replace").strip())
    return Sandbox(bwrap, json.loads(info)["child-pid"])


def options(disk: int) -> list[str]:
    found = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    found += ["--new-session", "--die-with-parent", "--as-pid-1"]
    # Root needs no user namespace; anyone else gets one, inside which no further one can be made.
    found += ["--unshare-user", "--disable-userns"] if os.getuid() else ["--cap-drop", "ALL"]
    found += ["--perms", "0777", "--size", str(disk), "--tmpfs", "/tmp"]
    found += ["--perms", "0777", "--dir", WORK]
    folders = [(path, "--ro-bind") for path in outermost([*map(Path, SYSTEM), *python_folders()])]
    for path, bind in [*folders, *((Path(device), "--dev-bind") for device in DEVICES)]:
        for parent in [*path.parents][-2::-1]:  # otherwise only root could enter them
            found += ["--perms", "0755", "--dir", str(parent)]
        found += [bind, str(path), str(path)]
    found += ["--symlink", "/tmp", "/dev/shm", "--remount-ro", "/"]
    return found


def python_folders() -> list[Path]:
    """What Python needs for imports: itself, installed packages, and this project's package."""
    package = Path(__file__).parents[2]
    folders = [package, *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path)))]
    if package.parent.name not in ("site-packages", "dist-packages"):  # else it is this repository
        folders = [folder for folder in folders if folder != package.parent]
    return [*folders, *(folder.resolve() for folder in folders)]


def outermost(paths: list[Path]) -> list[Path]:
    """Existing paths that are not inside another one of the list, each once.

    >>> [str(path) for path in outermost([Path("/usr/bin"), Path("/usr"), Path("/no such")])]
    ['/usr']
    """
    kept: list[Path] = []
    for path in sorted({path for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in kept if not other.is_symlink()):
            kept.append(path)
    return kept


def drop_capabilities() -> None:
    """A process that joins a user namespace is its administrator; after this it no longer is."""
    call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)())


def call(name: str, *arguments) -> None:
    """Call a function of the C library that returns 0; otherwise raise an OSError that names it."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
