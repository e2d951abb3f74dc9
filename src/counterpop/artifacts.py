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
import warnings
from collections.abc import Iterable, Iterator, Mapping
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

from counterpop import __version__
from counterpop.adjustment import Adjustment, Segments
from counterpop.debiasing import Debiasing
from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import ArtifactError, CounterpopWarning, InputError
from counterpop.evaluation import On
from counterpop.interactions import Ids, Interactions
from counterpop.ledger import Ledger
from counterpop.recommender import Recommender
from counterpop.runs import Dials, Model, Run
from counterpop.splits import Development, Split, SplitManifest
from counterpop.tuning import Grid

FORMAT = 1
MANIFEST = "manifest.json"
TEST = "test.parquet"  # opened by `load_split` alone
_NEEDED = {"split": ["split"], "run": ["settings", "tuning"], "adjustment": ["tuning"]}
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
            pl.DataFrame({"id": ids.tolist() if ids.dtype == object else ids}).write_parquet(folder / f"{name}.parquet")
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
    _read_manifest(folder, "split", without=TEST)
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
    linked: dict[str, str] = {}
    source = None if isinstance(split, Split) else _split_folder(Path(split))
    if source is not None:
        files = _read_manifest(source, "split", without=TEST)["files"]
        linked = {f"split/{name}": checksum for name, checksum in files.items()}
    with _replaced(Path(path), "run", {"settings": run.settings, "tuning": None}, linked) as folder:
        if isinstance(split, Split):
            save_split(split, folder / "split")
        elif source is not None:
            _link_files(source, folder / "split", [MANIFEST, *files])
        for name, model in (("model", run.model), ("refit", run.refit)):
            if model is not None:
                _write_model(model, folder / f"{name}.safetensors")
        pl.DataFrame(list(run.history), infer_schema_length=None).write_parquet(folder / "history.parquet")


