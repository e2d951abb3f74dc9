"""Logs from outside: files by their extension, and the tables that people already hold in memory."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray, Interactions, as_ids

EXTENSIONS = ("csv", "tsv", "parquet", "npz", "inter", "txt")
PARTS = {"train": 0, "intervened": 1, "valid": 2, "validation": 2, "test": 3, "0": 0, "1": 1, "2": 2, "3": 3}
INFERRED_ROWS = 10_000  # a text column whose type changes later than this is read a second time, as strings
SPREAD = 8  # integer ids that span less than this many numbers per row go through a lookup table
BLOCK = 1 << 18  # rows whose numbers stay in the cache; in one go, most of the time goes into fresh memory
EXACT = 2.0**53  # beyond it a float no longer holds every whole number


class _Table(NamedTuple):
    """What one source offers, before anything is read that nobody asked for."""

    label: str
    names: list[str]
    take: Callable[[dict[str, str]], pl.DataFrame]  # {role: column} -> a frame with one column for each role
    hint: str = ""  # what else may be wrong where a column is missing
    shape: tuple[int, int] | None = None  # of a matrix: its empty rows and columns are users and items too


def read_interactions(
    source: Any,
    *,
    user: str = "user",
    item: str = "item",
    rating: str | None = None,
    min_rating: float | None = None,
    time: str | None = None,
    split: str | Literal[False] | None = None,
    header: bool = True,
) -> Interactions:
    """The log as `Interactions`: each (user, item) pair once, with the ids of both sides in rising order.

    `source` is a path (csv, tsv, RecBole .inter, each also with .gz; parquet; npz of plain arrays; .txt with
    lines "user item item ...") or a pandas, polars or Arrow table or a SciPy matrix (positions become
    ids; stored zeros are no interactions; empty rows and columns keep their position).

    - `user`, `item`: the columns to read. Left at their defaults they also find `user_id` and `item_id`.
    - `rating`, `min_rating`: rows rated lower are left out, before anything is counted; users and items
      with no row left vanish. The rating column is called "rating" unless named.
    - `time`: a column of numbers, dates or ISO 8601 text; dates become seconds since 1970 (UTC if bare).
    - `split`: the log's own split (0 or train, 1 or intervened, 2 or valid, 3 or test), kept as `part`.
      A column called "split" is used without being named; False leaves it alone.
    - `header=False`: a csv or tsv whose columns are, by position: user, item, rating, time.

    Integer ids stay integers, as do whole floats; all other ids become strings (16 bytes of binary: UUID
    text). A text column that holds only whole numbers is integers, so 007 is 7 there; pass a table with a
    string column to keep the zeros. A pair that appears several times is kept once, with the latest time
    and the earliest part (train before validation before test); `merged` counts the other rows.

    Anything unusable raises `InputError`, which names the row, counted from 1 without the header.

    >>> log = read_interactions(pl.DataFrame({"user": ["b", "a", "b"], "item": [7, 5, 7]}))
    >>> log.user_ids[log.user_ix].tolist(), log.item_ids[log.item_ix].tolist(), log.merged
    (['a', 'b'], [5, 7], 1)
    """
    if rating is None and min_rating is not None:
        rating = "rating"
    asked = {"user": user, "item": item, "rating": rating, "time": time}
    if split is not False:
        asked["split"] = split
    table = _open(source, {role: name for role, name in asked.items() if name is not None}, header)
    chosen = _choose(table, asked)
    rows = table.take(chosen)
    if rows.height == 0:
        raise InputError(f"a log needs rows, but {table.label} holds none; check that it is the right source")

    columns = _clean(rows, chosen, min_rating, table.label)
    del rows

    n_users, n_items = table.shape or (None, None)
    user_ids, user_ix = _index(columns.pop("user"), n_users)
    item_ids, item_ix = _index(columns.pop("item"), n_items)
    for what, ids in (("user", user_ids), ("item", item_ids)):
        if len(ids) < 2:
            raise InputError(
                f"a log needs at least two {what}s, but {table.label} holds only {ids[:1].tolist()[0]!r}; "
                f"check which column {what}= names"
            )
    return _merge(user_ids, item_ids, user_ix, item_ix, columns)


def read_names(source: Any, item_ids: Ids, *, item: str = "item", name: str = "name") -> list[str | None]:
    """What each item is called, in the order of `item_ids`; None where the table does not say.

    `source` is a file or table with a column of ids and one of names (left at its default, `title` is found
    as well). Rows of other items take no part; an item with two names is an error, as is a table that names
    none of the items.

    >>> read_names(pl.DataFrame({"item": [7, 5, 9], "title": ["Heat", "Alien", "Up"]}), np.array([5, 6, 7]))
    ['Alien', None, 'Heat']
    """
    table = _open(source, {"item": item, "name": name}, True)
    if name == "name" not in table.names and "title" in table.names:
        name = "title"
    rows = table.take(_choose(table, {"item": item, "name": name}))
    ids = as_ids(_ids(rows["item"], item, table.label).to_list(), item_ids, "item")
    known: dict[Any, str] = {}
    for own, text in zip(ids.tolist(), rows["name"].cast(pl.String).to_list(), strict=True):
        if text and known.setdefault(own, text) != text:
            raise InputError(
                f"each item needs one name, but {table.label} calls item {own!r} both {known[own]!r} and "
                f"{text!r}; keep one of the two"
            )
    names = [known.get(own) for own in item_ids.tolist()]
    if not any(names):
        raise InputError(
            f"{table.label} must name items of the log, but holds none of its {len(names):,} ids (such as "
            f"{item_ids[:1].tolist()[0]!r}); check which column item= names"
        )
    return names


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Anybody's lists in the positions of a log."""

    lists: IntArray
    """(B, K) items, best first; -1 where a list is shorter."""
    users: IntArray
    """(B,) whose list each is."""
    log: Interactions
    """The log, with the ids it lacked where unknown ones are kept."""
    order: Literal["rank", "score", "rows"]
    """What the lists are sorted by."""
    notes: Mapping[str, int]
    """How many users and items the log lacked, how many rows repeat an item of a list or lie beyond k."""


