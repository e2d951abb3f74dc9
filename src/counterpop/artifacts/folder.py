"""How every folder is written and read: in one step, with a checksum of each file.

A folder has a `manifest.json` with its kind, format, versions and checksums. It is written under a temporary name
and moved into place at the end, so a crash leaves the old folder intact. Files are safetensors, JSON and parquet,
never pickle.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from counterpop import __version__
from counterpop.encoding import to_json
from counterpop.errors import ArtifactError, InputError

FORMAT = 2  # since 2 a model has its dials in its file; format 1 is still read
MANIFEST = "manifest.json"
TEST = "test.parquet"  # opened only by `load_split`
_REQUIRED = {"split": ["split"], "run": ["settings", "tuning"], "adjustment": ["tuning"]}
_RENAME_EXCHANGE = 2  # flag of Linux's renameat2: swap two folders in one step
_AT_FDCWD = -100


def check_target(path: str | Path, kind: str) -> None:
    """Raises `InputError` if writing a folder of this kind to `path` would overwrite anything else."""
    target = Path(path)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    content = "something else"
    if (target / MANIFEST).is_file():
        try:
            content = f"a {json.loads((target / MANIFEST).read_text())['kind']}"
        except (ValueError, KeyError, TypeError):
            content = "a damaged manifest"
    if content != f"a {kind}":
        raise InputError(f"{target} holds {content}, which is not overwritten; choose another folder")


@contextmanager
def replaced(
    path: Path, kind: str, content: Mapping[str, Any], linked: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """A temporary folder to fill; on exit it gets its manifest and takes the place of `path`.

    `linked` has the checksums of files that are linked from elsewhere. Files in the old folder that are not ours
    are kept, outside the manifest.
    """
    path, linked = path.resolve(), dict(linked or {})  # resolved: a link stays and its target is replaced
    check_target(path, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield new
        own = [file for file in sorted(new.rglob("*")) if file.is_file()]
        names = [str(file.relative_to(new)) for file in own]
        libraries = {name: version(name) for name in ("numpy", "numba", "polars")}
        manifest = {
            "kind": kind,
            "format": FORMAT,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), "counterpop": __version__, **libraries},
            **content,
            "files": {name: checksum(new / name) for name in names if name not in linked} | linked,
        }
        (new / MANIFEST).write_text(to_json(manifest, indent=2) + "\n")
        _keep_foreign_files(path, new)
        new.chmod(0o755)  # mkdtemp and safetensors allow only the owner
        for file in [*own, new / MANIFEST, new]:
            if file.is_file():
                file.chmod(0o644)
            _flush(file)
        _take_place(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _keep_foreign_files(old: Path, new: Path) -> None:
    """Links files that are not in the old folder's manifest into the new folder."""
    if not (old / MANIFEST).is_file():
        return
    ours = json.loads((old / MANIFEST).read_text()).get("files", {}).keys() | {MANIFEST}
    for file in sorted(old.rglob("*")):
        name = file.relative_to(old)
        if file.is_file() and str(name) not in ours and not (new / name).exists():
            link_files(old, new, [str(name)])


def _flush(path: Path) -> None:
    """Waits until a file or folder is on disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(new: Path, path: Path) -> None:
    """Moves `new` to `path`; the old folder, if there is one, ends up at `new`."""
    if path.exists():
        libc = ctypes.CDLL(None, use_errno=True)
        exchange = getattr(libc, "renameat2", None)
        paths = os.fsencode(new), os.fsencode(path)
        if exchange and exchange(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
        old = new.with_name(new.name + "-old")  # without an exchange, the old folder is intact under this name
        path.rename(old)
        new.rename(path)
        old.rename(new)
    else:
        new.rename(path)


def read_manifest(folder: Path, *kinds: str, without: str | None = None) -> dict[str, Any]:
    """The manifest, after checking kind, format and every checksum (except of files called `without`)."""
    needed = " or ".join(kinds)
    if not (folder / MANIFEST).is_file():
        article = "an" if needed.startswith("a") else "a"
        raise ArtifactError(f"{folder} is not {article} {needed} folder: it has no {MANIFEST}")
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        kind, written_format, files = manifest["kind"], int(manifest["format"]), dict(manifest["files"])
        _ = [manifest[key] for key in _REQUIRED[kind]] if written_format <= FORMAT and kind in _REQUIRED else []
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"{folder / MANIFEST} is damaged; create the folder again") from None
    if written_format > FORMAT:
        raise ArtifactError(
            f"{folder} has format {written_format}, newer than this version's {FORMAT}; upgrade counterpop"
        )
    if kind not in kinds:
        raise ArtifactError(f"{folder} is a {kind} folder, but a {needed} folder is needed here")
    for name, expected in files.items():
        if Path(name).name == without:
            continue
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder} is damaged: {name} is missing; create the folder again")
        if checksum(folder / name) != expected:
            raise ArtifactError(f"{folder} is damaged: {name} was changed after writing; create the folder again")
    return manifest


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def link_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """Links those of the named files that exist into another folder; copies them if the file system has no links."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_file():
            try:
                os.link(source / name, target / name)
            except OSError:
                shutil.copy2(source / name, target / name)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); create the folder again") from None