def load_run(path: str | Path) -> SavedRun:
    """The run in a folder, with its adjustment and grid where it has been tuned."""
    folder = Path(path)
    manifest = _read_manifest(folder, "run", without=TEST)
    ids = [_read_ids(folder / "split", name) for name in ("users", "items")]
    models = {
        name: _read_model(folder / f"{name}.safetensors", *ids) if f"{name}.safetensors" in manifest["files"] else None
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
    adjustment = _read_adjustment(folder, manifest["tuning"])
    return SavedRun(folder, run, manifest, adjustment, _read_grid(folder / "grid.parquet", manifest["tuning"]))


def load(path: str | Path) -> Recommender:
    """The final model of a run folder at its tuned strengths; train and validation items are left out of lists."""
    return recommender_of(load_run(path), load_development(path))


def trained_on(saved: SavedRun, known: Development, on: On = "test") -> Interactions:
    """The interactions behind the model that `on` calls for: see `recommender_of`."""
    return known.refit_train() if saved.run.refit is not None and on == "test" else known.train


def recommender_of(saved: SavedRun, known: Development, on: On = "test") -> Recommender:
    """The model of a run that `on` calls for, at its tuned strengths, or at strengths 0 if it has not been tuned.

    Test and serving use the final model and leave train and validation items out. Validation uses the model that
    was trained without it and leaves train items out.
    """
    run, tuning = saved.run, saved.manifest["tuning"] or {}
    if not tuning and run.model.dials is not None:
        text = f"{saved.path} has not been tuned, so its strengths are 0; run `counterpop tune` first"
        warnings.warn(CounterpopWarning(text), stacklevel=2)
    model = run.final if on == "test" else run.model
    adjustment = saved.adjustment
    if adjustment is None or model is not run.final:
        by = tuning.get("item_direction"), tuning.get("user_direction")
        found = find_directions(model, trained_on(saved, known, on), *by)
        strengths = tuning.get("item_strength", 0.0), tuning.get("user_strength", 0.0)
        adjustment = Adjustment(found.item, found.user, *strengths)
    return Recommender(
        **vars(adjustment),
        embeddings=model.embeddings,
        seen=known.refit_train() if on == "test" else known.train,
        refit=run.refit is not None and on == "test",
    )


def save_tuning(path: str | Path, adjustment: Adjustment, grid: Grid, chosen: Mapping[str, Any]) -> None:
    """Writes an adjustment and the grid it was chosen from into a run folder; `chosen` says how."""
    folder = Path(path)
    manifest = _read_manifest(folder, "run", without=TEST)
    tuning = _strengths(adjustment) | {"users": grid.users, "looked_at": grid.looked_at} | dict(chosen)
    kept = {n: c for n, c in manifest["files"].items() if n not in ("grid.parquet", "adjustment.safetensors")}
    with _replaced(folder, "run", {"settings": manifest["settings"], "tuning": tuning}, kept) as new:
        _link_files(folder, new, kept)
        a, b = np.meshgrid(grid.item_strengths, grid.user_strengths, indexing="ij")
        columns = {"item_strength": a.ravel(), "user_strength": b.ravel()}
        pl.DataFrame(columns | {name: value.ravel() for name, value in grid.values.items()}).write_parquet(
            new / "grid.parquet"
        )
        _write_directions(adjustment, new)


def save_adjustment(
    adjustment: Adjustment,
    path: str | Path,
    vectors: Embeddings | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> None:
    """Writes two directions and two strengths, all that a query needs; `vectors` go beside them, with ids.

    What `debias` found is written with its effect (`effect.json`) and its trade-off (`curve.parquet`).
    `made_from` says out of what it was made, for `origin_of`.
    """
    content = {"tuning": _strengths(adjustment), "made_from": dict(made_from or {})}
    with _replaced(Path(path), "adjustment", content) as folder:
        _write_directions(adjustment, folder)
        vectors_too = {s: getattr(adjustment, s).tolist() for s in ("item_direction", "user_direction")}
        # for languages without safetensors
        (folder / "adjustment.json").write_text(json.dumps(_strengths(adjustment) | vectors_too) + "\n")
        if isinstance(adjustment, Debiasing):
            text = json.dumps(adjustment.to_json(), indent=2, default=_plain)
            (folder / "effect.json").write_text(text + "\n")
            pl.DataFrame(adjustment.curve()).write_parquet(folder / "curve.parquet")
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


def origin_of(path: str | Path) -> dict[str, Any]:
    """What `save_adjustment` was told that the adjustment was made from; empty where it was told nothing."""
    return dict(_read_manifest(Path(path), "adjustment", "run").get("made_from", {}))


def check_target(path: str | Path, kind: str) -> None:
    """Raises `InputError` where writing such a folder to `path` would overwrite something of another kind."""
    target = Path(path)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    found = "something else"
    if (target / MANIFEST).is_file():
        try:
            found = f"a {json.loads((target / MANIFEST).read_text())['kind']}"
        except (ValueError, KeyError, TypeError):
            found = "a damaged manifest"
    if found != f"a {kind}":
        raise InputError(f"{target} holds {found} and is left alone; name another folder")


@contextmanager
def _replaced(
    path: Path, kind: str, content: Mapping[str, Any], linked: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """A temporary folder to fill; on leaving it gets its manifest and takes the place of `path`.

    `linked` are the checksums of files that are taken over as they are. Files of the old folder that are not
    ours go along, outside the manifest.
    """
    path = path.resolve()  # through a link, not over it
    check_target(path, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield new
        own = [file for file in sorted(new.rglob("*")) if file.is_file()]
        names = [str(file.relative_to(new)) for file in own]
        files = {name: _checksum(new / name) for name in names if name not in (linked or {})}
        manifest = {
            "kind": kind,
            "format": FORMAT,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), "counterpop": __version__}
            | {name: version(name) for name in ("numpy", "numba", "polars")},
            **content,
            "files": files | dict(linked or {}),
        }
        (new / MANIFEST).write_text(json.dumps(manifest, indent=2, default=_plain) + "\n")
        _carry_foreign(path, new)
        new.chmod(0o755)  # mkdtemp's is for the owner alone, as are safetensors
        for file in [*own, new / MANIFEST, new]:
            if file.is_file():
                file.chmod(0o644)
            _flush(file)
        _take_place(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _carry_foreign(old: Path, new: Path) -> None:
    """Links into the new folder what somebody else had put into the old one."""
    if not (old / MANIFEST).is_file():
        return
    ours = json.loads((old / MANIFEST).read_text()).get("files", {}).keys() | {MANIFEST}
    for file in sorted(old.rglob("*")):
        name = file.relative_to(old)
        if file.is_file() and str(name) not in ours and not (new / name).exists():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            _link(file, new / name)


def _flush(path: Path) -> None:
    """Waits until a file or folder is on the disk, so that not even a loss of power leaves half of it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def _read_manifest(folder: Path, *kinds: str, without: str | None = None) -> dict[str, Any]:
    """The manifest, once kind, format and every checksum (but those of `without`) are found right."""
    what = " or ".join(kinds)
    if not (folder / MANIFEST).is_file():
        article = "an" if what.startswith("a") else "a"
        raise ArtifactError(f"{folder} is not {article} {what} folder: it has no {MANIFEST}")
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        kind, written_format, files = manifest["kind"], int(manifest["format"]), dict(manifest["files"])
        _ = [manifest[key] for key in _NEEDED[kind]] if written_format <= FORMAT and kind in _NEEDED else []
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"{folder / MANIFEST} is damaged; make the folder again") from None
    if written_format > FORMAT:
        raise ArtifactError(
            f"{folder} has format {written_format}, newer than this version's {FORMAT}; upgrade counterpop"
        )
    if kind not in kinds:
        raise ArtifactError(f"{folder} is a {kind} folder, but a {what} folder is needed here")
    for name, expected in files.items():
        if Path(name).name == without:
            continue
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder} is damaged: {name} is missing; make the folder again")
        if _checksum(folder / name) != expected:
            raise ArtifactError(f"{folder} is damaged: {name} is not as it was written; make the folder again")
    return manifest


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _split_folder(path: Path) -> Path:
    return path / "split" if (path / "split" / MANIFEST).is_file() else path


def _link(source: Path, target: Path) -> None:
    """Links a file; copies it where links are not to be had."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _link_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """Links the named files of a folder into another, those that are there."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_file():
            _link(source / name, target / name)


def _read_development(folder: Path) -> Development:
    users, items = _read_ids(folder, "users"), _read_ids(folder, "items")
    (train, intervened), (valid, _), (ordinary, _) = (
        _read_part(folder, name, users, items) for name in ("train", "valid", "ordinary")
    )
    if train is None or valid is None:
        raise ArtifactError(f"{folder} has no train or no validation part; make the split again")
    return Development(train, valid, intervened, ordinary)


def _read_part(folder: Path, name: str, users: Ids, items: Ids) -> tuple[Interactions | None, NDArray[np.bool_] | None]:
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
        counts = np.array([model.ledger.every, model.ledger.triples, model.ledger.scale])
        tensors |= {"ledger_counts": counts}
    if model.dials:
        tensors |= {
            "dial_items": np.array(model.dials.item_strengths),
            "dial_users": np.array(model.dials.user_strengths),
        }
        if model.dials.user_direction is not None:
            tensors |= {"dial": model.dials.user_direction}
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)


def _read_model(path: Path, users: Ids, items: Ids) -> Model:
    tensors = _read_tensors(path)
    vectors = Embeddings(tensors["user_vectors"], tensors["item_vectors"], users, items)
    dials = None
    if "dial_items" in tensors:
        of_items, of_users = (tuple(tensors[name].tolist()) for name in ("dial_items", "dial_users"))
        dials = Dials(of_items, of_users, tensors.get("dial"))
    if "ledger_items" not in tensors:
        return Model(vectors, dials=dials)
    every, triples, scale = tensors["ledger_counts"].tolist()
    ledger = Ledger(tensors["ledger_items"], tensors["ledger_users"], int(every), int(triples), scale)
    return Model(vectors, ledger, dials)


def _write_directions(adjustment: Adjustment, folder: Path) -> None:
    save_file(
        {"item_direction": adjustment.item_direction, "user_direction": adjustment.user_direction},
        folder / "adjustment.safetensors",
    )


def _read_adjustment(folder: Path, tuning: Mapping[str, Any]) -> Adjustment:
    tensors = _read_tensors(folder / "adjustment.safetensors")
    found = tuning.get("segments")
    segments = found and Segments(
        found["by"], tuple(found["bounds"]), tuple((item, user) for item, user in found["strengths"])
    )
    return Adjustment(
        tensors["item_direction"], tensors["user_direction"], tuning["item_strength"], tuning["user_strength"], segments
    )


def _read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); make the folder again") from None


def _read_grid(path: Path, tuning: Mapping[str, Any]) -> Grid:
    table = pl.read_parquet(path)
    a, b = (tuple(table[name].unique(maintain_order=True).to_list()) for name in ("item_strength", "user_strength"))
    values = {name: table[name].to_numpy().reshape(len(a), len(b)) for name in table.columns[2:]}
    return Grid(a, b, values, tuning["users"], tuning["looked_at"])


def _strengths(adjustment: Adjustment) -> dict[str, Any]:
    segments = adjustment.segments and asdict(adjustment.segments)
    return {"item_strength": adjustment.item_strength, "user_strength": adjustment.user_strength, "segments": segments}


def _plain(value: Any) -> Any:
    """NumPy numbers as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