def read_recommendations(
    source: Any,
    log: Interactions,
    *,
    user: str = "user",
    item: str = "item",
    rank: str | None = None,
    score: str | None = None,
    k: int | None = None,
    keep_unknown: bool = False,
) -> Recommendations:
    """The lists of any system: one row for each recommended item, from any source `read_interactions` takes.

    A list is sorted by its column `rank` (1 is best), else by `score` (high is best), else as the rows come;
    columns of these names are used without being named. Of an item that a list repeats the first place is
    kept; `k` cuts lists off, by default none; `notes` counts both. Ids that the log lacks are an error, or
    with `keep_unknown=True` users and items without interactions.

    >>> log = read_interactions(pl.DataFrame({"user": ["a", "b"], "item": [5, 7]}))
    >>> best = pl.DataFrame({"user": ["b", "b", "a"], "item": [7, 5, 7], "score": [0.2, 0.9, 0.4]})
    >>> found = read_recommendations(best, log)
    >>> log.user_ids[found.users].tolist(), found.lists.tolist(), found.order
    (['a', 'b'], [[1, -1], [0, 1]], 'score')
    """
    asked = {"user": user, "item": item, "rank": rank, "score": score}
    table = _open(source, {role: name for role, name in asked.items() if name is not None}, header=True)
    chosen = _choose(table, asked)
    rows = table.take(chosen)
    if rows.height == 0:
        raise InputError(f"lists need rows, but {table.label} holds none; check that it is the right source")
    columns = _clean(rows, chosen, None, table.label)
    order: Literal["rank", "score", "rows"] = "rank" if "rank" in columns else "score" if "score" in columns else "rows"
    log, user_ix, unknown_users = _place(columns["user"], log, "user", keep_unknown)
    log, item_ix, unknown_items = _place(columns["item"], log, "item", keep_unknown)
    by = np.zeros(len(user_ix)) if order == "rows" else columns[order].to_numpy()
    found = pl.DataFrame({"user": user_ix, "item": item_ix, "by": -by if order == "score" else by})
    found = found.sort("user", "by", maintain_order=True)
    n_rows = len(found)
    found = found.unique(["user", "item"], keep="first", maintain_order=True)
    repeated = n_rows - len(found)
    users, by = found["user"].to_numpy(), found["by"].to_numpy()
    shared = np.flatnonzero((users[1:] == users[:-1]) & (by[1:] == by[:-1]))
    if order == "rank" and len(shared):
        raise InputError(
            f"each place of a list must be taken once, but in {table.label} user "
            f"{log.user_ids[users[shared[:1]]].tolist()[0]!r} has two items at rank {by[shared[0]]:g}; give "
            "one list for each user"
        )
    those, starts, lengths = np.unique(users, return_index=True, return_counts=True)
    place = np.arange(len(users)) - np.repeat(starts, lengths)
    k = min(k or int(lengths.max()), log.n_items)
    kept = place < k
    lists = np.full((len(those), k), -1, dtype=np.int32)
    lists[np.repeat(np.arange(len(those)), lengths)[kept], place[kept]] = found["item"].to_numpy()[kept]
    notes = {
        "unknown_users": unknown_users,
        "unknown_items": unknown_items,
        "repeated": repeated,
        "beyond_k": len(users) - int(kept.sum()),
    }
    return Recommendations(lists, those, log, order, notes)


