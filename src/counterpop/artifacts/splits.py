"""Split folders: ids, one parquet file for each part, the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.artifacts.folder import MANIFEST, TEST, read_manifest, replaced
from counterpop.errors import ArtifactError
from counterpop.interactions import Ids, Interactions
from counterpop.splits import Development, Split, SplitManifest

_PARTS = ("train", "valid", "ordinary", "test")


def save_split(split: Split, path: str | Path) -> None:
    """Writes a split folder."""
    with replaced(Path(path), "split", {"split": asdict(split.manifest)}) as folder:
        for name, ids in (("users", split.train.user_ids), ("items", split.train.item_ids)):
            pl.DataFrame({"id": id_column(ids)}).write_parquet(folder / f"{name}.parquet")
        for name in _PARTS:
            part = split.test if name == "test" else getattr(split.development, name)
            if part is None:
                continue
            columns: dict[str, Any] = {"user_ix": part.user_ix, "item_ix": part.item_ix}
            columns |= {c: value for c in ("time", "weight") if (value := getattr(part, c)) is not None}
            if name == "train" and split.development.intervened is not None:
                columns["intervened"] = split.development.intervened
            pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")


def load_development(path: str | Path) -> Development:
    """Train and validation of a split folder, or of the split inside a run folder; test is not opened."""
    folder = split_folder(Path(path))
    return _read_development(folder, read_manifest(folder, "split", without=TEST))


def load_split(path: str | Path) -> Split:
    """The whole split of a split folder, or of the split inside a run folder."""
    folder = split_folder(Path(path))
    manifest = read_manifest(folder, "split")
    known = _read_development(folder, manifest)
    test = _read_part(folder, "test", known.train.user_ids, known.train.item_ids)[0]
    if test is None:
        raise ArtifactError(f"{folder} has no test part; make the split again")
    return Split(known, test, SplitManifest(**manifest["split"]))


def split_folder(path: Path) -> Path:
    """The split folder itself, or the one inside a run folder."""
    return path / "split" if (path / "split" / MANIFEST).is_file() else path


def id_column(ids: Ids) -> Any:
    return ids.tolist() if ids.dtype == object else ids


def read_ids(folder: Path, name: str) -> Ids:
    ids = pl.read_parquet(folder / f"{name}.parquet")["id"]
    return np.array(ids.to_list(), dtype=object) if ids.dtype == pl.String else ids.to_numpy()


def _read_development(folder: Path, manifest: Mapping[str, Any]) -> Development:
    users, items = read_ids(folder, "users"), read_ids(folder, "items")
    (train, intervened), (valid, _), (ordinary, _) = (
        _read_part(folder, name, users, items) for name in ("train", "valid", "ordinary")
    )
    if train is None or valid is None:
        raise ArtifactError(f"{folder} has no train or no validation part; make the split again")
    return Development(train, valid, intervened, ordinary, SplitManifest(**manifest["split"]).drawn)


def _read_part(folder: Path, name: str, users: Ids, items: Ids) -> tuple[Interactions | None, NDArray[np.bool_] | None]:
    """One part and, if it has one, the column that marks intervened rows."""
    if not (folder / f"{name}.parquet").exists():
        return None, None
    table = pl.read_parquet(folder / f"{name}.parquet")
    columns = {column: table[column].to_numpy() for column in table.columns}
    log = Interactions(
        columns["user_ix"], columns["item_ix"], users, items, columns.get("time"), weight=columns.get("weight")
    )
    return log, columns.get("intervened")
