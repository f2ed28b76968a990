"""The sandbox that bubblewrap builds: a few read-only folders, no network, no other process."""

import os
import site
import sys
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/nix/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
WORK = "/tmp/submission"  # /tmp is the only place that can be written to; /dev/shm leads there


def bwrap(disk: int) -> list[str]:
    """The beginning of a command that runs the rest of it in a sandbox with `disk` bytes.

    The first process inside is the command's own. No signal from inside ends it, and when it
    ends, the kernel ends all others, however well they hide.
    """
    command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--new-session", "--die-with-parent", "--as-pid-1"]
    if os.getuid() == 0:  # all that root can do inside is to become somebody else
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:  # an ordinary user needs a user namespace; no further one can be made inside
        command += ["--unshare-user", "--disable-userns"]
    command += ["--perms", "0777", "--size", str(disk), "--tmpfs", "/tmp"]
    command += ["--perms", "0777", "--dir", WORK, "--chdir", WORK]
    command += ["--setenv", "XDG_CACHE_HOME", "/tmp", "--setenv", "XDG_CONFIG_HOME", "/tmp"]
    folders = sorted({path for path in (*map(Path, SYSTEM), *python_folders()) if path.exists()})
    for path in (*folders, *map(Path, DEVICES)):
        for parent in [*path.parents][-2::-1]:  # otherwise only root could enter them
            command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind" if path in folders else "--dev-bind", str(path), str(path)]
    return [*command, "--proc", "/proc", "--symlink", "/tmp", "/dev/shm", "--remount-ro", "/"]


def python_folders() -> list[Path]:
    """What Python needs for imports: itself, installed packages, and this project's package."""
    installed = (sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages())
    folders = [Path(__file__).parents[2], *map(Path, installed)]
    return [*folders, *(folder.resolve() for folder in folders)]
