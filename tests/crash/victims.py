"""Commands that are run in processes of their own, to be killed, starved or interrupted there."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PART = float(os.environ.get("COUNTERPOP_CRASH", "0"))  # of the long form: `make crash` sets 1, the tests 0
LONG = PART > 0
LANES = 2 if LONG else 1  # kills that run side by side
COMMANDS = ("split", "train", "tune", "recommend", "report", "audit", "debias", "demo", "correct", "paper")
CALLS = (  # system calls that change files; a file that openat has made is there at the next of these
    "write,pwrite64,rename,renameat,renameat2,mkdir,unlink,unlinkat,rmdir,link,linkat,fsync,chmod,fchmod,"
    "ftruncate,flock,copy_file_range,sendfile"
)
ROWS: list[tuple[str, str, str]] = []  # what was done, how often, and the result: printed at the end
CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "shutil.rmtree")

context = multiprocessing.get_context("forkserver")  # a server that has imported everything forks in milliseconds
context.set_forkserver_preload(["numba", "counterpop.artifacts", *(f"counterpop.cli.{name}" for name in COMMANDS)])


def times(short: int, long: int) -> int:
    """How often to do something."""
    return max(short, round(PART * long))


def record(what: str, how_often: str, result: str) -> None:
    """Adds a row to the table that is printed at the end."""
    ROWS.append((what, how_often, result))


def start(
    words: Sequence[object], said: Path, *, most: int | None = None, step: int | None = None, call: int | None = None
) -> ForkServerProcess:
    """Starts a command in a process of its own, which writes what it says to a file.

    No file can grow beyond `most` bytes there, as on a full disk. At the `step`-th change to the file system by
    Python, or at the `call`-th system call that changes files (this needs strace), it is killed.
    """
    gate = said.with_name(f"{said.name}-gate") if call is not None else None
    process = context.Process(target=_run, args=([str(word) for word in words], said, most, step, gate))
    process.start()
    if gate is not None:
        inject = f"inject={CALLS}:signal=SIGKILL:when={call}"
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CALLS}", "-e", inject]
        with subprocess.Popen([*strace, "-p", str(process.pid)], stderr=subprocess.PIPE) as tracer:
            while process.is_alive() and not _is_traced(process.pid):
                assert tracer.poll() is None, tracer.stderr.read() if tracer.stderr else ""
                time.sleep(0.01)
            gate.touch()
            process.join()
            gate.unlink()
    return process


def can_trace() -> bool:
    """Whether strace is here and may attach to a process."""
    if not shutil.which("strace"):
        return False
    child = subprocess.Popen(["sleep", "5"])
    words = ["timeout", "1", "strace", "-qq", "-o", "/dev/null", "-p", str(child.pid)]
    tried = subprocess.run(words, capture_output=True)
    child.kill()
    child.wait()
    return tried.returncode == 124


def _is_traced(pid: int | None) -> bool:
    try:
        return "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def finish(words: Sequence[object], said: Path, **how: int | None) -> int:
    """The exit code of a command that is left alone."""
    process = start(words, said, **how)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _run(words: list[str], said: Path, most: int | None, step: int | None, gate: Path | None) -> None:
    from counterpop.cli import main

    while gate is not None and not gate.exists():
        time.sleep(0.01)
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if most is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if step is not None:
        changes = itertools.count(1)

        def count(event: str, args: tuple[object, ...]) -> None:
            if event in CHANGES and ".counterpop-" in str(args) and next(changes) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
    main(words)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".counterpop-*"))
