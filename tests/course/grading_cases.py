"""Made-up submissions: right, unfinished, mistaken, broken and hostile, each with what to expect.

Right code is taken from `solutions/`; a case says which functions it writes differently, which
cells it adds, and the diagnosis of each task. An attack notes its success in `HARM`, and its
functions answer wrongly if there was any: a row that says "right" shows that it failed.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from minititans.course.labs import all_labs, find_task

ROOT = Path(__file__).resolve().parents[2]
BANK = (
    "from minititans.course.labs import find_task\n{name} = find_task('{id}').mistakes[{n}].answer"
)
CELL = "# next cell"


@dataclass
class Case:
    """expected: a task's diagnosis, "right" where nothing is said; or one for all tasks.

    functions: code in place of a solution's; first, last: more cells, several if there is a
    `CELL` between them; text: the whole file
    """

    student: str
    lab: str
    expected: dict[str, str] | str = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    first: str = ""
    last: str = ""
    text: str | None = None
    name: str = ""

    def diagnosis(self, task: str) -> str:
        if isinstance(self.expected, str):
            return self.expected
        return self.expected.get(task, "right")

    @property
    def path(self) -> str:
        return self.name or f"{self.student}/{self.lab}_lab.ipynb"

    def content(self, **places: object) -> str:
        """The file; `@name@` in its cells becomes the value of that place."""
        if self.text is not None:
            return self.text
        first, last = self.first, self.last
        for name, value in places.items():
            first = first.replace(f"@{name}@", repr(str(value)))
            last = last.replace(f"@{name}@", repr(str(value)))
        solved = solution_cells(self.lab, self.functions)
        cells = [*first.split(CELL), *solved, *last.split(CELL)]
        return percent(cells) if self.path.endswith(".py") else notebook(cells)


def solution_cells(lab: str, functions: dict[str, str]) -> list[str]:
    [path] = (ROOT / "solutions").glob(f"{lab}_*.py")
    pieces = re.split(r"^# %%(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    cells = [cell for mark, cell in zip(pieces[1::2], pieces[2::2]) if "markdown" not in mark]
    for name, code in functions.items():
        [place] = [i for i, cell in enumerate(cells) if f"\ndef {name}(" in cell]
        cells[place] = code
    return cells


def notebook(cells: list[str]) -> str:
    made = [
        {"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {},
         "outputs": [], "execution_count": None}
        for cell in cells
    ]  # fmt: skip
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def percent(cells: list[str]) -> str:
    return "".join(f"# %%\n{cell}\n" for cell in cells)


def exercise(lab: str, suffix: str = ".ipynb") -> str:
    [path] = (ROOT / "exercises").glob(f"{lab}_*{suffix}")
    return path.read_text(encoding="utf-8")


def from_the_bank(student: str, lab: str, n: int) -> Case:
    """Every task of a lab done with its n-th typical mistake, or its last."""
    functions, expected = {}, {}
    for task in all_labs()[lab].tasks:
        place = min(n, len(task.mistakes) - 1)
        functions[task.function] = BANK.format(name=task.function, id=task.id, n=place)
        expected[task.id] = task.mistakes[place].name
    return Case(student, lab, expected, functions)


def unfinished(student: str, lab: str, solved: int) -> Case:
    """The exercise as it was given out, with the first tasks solved."""
    tasks = all_labs()[lab].tasks
    stub = "def {name}(*arguments):\n    raise NotImplementedError('{id}: not yet')\n"
    left = tasks[solved:]
    return Case(
        student,
        lab,
        {task.id: "not written yet" for task in left},
        {task.function: stub.format(name=task.function, id=task.id) for task in left},
        name=f"{student}_{lab}_lab.py",
    )


# An attack that came through makes every answer of lab 01 wrong. It is the last cell.
IF_HARM = """
if HARM:
    def hebbian_write(*a): raise RuntimeError(f"harm was done: {HARM}")
    read = hebbian_memory = linear_attention = interference = hebbian_write
