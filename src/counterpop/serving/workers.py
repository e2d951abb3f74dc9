"""Several processes that serve one socket, each with its own loop. They share vectors by mapping the same files."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from counterpop.errors import CounterpopError, InputError

log = logging.getLogger("counterpop.serving")
PATIENCE = 15.0  # seconds that workers have to end: more than uvicorn gives their last requests
PAUSE = 1.0  # seconds before a worker that ended by itself is replaced

Tell = Callable[[dict[str, Any]], None]  # takes {"ready": True}, and at the end {"requests": N}
Work = Callable[[socket.socket, int, Tell], None]  # serves a socket as the worker with this number


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Pipe
    ready: bool = False
    requests: int = 0


@dataclass
class Workers:
    """Starts workers and replaces those that end by themselves, until it is told to stop."""

    work: Work
    """Must be a value that can be sent to another process."""
    bound: socket.socket
    announce: Callable[[], None]
    _running: dict[int, _Worker] = field(default_factory=dict)
    _requests: int = 0
    _caught: list[int] = field(default_factory=list)
    _announced: bool = False

    def run(self, number: int) -> int:
        """Serves with this many workers; returns the number of requests. Raises if one cannot start at first."""
        context = multiprocessing.get_context("forkserver")  # whose workers share what it has imported
        context.set_forkserver_preload(["counterpop.serving.server"])
        before = {one: signal.signal(one, self._note) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            for n in range(1, number + 1):
                self._start(context, n)
            while not self._caught:
                self._hear(context)
                if not self._announced and all(worker.ready for worker in self._running.values()):
                    self._announced = True
                    self.announce()
        finally:
            self._stop()
            for one, handler in before.items():
                signal.signal(one, handler)
        if signal.SIGTERM in self._caught:
            sys.exit(128 + signal.SIGTERM)
        return self._requests

    def _note(self, number: int, _: Any) -> None:
        self._caught.append(number)

    def _start(self, context: Any, number: int) -> None:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(self.work, self.bound, number, theirs), daemon=True)
        process.start()
        theirs.close()
        self._running[number] = _Worker(process, ours)

    def _hear(self, context: Any) -> None:
        """Waits a moment for what workers say; replaces one that ended. Raises if one fails before all have started."""
        pipes = {worker.pipe: number for number, worker in self._running.items()}
        for pipe in wait(list(pipes), timeout=0.5):
            number = pipes[pipe]  # type: ignore[index]
            worker = self._running[number]
            try:
                said = worker.pipe.recv()
            except EOFError:
                said = {}
            worker.ready |= bool(said.get("ready"))
            self._requests += said.get("requests", 0)
            if said.get("failed"):
                if not self._announced:
                    raise InputError(said["failed"])
                log.error("worker %d could not serve: %s", number, said["failed"])
            if not said:
                worker.process.join()
                if not worker.ready and not self._announced:
                    raise CounterpopError(f"a worker ended while it started (exit code {worker.process.exitcode})")
                if not self._caught:
                    log.error("worker %d ended (exit code %s) and is replaced", number, worker.process.exitcode)
                    time.sleep(PAUSE)
                    self._start(context, number)

    def _stop(self) -> None:
        for worker in self._running.values():
            if worker.process.is_alive():
                worker.process.terminate()
        end = time.monotonic() + PATIENCE
        for worker in self._running.values():
            worker.process.join(max(0.1, end - time.monotonic()))
            worker.process.kill()
            while worker.pipe.poll():
                try:
                    self._requests += worker.pipe.recv().get("requests", 0)
                except EOFError:
                    break


def _run(work: Work, bound: socket.socket, number: int, pipe: Pipe) -> None:
    """One worker, in its own process. It ends when the process that started it does."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one tells the others
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    def tell(said: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the process that started this one was killed
            pipe.send(said)

    threading.Thread(target=follow, daemon=True).start()
    try:
        work(bound, number, tell)
    except (CounterpopError, OSError, MemoryError) as error:
        tell({"failed": str(error)})
