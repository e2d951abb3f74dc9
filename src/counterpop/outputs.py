"""Files and folders that appear complete or not at all: written beside their place, flushed, then moved there."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from counterpop.errors import InputError

PREFIX = ".counterpop-"  # of everything temporary; what a killed process leaves is removed by the next writer
LEAST_SPACE = 1 << 16  # bytes that must be free to begin
LONGEST_NAME = 200  # characters of a name that are kept in the temporary one


def place_of(path: str | Path) -> Path:
    """The path without links. `Path.resolve` may raise RuntimeError for links that lead to themselves."""
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write; on exit it takes the place of `path`. After an error `path` is as it was."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the path of a file")
    if path.exists() and not path.is_file():  # a device or a pipe
        yield path
        return
    path = place_of(path)  # a link stays and its target is replaced
    with temporary(path) as part:
        yield part
        flush(part)
        part.replace(path)
        flush(path.parent)


@contextmanager
def temporary(path: Path, folder: bool = False) -> Iterator[Path]:
    """A new file or folder beside `path`, which is removed on exit if it is still there.

    It is locked as long as this process lives, so that `sweep` can tell it from what a killed process left.
    """
    if os.fsencode(path) != str(path).encode(errors="replace"):
        raise InputError(f"{os.fsencode(path)!r} must be a path in UTF-8; choose another name")
    make_folder(path.parent)
    sweep(path.parent)
    while True:
        part = path.with_name(f"{PREFIX}{token_hex(4)}-{path.name[-LONGEST_NAME:]}")
        part.mkdir() if folder else part.touch(exist_ok=False)
        with suppress(FileNotFoundError):
            held = os.open(part, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(held, fcntl.LOCK_EX)
            if part.exists():
                break
            os.close(held)  # swept before it was locked
    try:
        yield part
    except Exception as error:
        found = re.search(r"\(os error (\d+)\)", str(error))  # polars and safetensors say it in words
        number = int(found[1]) if found else getattr(error, "errno", None)
        if number is None and "parquet" in str(error) and not isinstance(error, InputError):
            raise OSError(errno.EIO, "could not be written", str(path)) from error
        if number is None or getattr(error, "filename", None) is not None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
    finally:
        _remove(part)
        os.close(held)


def check_writable(path: str | Path) -> None:
    """Raises before the work, not after it, if a file cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the path of a file")
    if path.is_file() or not path.exists():
        with temporary(place_of(path)) as part:
            part.write_bytes(bytes(LEAST_SPACE))


def check_space(path: str | Path, needed: int) -> None:
    """Raises before the work, not after it, if the disk has less than this many bytes left."""
    free = shutil.disk_usage(place_of(path).parent).free
    if free < needed:
        raise InputError(f"{path} needs about {needed / 1e6:,.1f} MB, but the disk has {free / 1e6:,.1f} MB left")


def sweep(folder: Path) -> None:
    """Removes what killed processes left in a folder."""
    for left in folder.glob(f"{PREFIX}[0-9a-f]*"):
        with suppress(OSError):
            held = os.open(left, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
                _remove(left)
            finally:
                os.close(held)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Makes a folder and its parents, each of which survives a power cut."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, so nothing can be written below it; choose another place")
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush(path.parent)


def flush(path: Path) -> None:
    """Waits until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
