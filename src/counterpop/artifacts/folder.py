"""How every folder is written and read: in one step, by one writer, with a checksum of each file.

A folder has a `manifest.json` with its kind, format, versions, and checksums of every file and of itself. It is written
under a temporary name and moved into place at the end, so a crash leaves the old folder intact. A reader takes only
bytes whose checksum is in the manifest it has read, so it gets one version even while another is written. Files are
safetensors, JSON, parquet and npy, never pickle.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import io
import json
import math
import mmap
import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from counterpop import __version__
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError, InputError
from counterpop.locks import locked
from counterpop.outputs import flush, place_of, temporary

FORMAT = 3  # since 2 a model has its dials in its file, since 3 a manifest has its own checksum; 1 and 2 are still read
MANIFEST = "manifest.json"
TEST = "test.parquet"  # opened only by `load_split`
NPY_HEADER = 4096  # bytes: more than the header of an npy file of numbers has
ATTEMPTS = 20  # at reading a folder that is replaced at the same time
_REQUIRED = {"split": ["split"], "run": ["settings", "tuning"], "adjustment": ["tuning"]}
_RENAME_EXCHANGE = 2  # flag of Linux's renameat2: swap two folders in one step
_AT_FDCWD = -100
_FICLONE = 0x40049409  # Linux's ioctl for a copy that shares its blocks until one of the two is changed
_LIBRARIES = (SafetensorError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
_GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_DAMAGE = (*_LIBRARIES, *_GONE, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

_KINDS = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}  # that we write

T = TypeVar("T")
B = TypeVar("B", bytes, mmap.mmap)


def check_target(path: str | Path, kind: str, force: bool = True) -> None:
    """Raises `InputError` if writing a folder of this kind to `path` would overwrite anything else.

    Without `force`, a folder of the same kind is not overwritten either.
    """
    target = Path(path)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    content = "something else"
    if (target / MANIFEST).is_file():
        try:
            content = f"a {json.loads((target / MANIFEST).read_text())['kind']}"
        except (ValueError, KeyError, TypeError, RecursionError):
            content = "a damaged manifest"
    if content != f"a {kind}":
        raise InputError(f"{target} holds {content}, which is not overwritten; choose another folder")
    if not force:
        raise InputError(f"{target} already exists; pass --force to replace it, or choose another folder")


@contextmanager
def claimed(path: str | Path, kind: str, force: bool = True) -> Iterator[None]:
    """The only right to write a folder, before the work for it begins; see `check_target` and `locked`."""
    check_target(path, kind, force)
    with locked(path):
        yield


@contextmanager
def replaced(
    path: Path, kind: str, content: Mapping[str, Any], known: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """A temporary folder to fill; on exit it gets its manifest and takes the place of `path`.

    `content` goes into the manifest; `known` has checksums that need not be computed again. Both are taken as they are
    on exit. Files in the old folder that are not ours are kept, outside the manifest.
    """
    path = place_of(path)  # a link stays and its target is replaced
    with locked(path):
        check_target(path, kind)
        with temporary(path, folder=True) as new:
            yield new
            own = {file.relative_to(new).as_posix(): file for file in sorted(new.rglob("*")) if file.is_file()}
            checksums = known or {}
            libraries = {name: version(name) for name in ("numpy", "numba", "polars")}
            manifest = {
                "kind": kind,
                "format": FORMAT,
                "written": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": {"python": platform.python_version(), "counterpop": __version__, **libraries},
                **content,
                "files": {name: checksums.get(name) or checksum(file) for name, file in own.items()},
            }
            (new / MANIFEST).write_text(to_json(manifest | {"checksum": _seal(manifest)}, indent=2) + "\n")
            mode = new.stat().st_mode & 0o666  # what the umask allows; safetensors allows only the owner
            for file in own.values():
                file.chmod(mode)
            _keep_foreign_files(path, new)
            for part in [*new.rglob("*"), new]:
                if not part.is_symlink():
                    flush(part)
            _take_place(new, path)
            flush(path.parent)


def _keep_foreign_files(old: Path, new: Path) -> None:
    """Takes files that are not in the old folder's manifest over into the new folder."""
    try:
        ours = json.loads((old / MANIFEST).read_text()).get("files", {}).keys() | {MANIFEST}
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    foreign = [file for file in sorted(old.rglob("*")) if file.is_symlink() or file.is_file()]
    names = [file.relative_to(old).as_posix() for file in foreign]
    carry_files(old, new, [name for name in names if name not in ours and not (new / name).exists()])


