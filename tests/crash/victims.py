"""Commands that are run in processes of their own, to be killed, starved or interrupted there."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

SCALE = int(os.environ.get("COUNTERPOP_CRASH", "1"))  # `make crash` sets it: how many times the short form
COMMANDS = ("split", "train", "tune", "recommend", "report", "audit", "debias", "demo", "correct")
CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "shutil.rmtree")

context = multiprocessing.get_context("forkserver")  # a server that has imported everything forks in milliseconds
context.set_forkserver_preload(["numba", "counterpop.artifacts", *(f"counterpop.cli.{name}" for name in COMMANDS)])


def start(
    words: Sequence[object], said: Path, *, most: int | None = None, step: int | None = None
) -> ForkServerProcess:
    """Starts a command in a process of its own, which writes what it says to a file.

    No file can grow beyond `most` bytes there, as on a full disk. At the `step`-th change to the file system it is
    killed.
    """
    process = context.Process(target=_run, args=([str(word) for word in words], said, most, step))
    process.start()
    return process


def finish(words: Sequence[object], said: Path, **how: int | None) -> int:
    """The exit code of a command that is left alone."""
    process = start(words, said, **how)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _run(words: list[str], said: Path, most: int | None, step: int | None) -> None:
    from counterpop.cli import main

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
