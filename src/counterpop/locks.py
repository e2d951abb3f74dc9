"""One writer at a time: a lock beside the path, which says who holds it and is free as soon as that process is gone."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from counterpop.errors import InputError
from counterpop.outputs import PREFIX, make_folder, place_of

_HELD: dict[Path, int] = {}  # which thread of this process holds a lock: it may take the same one again


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """The only right to write `path`, for this thread; `InputError` says who has it already."""
    path = place_of(path)
    if _HELD.get(path) == threading.get_ident():
        yield
        return
    make_folder(path.parent)
    file = path.with_name(f"{PREFIX}lock-{path.name}")
    descriptor = _take(path, file)
    _HELD[path] = threading.get_ident()
    try:
        yield
    finally:
        del _HELD[path]
        file.unlink(missing_ok=True)  # before the lock is let go, so nobody can hold a file that has no name
        os.close(descriptor)


def _take(path: Path, file: Path) -> int:
    """A descriptor that holds the lock. A file that a killed process left is not locked, and is taken over."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 1000)
            os.close(descriptor)
            raise InputError(f"{path} is being written by {_name(owner)}; wait until it ends") from None
        except OSError:  # a file system without locks
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                break
        os.close(descriptor)  # its holder removed the file before letting go
    since = datetime.now(UTC).isoformat(timespec="seconds")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": since})
    with suppress(OSError):  # a full disk; the lock holds without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    return descriptor


def _name(owner: bytes) -> str:
    try:
        known = json.loads(owner)
        return f"process {known['pid']} on {known['host']} ({known['command']}, since {known['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
