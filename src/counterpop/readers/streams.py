"""Logs too large for memory: parquet files read in stretches, their pairs sorted on disk, their positions mapped.

Two passes: the first collects the ids of both sides, which must fit into memory, the second writes every row as a pair
of positions into buckets of users. Each bucket is then sorted and merged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.readers.columns import clean
from counterpop.readers.ids import UUID_BYTES, Positions, decode_ids, merge_rows, sorted_ids
from counterpop.readers.tables import Table, readable

MANY_ROWS = 1 << 26  # above, a log of parquet files is read this way if there is a folder for its arrays
STRETCH = 1 << 22  # rows read at a time
BUCKET = 1 << 25  # rows sorted at a time, about
KINDS = {"key": np.int64, "time": np.float64, "split": np.int8}

Columns = dict[str, pl.Series]
Report = Callable[[float], None]
"""Called with the share that is done, from 0 to 1."""


def count_rows(table: Table) -> int:
    """The number of rows of parquet files, by their footers; 0 for other sources."""
    if not table.files:
        return 0
    with readable(table.label, "parquet"):
        return int(table.scan(table.files).select(pl.len()).collect().item())


def stream_interactions(
    table: Table, chosen: dict[str, str], min_rating: float | None, scratch: Path, report: Report = lambda share: None
) -> Interactions:
    """The log of parquet files as `read_interactions` gives it, with its rows in files of the folder `scratch`.

    The files must stay as long as the log is used.
    """
    rows = count_rows(table)
    steps = 3 * rows + 1
    as_text = _text_in_bytes(table, chosen)

    def stretches(done: int) -> Iterator[Columns]:
        for at, columns in _stretches(table, chosen, min_rating, as_text):
            yield columns
            report((done + at) / steps)

    users, items = (Positions.of(ids) for ids in _collect_ids(stretches(0)))
    for side, positions in (("user", users), ("item", items)):
        if len(positions.ids) < 2:
            raise InputError(
                f"a log needs at least two {side}s, but {table.label} holds {len(positions.ids)}; check which column "
                f"{side}= names, and min_rating"
            )
    kinds = {name: KINDS[name] for name in ("key", *(role for role in ("time", "split") if role in chosen))}
    buckets = -(-rows // BUCKET)
    width = -(-len(users.ids) // buckets)  # users of a bucket
    written = 0
    with ExitStack() as stack:
        files = {
            (name, bucket): stack.enter_context((scratch / f"{name}.{bucket}").open("wb"))
            for name in kinds
            for bucket in range(buckets)
        }
        for columns in stretches(rows):
            user_ix = users.find(columns.pop("user"))
            key = user_ix.astype(np.int64) * len(items.ids) + items.find(columns.pop("item"))
            bucket_of = (user_ix // width).astype(np.uint16)
            order = np.argsort(bucket_of, kind="stable")
            cuts = np.searchsorted(bucket_of[order], np.arange(buckets + 1))
            values = {"key": key} | {name: column.to_numpy() for name, column in columns.items()}
            for (name, bucket), file in files.items():
                values[name][order[cuts[bucket] : cuts[bucket + 1]]].astype(kinds[name], copy=False).tofile(file)
            written += len(key)
    ids = users.ids, items.ids
    del users, items  # their tables are as large as the ids
    made = _merge_buckets(scratch, kinds, buckets, len(ids[1]), lambda share: report((2 + share) * rows / steps))
    report(1.0)
    time, part = made.get("time"), made.get("split")
    return Interactions(made["user"], made["item"], *ids, time, part, merged=written - len(made["user"]))


def _text_in_bytes(table: Table, chosen: dict[str, str]) -> set[str]:
    """The sides whose ids are bytes of another length than a UUID in any row, and so text in all of them."""
    with readable(table.label, "parquet"):
        scan = table.scan(table.files)
        schema = scan.collect_schema()
        sides = {side: name for side in ("user", "item") if schema[name := chosen[side]] == pl.Binary}
        if not sides:
            return set()
        other = [(pl.col(name).bin.size() != UUID_BYTES).any().alias(side) for side, name in sides.items()]
        found = scan.select(other).collect(engine="streaming").row(0, named=True)
    return {side for side in sides if found[side]}


def _stretches(
    table: Table, chosen: dict[str, str], min_rating: float | None, as_text: set[str]
) -> Iterator[tuple[int, Columns]]:
    """The cleaned columns of each stretch of rows, and how many rows were read so far."""
    done = 0
    for file in table.files:
        with readable(str(file), "parquet"):
            scan = table.scan([file]).select(pl.col(name).alias(role) for role, name in chosen.items())
            rows = scan.select(pl.len()).collect().item()
        for at in range(0, rows, STRETCH):
            with readable(str(file), "parquet"):
                frame = scan.slice(at, STRETCH).collect()
            label = f"{file} (rows counted from {at + 1:,})" if at else str(file)
            texts = [decode_ids(frame[side], chosen[side], label) for side in as_text]
            frame = frame.with_columns(texts)
            columns = {role: clean(role, frame[role], name, label) for role, name in chosen.items()}
            ratings = columns.pop("rating", None)
            if ratings is not None and min_rating is not None:
                columns = {role: column.filter(ratings >= min_rating) for role, column in columns.items()}
            done += len(frame)
            yield done, columns


def _collect_ids(stretches: Iterator[Columns]) -> list[pl.Series]:
    """The distinct ids of users and items, sorted."""
    known: dict[str, list[pl.Series]] = {"user": [], "item": []}
    for columns in stretches:
        for side, parts in known.items():
            parts.append(columns[side].unique())
            if sum(map(len, parts[1:])) > max(STRETCH, len(parts[0])):  # so that each id is looked at a few times only
                parts[:] = [sorted_ids(parts)]
    return [sorted_ids(parts) for parts in known.values()]


def _merge_buckets(
    scratch: Path, kinds: dict[str, Any], buckets: int, n_items: int, report: Report
) -> dict[str, NDArray[Any]]:
    """The rows of all buckets, sorted and each pair once, as arrays that are mapped from files."""
    out = {"user": np.int32, "item": np.int32} | {name: kind for name, kind in kinds.items() if name != "key"}
    with ExitStack() as stack:
        files = {name: stack.enter_context((scratch / name).open("wb")) for name in out}
        for bucket in range(buckets):
            rows = {name: np.fromfile(scratch / f"{name}.{bucket}", kind) for name, kind in kinds.items()}
            for name in kinds:
                (scratch / f"{name}.{bucket}").unlink()
            key = rows.pop("key")
            if not len(key):
                continue
            merged = merge_rows(key, n_items, {name: pl.Series(values) for name, values in rows.items()})
            del key, rows
            for name, values in zip(("user", "item", "time", "split"), merged, strict=True):
                if values is not None:
                    values.tofile(files[name])
            report((bucket + 1) / buckets)
    return {name: np.asarray(np.memmap(scratch / name, kind, "r")) for name, kind in out.items()}
