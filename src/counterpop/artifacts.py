"""The run folder and its kin: safetensors, JSON, parquet; never pickle.

Every folder has a `manifest.json` with its kind, format, versions and the checksum of each file. It is
written under a temporary name and put in place in one step, so a crash leaves the old folder whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from counterpop.adjustment import Adjustment
from counterpop.embeddings import Embeddings
from counterpop.errors import ArtifactError, InputError
from counterpop.interactions import Ids, Interactions
from counterpop.ledger import Ledger
from counterpop.runs import Model, Run
from counterpop.splits import Development, Split, SplitManifest
from counterpop.tuning import Grid

FORMAT = 1
MANIFEST = "manifest.json"
_PARTS = ("train", "valid", "ordinary", "test")
_RENAME_EXCHANGE = 2  # of Linux's renameat2: two folders change places in one step
_AT_FDCWD = -100


@dataclass(frozen=True, eq=False)
class SavedRun:
    """What a run folder holds; the split is read apart (`load_split`, `load_development`)."""

    path: Path
    run: Run
    manifest: Mapping[str, Any]
    adjustment: Adjustment | None = None
    """Of the final model, once `tune` has written it."""
    grid: Grid | None = None


def save_split(split: Split, path: str | Path) -> None:
    """Writes a split folder: ids, one parquet file for each part, the manifest."""
    with _replaced(Path(path), "split", {"split": asdict(split.manifest)}) as folder:
        for name, ids in (("users", split.train.user_ids), ("items", split.train.item_ids)):
            pl.DataFrame({"id": ids.tolist() if ids.dtype == object else ids}).write_parquet(
                folder / f"{name}.parquet"
            )
        for name in _PARTS:
            part = split.test if name == "test" else getattr(split.development, name)
            if part is None:
                continue
            columns: dict[str, Any] = {"user_ix": part.user_ix, "item_ix": part.item_ix}
            if part.time is not None:
                columns["time"] = part.time
            if name == "train" and split.development.intervened is not None:
                columns["intervened"] = split.development.intervened
            pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")


def load_development(path: str | Path) -> Development:
    """Train and validation of a split folder, or of the split inside a run folder; test is not opened."""
    folder = _split_folder(Path(path))
    _read_manifest(folder, "split", without=("test.parquet",))
    return _read_development(folder)


def load_split(path: str | Path) -> Split:
    """The whole split of a split folder, or of the split inside a run folder."""
    folder = _split_folder(Path(path))
    manifest = _read_manifest(folder, "split")
    known = _read_development(folder)
    test = _read_part(folder, "test", known.train.user_ids, known.train.item_ids)[0]
    if test is None:
        raise ArtifactError(f"{folder} has no test part; make the split again")
    return Split(known, test, SplitManifest(**manifest["split"]))


def save_run(run: Run, path: str | Path, split: str | Path | Split) -> None:
    """Writes a run folder with its split inside (linked, not copied, where the file system allows it)."""
    with _replaced(Path(path), "run", {"settings": run.settings, "tuning": None}) as folder:
        if isinstance(split, Split):
            save_split(split, folder / "split")
        else:
            source = _split_folder(Path(split))
            _read_manifest(source, "split")
            _link_folder(source, folder / "split")
        for name, model in (("model", run.model), ("refit", run.refit)):
            if model is not None:
                _write_model(model, folder / f"{name}.safetensors")
        pl.DataFrame(list(run.history), infer_schema_length=None).write_parquet(folder / "history.parquet")


def load_run(path: str | Path) -> SavedRun:
    """The run in a folder, with its adjustment and grid where it has been tuned."""
    folder = Path(path)
    manifest = _read_manifest(folder, "run")
    ids = [_read_ids(folder / "split", name) for name in ("users", "items")]
    models = {
        name: _read_model(folder / f"{name}.safetensors", *ids)
        if (folder / f"{name}.safetensors").exists()
        else None
        for name in ("model", "refit")
    }
    if models["model"] is None:
        raise ArtifactError(f"{folder} has no model; train it again")
    history = pl.read_parquet(folder / "history.parquet").to_dicts()
    run = Run(
        models["model"],
        models["refit"],
        manifest["settings"],
        tuple({key: value for key, value in entry.items() if value is not None} for entry in history),
    )
    if not manifest["tuning"]:
        return SavedRun(folder, run, manifest)
    adjustment = _read_adjustment(folder, manifest["tuning"], run.embeddings, run.refit is not None)
    return SavedRun(
        folder, run, manifest, adjustment, _read_grid(folder / "grid.parquet", manifest["tuning"])
    )


def save_tuning(path: str | Path, adjustment: Adjustment, grid: Grid, chosen: Mapping[str, Any]) -> None:
    """Writes an adjustment and the grid it was chosen from into a run folder; `chosen` says how."""
    folder = Path(path)
    manifest = _read_manifest(folder, "run")
    tuning = _strengths(adjustment) | {"users": grid.users, "looked_at": grid.looked_at} | dict(chosen)
    with _replaced(folder, "run", {"settings": manifest["settings"], "tuning": tuning}) as new:
        _link_folder(folder, new)
        for name in (MANIFEST, "grid.parquet", "adjustment.safetensors"):
            (new / name).unlink(missing_ok=True)
        a, b = np.meshgrid(grid.item_strengths, grid.user_strengths, indexing="ij")
        columns = {"item_strength": a.ravel(), "user_strength": b.ravel()}
        pl.DataFrame(columns | {name: value.ravel() for name, value in grid.values.items()}).write_parquet(
            new / "grid.parquet"
        )
        _write_directions(adjustment, new)


def save_adjustment(adjustment: Adjustment, path: str | Path, vectors: Embeddings | None = None) -> None:
    """Writes two directions and two strengths, all that a query needs; `vectors` go beside them, with ids."""
    with _replaced(Path(path), "adjustment", {"tuning": _strengths(adjustment)}) as folder:
        _write_directions(adjustment, folder)
        if vectors is not None:
            for name, ids, matrix in (
                ("users", vectors.user_ids, vectors.user_vectors),
                ("items", vectors.item_ids, vectors.item_vectors),
            ):
                table = {"id": ids.tolist() if ids.dtype == object else ids, "vector": matrix}
                pl.DataFrame(table).write_parquet(folder / f"{name}.parquet")


def load_adjustment(path: str | Path) -> Adjustment:
    """The adjustment of a tuned run folder or of a folder that `save_adjustment` wrote, at its strengths."""
    folder = Path(path)
    manifest = _read_manifest(folder, "adjustment", "run")
    if not manifest["tuning"]:
        raise ArtifactError(f"{folder} has not been tuned yet; run `counterpop tune {folder}`")
    return _read_adjustment(folder, manifest["tuning"])


@contextmanager
def _replaced(path: Path, kind: str, content: Mapping[str, Any]) -> Iterator[Path]:
    """A temporary folder to fill; on leaving it gets its manifest and takes the place of `path`."""
    if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} holds something else and is left alone; name another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield new
        files = {str(f.relative_to(new)): _checksum(f) for f in sorted(new.rglob("*")) if f.is_file()}
        manifest = {
            "kind": kind,
            "format": FORMAT,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("counterpop", "numpy", "numba", "polars")},
            **content,
            "files": files,
        }
        (new / MANIFEST).write_text(json.dumps(manifest, indent=2, default=_plain) + "\n")
        new.chmod(0o755)  # mkdtemp's is for the owner alone
        _take_place(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _take_place(new: Path, path: Path) -> None:
    """Moves `new` to `path`; what was there is at `new` afterwards, if anything."""
    if path.exists():
        libc = ctypes.CDLL(None, use_errno=True)
        exchange = getattr(libc, "renameat2", None)
        paths = os.fsencode(new), os.fsencode(path)
        if exchange and exchange(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
        old = new.with_name(new.name + "-old")  # no exchange here: the old one is whole under this name
        path.rename(old)
        new.rename(path)
        old.rename(new)
    else:
        new.rename(path)


def _read_manifest(folder: Path, *kinds: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The manifest, once kind, format and every checksum (but those of `without`) are found right."""
    what = " or ".join(kinds)
    if not (folder / MANIFEST).is_file():
        raise ArtifactError(f"{folder} is not a {what} folder: it has no {MANIFEST}")
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        kind, written_format, files = manifest["kind"], manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"{folder / MANIFEST} is damaged; make the folder again") from None
    if written_format > FORMAT:
        raise ArtifactError(
            f"{folder} has format {written_format}, newer than this version's {FORMAT}; upgrade counterpop"
        )
    if kind not in kinds:
        raise ArtifactError(f"{folder} is a {kind} folder, but a {what} folder is needed here")
    for name, expected in files.items():
        if Path(name).name in without:
            continue
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder} is damaged: {name} is missing; make the folder again")
        if _checksum(folder / name) != expected:
            raise ArtifactError(
                f"{folder} is damaged: {name} is not as it was written; make the folder again"
            )
    return manifest


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _split_folder(path: Path) -> Path:
    return path / "split" if (path / "split" / MANIFEST).is_file() else path


