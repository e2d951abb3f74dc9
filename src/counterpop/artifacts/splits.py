"""Split folders: ids, one parquet file for each part (arrays for a very large train part), the manifest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.artifacts.folder import Contents, read_folder, replaced
from counterpop.errors import ArtifactError
from counterpop.interactions import Ids, Interactions
from counterpop.splits import Development, Split, SplitManifest

_PARTS = ("train", "valid", "ordinary", "test")
COLUMNS = ("user_ix", "item_ix", "time", "weight", "intervened")
MANY_PAIRS = 1 << 26  # above, train is written as arrays, which are mapped into memory instead of read


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
            if name == "train" and len(part) > MANY_PAIRS:
                for column, values in columns.items():
                    np.save(folder / f"{name}.{column}.npy", values)
            else:
                pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")


def load_development(path: str | Path) -> Development:
    """Train and validation of a split folder, or of the split inside a run folder; test is not opened."""
    return read_folder(path, ("split", "run"), read_development)


def load_split(path: str | Path) -> Split:
    """The whole split of a split folder, or the one inside a folder of `train` or `debias`."""
    return read_folder(path, ("split", "run", "adjustment"), read_split)


def read_split(contents: Contents) -> Split:
    contents = split_of(contents)
    known = read_development(contents)
    test = _read_part(contents, "test", known.train.user_ids, known.train.item_ids)[0]
    if test is None:
        raise ArtifactError(f"{contents.folder} has no test part; make the split again")
    return Split(known, test, SplitManifest(**contents.manifest["split"]))


def split_of(contents: Contents) -> Contents:
    """The split itself, or the one inside a run."""
    return contents if contents.manifest["kind"] == "split" else contents.inner("split", "split")


def id_column(ids: Ids) -> Any:
    return ids.tolist() if ids.dtype == object else ids


def read_ids(contents: Contents, name: str) -> Ids:
    ids = contents.table(f"{name}.parquet")["id"]
    return np.array(ids.to_list(), dtype=object) if ids.dtype == pl.String else ids.to_numpy()


def read_development(contents: Contents) -> Development:
    contents = split_of(contents)
    users, items = read_ids(contents, "users"), read_ids(contents, "items")
    (train, intervened), (valid, _), (ordinary, _) = (
        _read_part(contents, name, users, items) for name in ("train", "valid", "ordinary")
    )
    if train is None or valid is None:
        raise ArtifactError(f"{contents.folder} has no train or no validation part; make the split again")
    return Development(train, valid, intervened, ordinary, SplitManifest(**contents.manifest["split"]).drawn)


def _read_part(
    contents: Contents, name: str, users: Ids, items: Ids
) -> tuple[Interactions | None, NDArray[np.bool_] | None]:
    """One part and, if it has one, the column that marks intervened rows."""
    files = [file for file in (f"{name}.{column}.npy" for column in COLUMNS) if file in contents]
    if f"{name}.parquet" in contents:
        table = contents.table(f"{name}.parquet")
        columns = {column: table[column].to_numpy() for column in table.columns}
    elif files:
        columns = {file.split(".")[1]: contents.array(file) for file in files}
    else:
        return None, None
    log = Interactions(
        columns["user_ix"], columns["item_ix"], users, items, columns.get("time"), weight=columns.get("weight")
    )
    return log, columns.get("intervened")