def _place(
    column: pl.Series, log: Interactions, what: Literal["user", "item"], keep_unknown: bool
) -> tuple[Interactions, IntArray, int]:
    """The log, where each row's id stands in it, and how many ids it lacked; they are added to it."""
    ids, ix = _index(column, None)
    known: Ids = getattr(log, f"{what}_ids")
    own = as_ids(ids, known, what)
    missing = own[~np.isin(own, known)]
    if len(missing) and (not keep_unknown or len(missing) == len(own)):
        do = (
            "check which columns hold the ids"
            if len(missing) == len(own)
            else (f"pass keep_unknown=True (--keep-unknown) to count them as {what}s without interactions")
        )
        raise InputError(
            f"every {what} with a place in a list must be in the log, but {len(missing)} of {len(own)} are "
            f"not (first: {missing[:1].tolist()[0]!r}); {do}"
        )
    if len(missing):
        every = np.unique(np.concatenate([known, missing]))
        moved = np.searchsorted(every, known).astype(np.int32)[getattr(log, f"{what}_ix")]
        log = replace(log, **{f"{what}_ids": every, f"{what}_ix": moved})
        known = every
    return log, np.searchsorted(known, own).astype(np.int32)[ix], len(np.unique(missing))


# ---------------------------------------------------------------------------------------- opening a source


def _open(source: Any, asked: dict[str, str], header: bool) -> _Table:
    """The columns on offer, and how to take some of them."""
    if isinstance(source, str | Path):
        return _open_file(Path(source), asked, header)
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return _open_frame("the polars table", source.lazy())
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        return _open_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        with _one_sentence("the Arrow table", "a table"):
            return _open_frame("the Arrow table", pl.DataFrame(source).lazy())
    if hasattr(source, "tocsr"):
        return _open_matrix(source, asked)
    raise InputError(
        f"a log must be a path, a pandas, polars or Arrow table, or a SciPy matrix, got {type(source).__name__}"
    )


def _open_file(path: Path, asked: dict[str, str], header: bool) -> _Table:
    if not path.is_file():
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'missing'}; pass the path of one log file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; pass a file with at least two users and two items")
    kind = Path(path.name.removesuffix(".gz")).suffix.removeprefix(".").lower()
    if kind not in EXTENSIONS:
        raise InputError(
            f"{path} must end in one of {', '.join('.' + e for e in EXTENSIONS)}, as the extension tells the "
            f"format; rename it, or pass a table"
        )
    if kind == "npz":
        return _open_npz(path)
    if kind == "txt":
        return _open_adjacency(path, asked)
    if kind == "parquet":
        return _open_frame(str(path), pl.scan_parquet(path, glob=False), "parquet")
    return _open_text(path, kind, asked, header or kind == "inter")