def _link_folder(source: Path, target: Path) -> None:
    """Links every file of a folder into another; copies where links are not to be had."""

    def link(one: str, other: str) -> str:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)
        return other

    shutil.copytree(source, target, copy_function=link, dirs_exist_ok=True)


def _read_development(folder: Path) -> Development:
    users, items = _read_ids(folder, "users"), _read_ids(folder, "items")
    (train, intervened), (valid, _), (ordinary, _) = (
        _read_part(folder, name, users, items) for name in ("train", "valid", "ordinary")
    )
    if train is None or valid is None:
        raise ArtifactError(f"{folder} has no train or no validation part; make the split again")
    return Development(train, valid, intervened, ordinary)


def _read_part(
    folder: Path, name: str, users: Ids, items: Ids
) -> tuple[Interactions | None, NDArray[np.bool_] | None]:
    """One part and, where it has one, the column that marks intervened rows."""
    if not (folder / f"{name}.parquet").exists():
        return None, None
    table = pl.read_parquet(folder / f"{name}.parquet")
    columns = {column: table[column].to_numpy() for column in table.columns}
    log = Interactions(columns["user_ix"], columns["item_ix"], users, items, columns.get("time"))
    return log, columns.get("intervened")


def _read_ids(folder: Path, name: str) -> Ids:
    ids = pl.read_parquet(folder / f"{name}.parquet")["id"]
    return np.array(ids.to_list(), dtype=object) if ids.dtype == pl.String else ids.to_numpy()