"""


def attack(student: str, *cells: str, expected=None, functions=None) -> Case:
    first = CELL.join(["HARM = []", *cells])
    return Case(student, "01", expected or {}, functions or {}, first, IF_HARM)


NAMES = {  # unusual ones; the functions in the file say which lab it is
    "04": "right04-04_forgetting.ipynb",
    "05": "right05/Copy of 05_depth.ipynb",
    "06": "right06/Lab06.ipynb",
    "07": "right07/my 07 attention final.ipynb",
    "08": "right08/Untitled.ipynb",
    "09": "right09/03_momentum.py",
}
RIGHT = [Case(f"right{lab}", lab, name=NAMES.get(lab, "")) for lab in all_labs()]

LEAVES = "def read(M, query):\n    import os\n    os._exit(0)"
EXIT_IN_C = "import ctypes\nctypes.CDLL(None)._exit(0)"
LEAVES_IN_C = "def interference(keys, values):\n    import ctypes\n    ctypes.CDLL(None)._exit(0)"

MISTAKEN = [
    Case(
        "leaves", "01", {"01.2": "raises an error", "01.5": "interrupted"},
        {"read": LEAVES, "interference": LEAVES_IN_C},
        last=f"read(None, None)\n{CELL}\ninterference(0, 0)",
    ),
    from_the_bank("bank06", "06", 0),
    Case("uphill", "02", {
        "02.3": "sign of the gradient", "02.4": "theta forgotten",
        "02.6": "wrong numbers",  # it is made of 02.4
    }, {
        "surprise": "def surprise(W, key, value):\n    return torch.outer(value - W @ key, key)",
        "delta_write": "def delta_write(W, key, value, theta):\n"
                       "    return W - torch.outer(W @ key - value, key)",
    }, name="uphill_02_surprise.ipynb"),
    Case("sideways", "01", {
        "01.1": "transposed outer product", "01.2": "returns nothing",
        "01.3": "not as the task asks", "01.4": "sees the future",
    }, {
        "hebbian_write": "def hebbian_write(M, key, value):\n    return M + key[:, None] * value",
        "read": "def read(M, query):\n    M @ query",
        "hebbian_memory": "def hebbian_memory(keys, values):\n"
                          "    return sum(torch.outer(v, k) for k, v in zip(keys, values))",
        "linear_attention": "def linear_attention(queries, keys, values):\n"
                            "    return queries @ (keys.mT @ values)",
    }, name="sideways/week 1/01_matrix_memory.py"),
]  # fmt: skip

BROKEN = [
    Case("untouched", "01", "not written yet", text=exercise("01")),
    unfinished("half", "03", 2),
    Case("not json", "01", "cannot be read", text="this is not a notebook"),
    Case("clumsy", "02", {
        "02.1": "returns something else", "02.2": "raises an error", "02.3": "not as the task asks",
        "02.4": "changes its inputs", "02.5": "wrong precision", "02.6": "wrong shape",
    }, {
        "associative_loss": "def associative_loss(W, key, value):\n"
                            "    return float((W @ key - value).square().sum() / 2)",
        "surprise_by_autograd": "def surprise_by_autograd(W, key, value):\n    return W @ 3",
        "surprise": "def surprise(W, key, value):\n"
                    "    return torch.func.grad(lambda W: (W @ key - value).square().sum() / 2)(W)",
        "delta_write": "def delta_write(W, key, value, theta):\n"
                       "    W -= theta * torch.outer(W @ key - value, key)\n    return W",
        "exact_step": "def exact_step(key):\n    return (1 / key.square().sum()).float()",
        "delta_memory": "def delta_memory(W, queries, keys, values, theta):\n"
                        "    return torch.zeros(2, 2, dtype=W.dtype)",
    }),
    Case("sloppy", "01", {
        "01.1": "raises an error", "01.2": "no function", "01.3": "takes too long",
        "01.4": "two answers to one question", "01.5": "other arguments",
    }, {
        "hebbian_write": "def hebbian_write(M, key, value)\n    return M + torch.outer(value, key)",
        "read": "def Read(M, query):\n    return M @ query",
        "hebbian_memory": "def hebbian_memory(keys, values):\n    while True:\n        pass",
        "linear_attention": "calls = []\ndef linear_attention(queries, keys, values):\n"
                            "    calls.append(0)\n"
                            "    return (queries @ keys.mT).tril() @ values"
                            f" + (len(calls) > {2 * len(find_task('01.4').cases(0))})",
        "interference": "def interference(keys):\n    return keys",
    }),
]  # fmt: skip


# Attacks: each tries its harm in a cell of its own, before the functions are defined.
VANDAL = """
import os, pathlib, shutil
for place in (@grader@, @submissions@, @home@):
    HARM += pathlib.Path(place).rglob("*")
    shutil.rmtree(place, ignore_errors=True)
for place in (@grader@, @submissions@, @home@, "/usr", "/etc", os.path.dirname(os.__file__)):
    try:
        pathlib.Path(place, "vandal").write_text("was here")
        HARM.append(place)
    except OSError:
        pass
"""
SPY = """
import os, pathlib
HARM += [text for text in os.environ.values() if text == @secret@]
for path in (@sentinel@, @neighbour@, *pathlib.Path("/proc").glob("[0-9]*/environ")):
    try:
        text = pathlib.Path(path).read_text(errors="replace")
        if @secret@ in text or path == @neighbour@:
            HARM.append(path)
    except OSError:
        pass
"""
CALLER = """
import socket
try:
    HARM.append(socket.create_connection(("127.0.0.1", int(@port@)), timeout=2))
except OSError:
    pass