def _open_frame(label: str, frame: pl.LazyFrame, kind: str = "a table") -> _Table:
    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with _one_sentence(label, kind):
            return frame.select(pl.col(name).alias(role) for role, name in chosen.items()).collect()

    with _one_sentence(label, kind):
        return _Table(label, frame.collect_schema().names(), take)


def _open_text(path: Path, kind: str, asked: dict[str, str], header: bool) -> _Table:
    """csv, tsv or .inter. Every column is parsed, as otherwise polars lets rows with too many fields pass."""
    separator = "," if kind == "csv" else "\t"

    def scan(types: dict[str, Any] | None) -> pl.LazyFrame:
        return pl.scan_csv(
            path,
            has_header=header,
            separator=separator,
            quote_char=None if kind == "inter" else '"',
            infer_schema_length=INFERRED_ROWS if types is None else 0,
            schema_overrides=types,
            glob=False,
        )

    with _one_sentence(str(path), kind):
        schema = scan(None).collect_schema()
    inside = schema.names()
    if kind == "inter":
        names = [name.split(":")[0] for name in inside]
    elif header:
        names = inside
    else:
        names = [asked.get(role, role) for role in ("user", "item", "rating", "time")][: len(inside)]

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        found = {role: inside[names.index(name)] for role, name in chosen.items()}
        rest = [name for name in inside if name not in found.values()]
        wanted = [pl.col(name).alias(role) for role, name in found.items()]
        unread = [pl.all_horizontal(pl.col(rest).is_null()).alias("")] if rest else []
        types: dict[str, Any] = {**schema, **dict.fromkeys(rest, pl.String)}
        with _one_sentence(str(path), kind, lambda: _first_ragged(path, separator)):
            try:
                rows = scan(types).select(wanted + unread).collect()
            except pl.exceptions.ComputeError:  # a column that turns into text further down
                rows = scan(dict.fromkeys(inside, pl.String)).select(wanted + unread).collect()
                rows = rows.with_columns(_narrow(rows[role]) for role in chosen)
        while rows.height and all(value is None or value is True for value in rows.row(-1)):
            rows = rows.head(-1)  # blank lines at the end
        return rows.select(*chosen)

    hint = ", or header=False if the first line is already a row" if header and kind != "inter" else ""
    return _Table(str(path), names, take, hint)


