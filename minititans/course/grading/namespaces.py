"""Linux namespaces: a process that sees a few read-only folders and nothing else of the machine.

Two steps, because a process moves into a new process-id namespace only with its next fork:

    separate()         in the parent: own process ids, network and IPC from the next fork on
    enter(box, ...)    in the child: own file tree, then no way back and no privileges

The child's root is a small file system in memory, and the only place it can write to. Killing the
child kills every process that it started, however well hidden: it is number 1 of its namespace.
"""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NOSUID, NODEV, BIND, REC, PRIVATE = 2, 4, 4096, 16384, 1 << 18  # flags of mount
MOUNT_SETATTR, AT_RECURSIVE, ATTR_RDONLY, ATTR_NOSUID = 442, 0x8000, 1, 2
DETACH = 2  # flag of umount2
CAPABILITY_VERSION = 0x20080522
OLDEST_KERNEL = (5, 14)  # before, the limit on processes counted all of the user's

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/nix/store")
WORK = "submission"  # where the child finds itself
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def separate() -> None:
    """From the next fork on: own processes, no network. Root needs no user namespace for it."""
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if kernel < OLDEST_KERNEL:
        raise OSError(f"Linux {kernel[0]}.{kernel[1]} is older than 5.14")
    uid, gid = os.getuid(), os.getgid()
    call("unshare", NEWPID | NEWNET | NEWIPC | (NEWUSER if uid else 0))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def enter(box: Path, disk: int, readable: list[Path]) -> None:
    """Make a file tree in `box` that holds `readable` and the system's programs; move into it.

    disk: bytes that can be written to it. Afterwards the working directory is an empty folder.
    """
    call("unshare", NEWNS)
    mount(None, "/", None, REC | PRIVATE)  # nothing that is mounted here is seen outside
    mount("tmpfs", box, "tmpfs", NOSUID | NODEV, f"size={disk},nr_inodes=10000,mode=755")
    for folder in ("proc", "dev/shm", "tmp", WORK):
        (box / folder).mkdir(parents=True)
        (box / folder).chmod(0o777)
    for path in outermost([*map(Path, SYSTEM), *readable]):
        show(path, box)
    for device in DEVICES:
        (box / device[1:]).touch()
        mount(device, box / device[1:], None, BIND)
    with contextlib.suppress(OSError):  # some containers refuse it; nothing here depends on it
        mount("proc", box / "proc", "proc", NOSUID | NODEV)
    os.chdir(box)
    call("pivot_root", b".", b".")
    call("umount2", b".", DETACH)  # the old tree, which now lies on top of the new one
    os.chdir(f"/{WORK}")


def drop_capabilities() -> None:
    """The maker of a user namespace is its administrator: from here on it is nobody special."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def python_folders() -> list[Path]:
    """What Python needs to import: itself, installed packages, and of this project the package."""
    package = Path(__file__).parents[2]
    folders = [package, *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path)))]
    if package.parent.name not in ("site-packages", "dist-packages"):  # else it is this repository
        folders = [folder for folder in folders if folder != package.parent]
    return [*folders, *(folder.resolve() for folder in folders)]


def outermost(paths: list[Path]) -> list[Path]:
    """Existing paths that lie in no other of the list, each once.

    >>> [str(path) for path in outermost([Path("/usr/bin"), Path("/usr"), Path("/no such")])]
    ['/usr']
    """
    kept: list[Path] = []
    for path in sorted({path for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in kept if not other.is_symlink()):
            kept.append(path)
    return kept


def show(path: Path, box: Path) -> None:
    """Make a folder of this machine visible in the box, at the same place, read-only."""
    place = box / path.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and len(path.parts) == 2:  # such as /bin, which is usr/bin
        place.symlink_to(os.readlink(path))
        return
    if path.is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    mount(path, place, None, BIND | REC)
    attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY | ATTR_NOSUID, 0, 0, 0)
    long = ctypes.c_long
    call("syscall", long(MOUNT_SETATTR), long(-1), os.fsencode(place), long(AT_RECURSIVE),
         attributes, long(32))  # fmt: skip


def mount(source, target, kind, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    call("mount", *texts, ctypes.c_ulong(flags), options.encode() or None)


def call(name: str, *arguments) -> None:
    """A function of the C library that returns 0, or an OSError that says what failed."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