def carry_files(old: Path, new: Path, names: Iterable[str]) -> None:
    """Links files of a folder into its next version. The old one is removed, so no two folders ever share a file."""
    for name in names:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old / name, new / name, follow_symlinks=False)
        except OSError:  # a file system without links
            shutil.copy2(old / name, new / name, follow_symlinks=False)


def copy_file(source: Path, target: Path) -> None:
    """Copies a file to where there is none; the two share their blocks where the file system can do that."""
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new, 1 << 20)


def _take_place(new: Path, path: Path) -> None:
    """Moves `new` to `path`; the old folder, if there is one, ends up at `new`."""
    if path.exists():
        libc = ctypes.CDLL(None, use_errno=True)
        exchange = getattr(libc, "renameat2", None)
        paths = os.fsencode(new), os.fsencode(path)
        if exchange and exchange(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
        old = path.with_name(f".{path.name}-old")  # without an exchange, the old folder is intact under this name
        path.rename(old)
        new.rename(path)
        old.rename(new)
    else:
        new.rename(path)


@dataclass(frozen=True)
class Contents:
    """A folder as one manifest describes it."""

    folder: Path
    manifest: Mapping[str, Any]
    mapped: bool = False
    """Whether tensors are mapped from their files, which processes share, instead of read."""

    def __contains__(self, name: str) -> bool:
        """Whether the manifest lists a file; `ArtifactError` if the folder has one by this name that is not listed."""
        if name not in self.manifest["files"] and (self.folder / name).exists():
            raise ArtifactError(f"{self.folder} is damaged: {name} is not in its manifest; create the folder again")
        return name in self.manifest["files"]

    def read(self, name: str) -> bytes:
        """The bytes of a listed file, once their checksum is right."""
        return self._checked(name, Path.read_bytes)

    def _checked(self, name: str, read: Callable[[Path], B]) -> B:
        path = self.folder / name
        try:
            if not stat.S_ISREG(path.lstat().st_mode) or not path.resolve().is_relative_to(self.folder.resolve()):
                raise ArtifactError(f"{self.folder} is damaged: {name} is not a regular file; create the folder again")
            data = read(path)
        except FileNotFoundError:
            raise ArtifactError(f"{self.folder} is damaged: {name} is missing; create the folder again") from None
        if _checksum(data) != self.manifest["files"][name]:
            raise ArtifactError(f"{self.folder} is damaged: {name} was changed after writing; create the folder again")
        return data

    def array(self, name: str) -> NDArray[Any]:
        """The flat array of a listed npy file, mapped into memory once its checksum is right."""
        data = self._checked(name, _map)
        head = io.BytesIO(data[:NPY_HEADER])
        np.lib.format.read_magic(head)
        (length,), _, kind = np.lib.format.read_array_header_1_0(head)
        array = np.frombuffer(data, kind, length, head.tell())
        array.flags.writeable = False
        return array

    def tensors(self, name: str) -> dict[str, NDArray[Any]]:
        return _arrays(self._checked(name, _map)) if self.mapped else dict(load(self.read(name)))

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(io.BytesIO(self.read(name)))

    def inner(self, name: str, kind: str) -> Contents:
        """A folder inside this one, whose manifest this one's vouches for."""
        data = self.read(f"{name}/{MANIFEST}")
        return Contents(self.folder / name, _parse(data, self.folder / name, (kind,)), self.mapped)


def _map(path: Path) -> mmap.mmap:
    """A file in memory that is only read when used. Writing to it would change this process's copy, not the file."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _arrays(data: mmap.mmap) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file without a copy: 8 bytes with the length of the header, JSON, then the data."""
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            data, _KINDS[about["dtype"]], math.prod(about["shape"]), start + about["data_offsets"][0]
        ).reshape(about["shape"])
        for name, about in header.items()
    }