def _narrow(column: pl.Series) -> pl.Series:
    """Text as integers or floats where every value is one."""
    for kind in (pl.Int64, pl.Int128, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    return column


def _first_ragged(path: Path, separator: str) -> str:
    """Where a line has more fields than the first one, in words; empty if nowhere."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        lines = csv.reader((line.decode(errors="replace") for line in file), delimiter=separator)
        width = len(next(lines))
        for fields in lines:
            if len(fields) > width:
                return f"line {lines.line_num} has {len(fields)} fields where line 1 has {width}"
    return ""


def _open_npz(path: Path) -> _Table:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an npz file, or is cut short; write it again with numpy.savez")

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with _one_sentence(str(path), "npz"), np.load(path, allow_pickle=False) as archive:
            arrays = {role: archive[name] for role, name in chosen.items()}
        shapes = {chosen[role]: array.shape for role, array in arrays.items()}
        if len(set(shapes.values())) > 1 or arrays["user"].ndim != 1:
            raise InputError(f"the arrays of {path} must be flat and of one length, got the shapes {shapes}")
        for role in ("user", "item"):
            if arrays[role].dtype.kind in "if" and len(bad := np.flatnonzero(arrays[role] < 0)):
                raise _bad_row(chosen[role], bad[0], arrays[role][bad[0]], str(path), "a position from 0 up")
        return pl.DataFrame(arrays)

    with _one_sentence(str(path), "npz"), np.load(path, allow_pickle=False) as archive:
        return _Table(str(path), list(archive.files), take)


def _open_adjacency(path: Path, asked: dict[str, str]) -> _Table:
    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with _one_sentence(str(path), "text"):
            lines = pl.Series(path.read_text(encoding="utf-8").splitlines(), dtype=pl.String)
        if lines.len() and lines.str.contains("\t").all():
            raise InputError(
                f'{path} looks like a table with tabs, but .txt is read as lines "user item item ..."; '
                "rename it to .tsv"
            )
        words = pl.DataFrame({"words": lines.str.extract_all(r"\S+")}).with_row_index("line", 1)
        words = words.filter(pl.col("words").list.len() > 0)
        alone = words.filter(pl.col("words").list.len() == 1)
        if alone.height:
            raise InputError(
                f"each line of {path} must hold a user and its items, but line {alone['line'][0]} holds only "
                f"{alone['words'][0][0]!r}; leave that line out"
            )
        pairs = words.select(pl.col("words").list.first().alias("user"), pl.col("words").list.slice(1).alias("item"))
        pairs = pairs.explode("item")
        return pairs.select(_narrow(pairs["user"]), _narrow(pairs["item"]))

    return _Table(str(path), [asked["user"], asked["item"]], take)


def _open_pandas(frame: Any) -> _Table:
    """Column by column through NumPy, as the frame's own way to Arrow needs pyarrow."""
    labels = {str(label): label for label in frame.columns}
    if len(labels) < len(frame.columns):
        raise InputError(f"the pandas table must name each column once, got {list(frame.columns)}; rename some")

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with _one_sentence("the pandas table", "a table"):
            return pl.DataFrame({role: _from_pandas(frame[labels[name]]) for role, name in chosen.items()})

    return _Table("the pandas table", list(labels), take)


def _from_pandas(column: Any) -> pl.Series:
    if column.dtype.kind == "M":
        return pl.Series(column.to_numpy(dtype="datetime64[us]"))  # aware times come out in UTC
    values = column.to_numpy()
    if values.dtype.kind != "O":
        return pl.Series(values)
    values = [None if gap else value for gap, value in zip(column.isna(), values.tolist(), strict=True)]
    if all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in values):
        return pl.Series(values, dtype=pl.Int64)
    return pl.Series([value if value is None else str(value) for value in values], dtype=pl.String)


def _open_matrix(matrix: Any, asked: dict[str, str]) -> _Table:
    pairs = matrix.tocsr().copy()
    pairs.sum_duplicates()
    pairs.eliminate_zeros()
    pairs = pairs.tocoo()

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        arrays = {"user": pairs.row, "item": pairs.col, "rating": pairs.data}
        return pl.DataFrame({role: arrays[role] for role in chosen})

    names = [asked["user"], asked["item"], asked.get("rating", "rating")]
    return _Table("the SciPy matrix", names, take, shape=matrix.shape)


def _choose(table: _Table, asked: dict[str, str | None]) -> dict[str, str]:
    """{role: column of the table} for every role asked for, and for columns called split, rank or score."""
    chosen = {}
    for role, name in asked.items():
        if name is None and role in ("split", "rank", "score") and role in table.names:
            name = role
        elif name == role in ("user", "item") and role not in table.names and f"{role}_id" in table.names:
            name = f"{role}_id"
        if name is None:
            continue
        if name not in table.names:
            raise InputError(
                f"{table.label} has no column {name!r}, only {', '.join(map(repr, table.names))}; pass the "
                f"right one as {role}={table.hint}"
            )
        chosen[role] = name
    return chosen


@contextmanager
def _one_sentence(label: str, kind: str, explain: Callable[[], str] = str) -> Iterator[None]:
    """Failures of the libraries below, as one sentence of ours."""
    try:
        yield
    except InputError:
        raise
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        EOFError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as failure:
        reason = explain() or str(failure).strip().split("\n")[0].rstrip(".")
        if "allow_pickle" in reason:
            reason = "it holds pickled objects, which could run code; save plain arrays"
        raise InputError(f"{label} could not be read as {kind}: {reason}; write it again or repair it") from None


# ------------------------------------------------------------------------------------- reading the columns