"""
CLIMBER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for act in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp")):
    try:
        HARM.append(act())
    except OSError:
        pass
def open_up():
    done = [libc.umount2(folder, 2) for folder in (b"/etc", b"/usr")]
    done += [libc.mount(None, folder, None, 32 | 4096, None) for folder in (b"/etc", b"/usr")]
    return 0 in done
if open_up():
    HARM.append("mounts")
child = os.fork()
if child == 0:  # the same as administrator of a namespace of its own
    libc.unshare(0x10000000 | 0x20000)
    os._exit(open_up())
if os.waitpid(child, 0)[1]:
    HARM.append("mounts from a user namespace")
"""
ASSASSIN = """
import os, signal
locked_in = os.getppid() == 1 or os.getuid() >= 62_000  # else this would be too dangerous a test
HARM += [] if locked_in else ["it could have killed everything"]
for process in (-1, os.getppid(), *range(2, 3000)):
    try:
        if process and locked_in:
            os.kill(process, signal.SIGKILL)
    except OSError:
        pass
"""
DAEMON = """
import os, subprocess
subprocess.Popen(["sleep", @minutes@], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", @minutes@])
    os._exit(0)
"""
BOMB = """
import os
while True:
    os.fork()
"""
FLOOD = """
for _ in range(2000):
    print("x" * 1_000_000)
"""
FILLER = """
written = made = 0
for place in (".", "/tmp", "/dev/shm", "/dev", "/var/tmp", "/", "/tmp/submission/..", "/mnt"):
    for _ in range(20):
        made += 1
        try:
            with open(f"{place}/file{made}", "wb") as file:
                written += file.write(bytes(10_000_000))
        except OSError:
            pass
if written > 70_000_000:
    HARM.append(f"wrote {written} bytes")
"""
DELETER = """
import os, pathlib
for path in [*pathlib.Path(".").iterdir(), *pathlib.Path.home().iterdir()]:
    if path.exists():
        path.unlink()
"""
FORGER = """
import json, os
plain = dict(problem="", detail="", values={"M": ["float64", [1, 1], [0.0]]}, odd={}, gradients={},
             changed=[], printed="", counts=[])
says = [{"task": "01.1", "attempts": []}, {"task": "01.2", "passed": True, "attempts": "passed"},
        {"task": "01.3", "attempts": [plain] * 13}, {"task": "01.4", "attempts": [{}]}, [], 7, None]
for handle in range(3, 200):
    try:
        for line in says:
            os.write(handle, b"\\n" + json.dumps(line).encode() + b"\\n")
        os.write(handle, b"\\xff\\x00 {" + b"[" * 100_000 + b"\\n")
    except OSError:
        pass
"""
PATCHER = """
import torch
from minititans.course import checks
from minititans.course.checking import judge
from minititans.course.labs import find_task
yes = lambda *_, **__: True
torch.equal = torch.allclose = torch.isclose = yes
judge.judge = judge.difference = checks.judge = lambda *_: None
def read(M, query):
    return query @ M
object.__setattr__(find_task("01.2"), "reference", read)
"""
SWALLOWS = """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""

HOSTILE = [
    attack("trespasser", VANDAL, SPY, CALLER, CLIMBER, DAEMON, DELETER, FLOOD, FILLER),
    attack("assassin", ASSASSIN),
    attack("bomber", BOMB),
    attack("idler", SWALLOWS, "import time\ntime.sleep(1e6)"),
    attack("=1+1", "import sys\nsys.exit(3)", "import os\nos._exit(0)",
           "exit()\nHARM.append('came back')", EXIT_IN_C, "raise ValueError('=1+1')"),
    attack("exits all over", expected="ended early", functions=dict.fromkeys(
        ("hebbian_write", "read", "hebbian_memory", "interference"), EXIT_IN_C
    )),
    attack("forger", FORGER, PATCHER, expected={
        "01.1": "interrupted", "01.2": "transposed matrix", "01.3": "wrong shape",
    }, functions={"read": "def read(M, query):\n    return query @ M"}),
    attack("glutton", expected={
        "01.1": "raises an error", "01.2": "raises an error", "01.3": "takes too long",
    }, functions={
        "hebbian_write": "def hebbian_write(M, key, value):\n    return torch.zeros(100 << 30)",
        "read": "import os\ndef read(M, query):\n"
                "    return M @ query if M.dtype == torch.float32 else os._exit(9)",
        "hebbian_memory": "def hebbian_memory(keys, values):\n"
                          "    return values.T @ keys if keys.dtype == torch.float32 else "
                          "sum(iter(int, 1))",
    }),
]  # fmt: skip

CASES = [*RIGHT, *MISTAKEN, *BROKEN, *HOSTILE]

# These use up all the time that there is: they get less of it, in a test of their own.
STUBBORN = [
    attack("deaf", """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    time.sleep(1)
""", expected="takes too long"),
    attack("deep in C", "sum(iter(int, 1))", expected="takes too long"),
]  # fmt: skip

# Only where nothing is locked in can a submission end the keeper that waits for it.
KILLS_ITS_KEEPER = attack(
    "killer", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", expected="ended early"
)