def read_folder(path: str | Path, kinds: tuple[str, ...], make: Callable[[Contents], T], mapped: bool = False) -> T:
    """What `make` makes of a folder; again if the folder was replaced meanwhile."""
    folder = Path(path)
    for _ in range(ATTEMPTS):
        before = _manifest_bytes(folder, kinds)
        try:
            return make(Contents(folder, _parse(before, folder, kinds), mapped))
        except (ArtifactError, *_DAMAGE) as error:
            if _manifest_bytes(folder, kinds) != before:
                continue
            if isinstance(error, ArtifactError):
                raise
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise ArtifactError(f"{folder} is damaged ({reason}); create the folder again") from error
    raise ArtifactError(f"{folder} was replaced {ATTEMPTS} times while it was read; try again later")


def same_version(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether a folder still is the one with this manifest."""
    try:
        return bool(json.loads((path / MANIFEST).read_bytes()) == manifest)
    except (OSError, ValueError, RecursionError):
        return False


def _manifest_bytes(folder: Path, kinds: tuple[str, ...]) -> bytes:
    with suppress(FileNotFoundError, NotADirectoryError):
        if (folder / MANIFEST).is_file():  # a pipe would be waited for
            return (folder / MANIFEST).read_bytes()
    raise ArtifactError(f"{folder} is not {_a(' or '.join(kinds))} folder: it has no {MANIFEST}")


def _a(kind: str) -> str:
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"


def _parse(data: bytes, folder: Path, kinds: tuple[str, ...]) -> dict[str, Any]:
    """The manifest, after checking its checksum, kind, format and the names of its files."""
    damaged = ArtifactError(f"{folder / MANIFEST} is damaged; create the folder again")
    try:
        manifest: dict[str, Any] = json.loads(data, parse_constant=_refuse_constant)
        kind, written_format, files = manifest["kind"], manifest["format"], dict(manifest["files"])
        if type(written_format) is not int or written_format < 1 or not isinstance(kind, str):
            raise damaged
        if written_format <= FORMAT:
            _ = [manifest[key] for key in _REQUIRED.get(kind, [])]
            seal = manifest.get("checksum", None if written_format < 3 else "")
            rest = {key: value for key, value in manifest.items() if key != "checksum"}
            if seal is not None and seal != _seal(rest):
                raise damaged
            if not all(_is_inside(name) and isinstance(checksum, str) for name, checksum in files.items()):
                raise ArtifactError(f"{folder / MANIFEST} lists files outside its folder; create the folder again")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged from None
    if written_format > FORMAT:
        raise ArtifactError(
            f"{folder} has format {written_format}, newer than this version's {FORMAT}; upgrade counterpop"
        )
    if kind not in kinds:
        raise ArtifactError(f"{folder} is {_a(kind)} folder, but {_a(' or '.join(kinds))} folder is needed here")
    return manifest


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return (
        bool(parts)
        and not name.startswith("/")
        and ".." not in parts
        and name == "/".join(parts) != MANIFEST
        and "\0" not in name
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _seal(manifest: Mapping[str, Any]) -> str:
    return _checksum(to_json(manifest, sort_keys=True).encode())


def _checksum(data: bytes | mmap.mmap) -> str:
    return hashlib.sha256(data).hexdigest()


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file; of a folder, those of its files and their names; of a pattern, nothing."""
    if path.is_file():
        return {"bytes": path.stat().st_size, "sha256": checksum(path)}
    files = [file for file in sorted(path.rglob("*")) if file.is_file()] if path.is_dir() else []
    if not files:
        return {"bytes": None, "sha256": None}
    names = "".join(f"{checksum(file)}  {file.relative_to(path)}\n" for file in files)
    return {"bytes": sum(file.stat().st_size for file in files), "sha256": hashlib.sha256(names.encode()).hexdigest()}