def _clean(rows: pl.DataFrame, chosen: dict[str, str], min_rating: float | None, label: str) -> dict[str, pl.Series]:
    """User, item and, where asked for, time and split, each in its final type; low ratings left out."""
    columns = {role: _CLEANERS[role](rows[role], name, label) for role, name in chosen.items()}
    ratings = columns.pop("rating", None)
    if ratings is None or min_rating is None:
        return columns
    kept = ratings >= min_rating
    if not kept.any():
        raise InputError(
            f"no row of {label} has a {chosen['rating']!r} of {min_rating} or more (the highest is "
            f"{ratings.to_numpy().max()}); lower min_rating"
        )
    return {role: column.filter(kept) for role, column in columns.items()}


def _bad_row(name: Any, row: Any, value: Any, label: str, must: str) -> InputError:
    return InputError(
        f"column {name!r} of {label} must hold {must} in every row, but row {int(row) + 1} holds "
        f"{'nothing' if value is None or value == '' else repr(getattr(value, 'item', lambda: value)())}; "
        f"correct that row or leave it out"
    )


def _check(bad: pl.Series, column: pl.Series, name: str, label: str, must: str) -> None:
    """Raises for the first row that is marked."""
    if bad.any():
        row = bad.arg_max() or 0
        raise _bad_row(name, row, column[row], label, must)


def _ids(column: pl.Series, name: str, label: str) -> pl.Series:
    """The column as Int64 or String, without gaps."""
    _check(column.is_null(), column, name, label, "an id")
    if column.dtype.is_float():
        column = column.cast(pl.Float64)
        bad = ~((column.floor() == column) & (column.abs() <= EXACT))  # to polars, NaN is above every number
        _check(bad, column, name, label, "a whole number as id (or text)")
        return column.cast(pl.Int64)
    if column.dtype.is_integer():
        fits = column.cast(pl.Int64, strict=False)
        return fits if fits.null_count() == 0 else column.cast(pl.String)
    if column.dtype == pl.Binary:
        if (column.bin.size() == 16).all():
            parts = [
                column.bin.encode("hex").str.slice(at, n) for at, n in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))
            ]
            return pl.select(pl.concat_str(parts, separator="-")).to_series()
        text = column.cast(pl.String, strict=False)
        _check(text.is_null(), column, name, label, "UTF-8 text or the 16 bytes of a UUID as id")
        column = text
    if column.dtype.is_nested() or column.dtype == pl.Object:
        raise InputError(
            f"column {name!r} of {label} must hold numbers or text as ids, got {column.dtype}; pass another"
        )
    column = column.cast(pl.String)
    _check(column == "", column, name, label, "an id")
    return column


def _numbers(column: pl.Series, name: str, label: str) -> pl.Series:
    """The column as finite Float64."""
    with _one_sentence(f"column {name!r} of {label}", "numbers"):
        numbers = column.cast(pl.Float64, strict=False)
    _check(~numbers.is_finite().fill_null(False), column, name, label, "a number")
    return numbers


def _seconds(column: pl.Series, name: str, label: str) -> pl.Series:
    """Numbers as they are; dates and ISO 8601 text as seconds since 1970."""
    if column.dtype in (pl.Date, pl.Datetime):
        _check(column.is_null(), column, name, label, "a time")
        return column.cast(pl.Datetime("us")).cast(pl.Int64) / 1e6
    if column.dtype != pl.String or column.cast(pl.Float64, strict=False).null_count() == column.null_count():
        return _numbers(column, name, label)
    bare = column.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
    seconds = (bare.cast(pl.Int64) / 1e6).to_numpy().copy()
    for row in bare.is_null().arg_true():
        try:
            moment = datetime.fromisoformat(column[row] or "")
        except ValueError:
            raise _bad_row(name, row, column[row], label, "a number, date or ISO 8601 text") from None
        seconds[row] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return pl.Series(seconds)


def _parts(column: pl.Series, name: str, label: str) -> pl.Series:
    """The log's own split as 0 train, 1 intervened, 2 validation, 3 test."""
    if column.dtype.is_numeric():
        known: dict[Any, int] = {float(part): part for part in range(4)}
        column = column.cast(pl.Float64)
    else:
        known = PARTS
        with _one_sentence(f"column {name!r} of {label}", "a split"):
            column = column.cast(pl.String).str.to_lowercase()
    parts = column.replace_strict(known, default=None, return_dtype=pl.Int8)
    _check(parts.is_null(), column, name, label, "0 to 3, or train, intervened, valid or test,")
    return parts