def _write_model(model: Model, path: Path) -> None:
    tensors = {"user_vectors": model.embeddings.user_vectors, "item_vectors": model.embeddings.item_vectors}
    if model.ledger:
        tensors |= {"ledger_items": model.ledger.items, "ledger_users": model.ledger.users}
        tensors |= {"ledger_counts": np.array([model.ledger.every, model.ledger.triples])}
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)


def _read_model(path: Path, users: Ids, items: Ids) -> Model:
    tensors = _read_tensors(path)
    vectors = Embeddings(tensors["user_vectors"], tensors["item_vectors"], users, items)
    if "ledger_items" not in tensors:
        return Model(vectors)
    every, triples = (int(n) for n in tensors["ledger_counts"])
    return Model(vectors, Ledger(tensors["ledger_items"], tensors["ledger_users"], every, triples))


def _write_directions(adjustment: Adjustment, folder: Path) -> None:
    save_file(
        {"item_direction": adjustment.item_direction, "user_direction": adjustment.user_direction},
        folder / "adjustment.safetensors",
    )


def _read_adjustment(
    folder: Path, tuning: Mapping[str, Any], embeddings: Embeddings | None = None, refit: bool = False
) -> Adjustment:
    tensors = _read_tensors(folder / "adjustment.safetensors")
    return Adjustment(
        tensors["item_direction"], tensors["user_direction"],
        tuning["item_strength"], tuning["user_strength"], embeddings, refit,
    )  # fmt: skip


def _read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); make the folder again") from None


def _read_grid(path: Path, tuning: Mapping[str, Any]) -> Grid:
    table = pl.read_parquet(path)
    a, b = (
        tuple(table[name].unique(maintain_order=True).to_list())
        for name in ("item_strength", "user_strength")
    )
    values = {name: table[name].to_numpy().reshape(len(a), len(b)) for name in table.columns[2:]}
    return Grid(a, b, values, tuning["users"], tuning["looked_at"])


def _strengths(adjustment: Adjustment) -> dict[str, Any]:
    return {"item_strength": adjustment.item_strength, "user_strength": adjustment.user_strength}


def _plain(value: Any) -> Any:
    """NumPy numbers as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