_CLEANERS = {
    "user": _ids,
    "item": _ids,
    "rating": _numbers,
    "time": _seconds,
    "split": _parts,
    "rank": _numbers,
    "score": _numbers,
}


# ------------------------------------------------------------------------------------ from ids to positions


def _index(column: pl.Series, size: int | None) -> tuple[Ids, IntArray]:
    """The ids in rising order and every row's position among them; a `size` says that ids are positions."""
    if size is not None:
        return np.arange(size), column.to_numpy().astype(np.int32)
    if column.dtype == pl.String:
        known, ix = _index_by_hash(column)
        return known.to_numpy().astype(object), ix
    ids = column.to_numpy()
    low, high = int(ids.min()), int(ids.max())
    if high - low >= SPREAD * len(ids):
        known, ix = _index_by_hash(column)
        return known.to_numpy(), ix
    ids = ids - low
    seen = np.zeros(high - low + 1, dtype=bool)
    seen[ids] = True
    rank = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(seen) + low, rank[ids]


def _index_by_hash(column: pl.Series) -> tuple[pl.Series, IntArray]:
    """As `_index`. Hashes are several times as fast as strings; that no two ids share one is checked."""
    hashes = column.hash()
    known = column.gather(hashes.arg_unique()).sort()
    ix = _find(hashes.to_numpy(), known.hash().to_numpy())
    if (known.gather(ix) == column).all():
        return known, ix
    known = column.unique().sort()
    return known, known.search_sorted(column).to_numpy().astype(np.int32)


def _find(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> IntArray:
    """Where each hash stands in `known`: by a table of its first bits, then the few that share a slot."""
    bits = min(len(known).bit_length() + 4, 26)
    shift = np.uint64(64 - bits)
    slots = np.zeros(1 << bits, dtype=np.int32)
    slots[known >> shift] = np.arange(len(known), dtype=np.int32)
    ix = np.empty(len(hashes), dtype=np.int32)
    order = np.argsort(known)
    for start in range(0, len(hashes), BLOCK):
        block = hashes[start : start + BLOCK]
        found = slots[block >> shift]
        late = np.flatnonzero(known[found] != block)
        found[late] = order[np.searchsorted(known, block[late], sorter=order)]
        ix[start : start + BLOCK] = found
    return ix


def _merge(
    user_ids: Ids, item_ids: Ids, user_ix: IntArray, item_ix: IntArray, columns: dict[str, pl.Series]
) -> Interactions:
    """Rows sorted by user and item, each pair once: the latest time, the earliest part."""
    key: NDArray[np.int64] = user_ix.astype(np.int64)
    key *= len(item_ids)
    key += item_ix
    rows = pl.DataFrame({"key": key, **columns})
    if not bool((key[1:] >= key[:-1]).all()):
        rows = rows.sort("key")
        key = rows["key"].to_numpy()
    fresh = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    n_rows, n_pairs = len(key), int(np.count_nonzero(fresh))

    user_ix, item_ix = np.empty(n_pairs, dtype=np.int32), np.empty(n_pairs, dtype=np.int32)
    at = 0
    for start in range(0, n_rows, BLOCK):
        pairs = key[start : start + BLOCK][fresh[start : start + BLOCK]]
        users = pairs // len(item_ids)
        user_ix[at : at + len(pairs)] = users
        item_ix[at : at + len(pairs)] = pairs - users * len(item_ids)
        at += len(pairs)
    starts = np.flatnonzero(fresh) if columns else np.empty(0, dtype=np.intp)
    return Interactions(
        user_ix,
        item_ix,
        user_ids,
        item_ids,
        time=np.maximum.reduceat(rows["time"].to_numpy(), starts) if "time" in columns else None,
        part=np.minimum.reduceat(rows["split"].to_numpy(), starts) if "split" in columns else None,
        merged=n_rows - n_pairs,
    )
