"""Every format against a plain dict, and the message for every kind of bad input."""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Interactions
from counterpop.readers import Recommendations, read_interactions, read_names, read_recommendations, recommendations
from counterpop.readers.ids import BLOCK, find_hashes
from counterpop.readers.text import INFERRED_ROWS

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

DATA = Path(os.environ.get("COUNTERPOP_DATA", Path(__file__).parents[2] / "shared" / "data"))

USERS = [10, 7, 10, 7, 300]
ITEMS = ["b", "a", "a", "a", "c"]
PAIRS = {(7, "a"), (10, "a"), (10, "b"), (300, "c")}


def pairs(log: Interactions) -> list[tuple[Any, Any]]:
    return list(zip(log.user_ids[log.user_ix].tolist(), log.item_ids[log.item_ix].tolist(), strict=True))


def table(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": USERS, "item": ITEMS, **columns})


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def as_csv(folder: Path) -> Any:
    table().write_csv(folder / "log.csv")
    return folder / "log.csv"


def as_gz(folder: Path) -> Any:
    return write(folder, "log.csv.gz", gzip.compress(as_csv(folder).read_bytes()))


def as_tsv(folder: Path) -> Any:
    table().write_csv(folder / "log.tsv", separator="\t")
    return str(folder / "log.tsv")


def as_parquet(folder: Path) -> Any:
    table().write_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def as_inter(folder: Path) -> Any:
    rows = "".join(f'{u}\t{i}\t3.5\t"odd\n' for u, i in zip(USERS, ITEMS, strict=True))
    return write(folder, "log.inter", "user_id:token\titem_id:token\tweight:float\tnote:token\n" + rows)


def as_npz(folder: Path) -> Any:
    np.savez(folder / "log.npz", user=np.array(USERS, dtype=np.int32), item=np.array(ITEMS))
    return folder / "log.npz"


def as_adjacency(folder: Path) -> Any:
    return write(folder, "log.txt", "10 b a\n7\ta  a\n\n300 c\n")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": as_csv,
    "csv.gz": as_gz,
    "tsv": as_tsv,
    "parquet": as_parquet,
    "inter": as_inter,
    "npz": as_npz,
    "txt": as_adjacency,
    "pandas": lambda _: pd.DataFrame({"user": USERS, "item": ITEMS}),
    "pandas objects": lambda _: pd.DataFrame({"user": USERS, "item": ITEMS}, dtype=object),
    "pandas nullable": lambda _: pd.DataFrame({"user": USERS, "item": ITEMS}).convert_dtypes(),
    "polars": lambda _: table(),
    "lazy": lambda _: table().lazy(),
    "categorical": lambda _: table().with_columns(pl.col("item").cast(pl.Categorical)),
    "arrow": lambda _: pa.table({"user": pa.array(USERS, pa.uint16()), "item": ITEMS}),
    "arrow dictionary": lambda _: pa.table({"user": USERS, "item": pa.array(ITEMS).dictionary_encode()}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_log(source: str, tmp_path: Path) -> None:
    log = read_interactions(SOURCES[source](tmp_path))
    assert pairs(log) == sorted(PAIRS)
    assert log.merged == 1
    assert log.user_ids.dtype == np.int64 and log.user_ids.tolist() == [7, 10, 300]
    assert log.item_ids.dtype == object and log.item_ids.tolist() == ["a", "b", "c"]
    assert log.user_ix.dtype == log.item_ix.dtype == np.int32
    assert log.time is None and log.part is None


# ------------------------------------------------------------------------------------- against a plain dict

ids = st.one_of(
    st.lists(st.integers(-3, 12), min_size=2, unique=True),
    st.lists(st.integers(-(2**62), 2**62), min_size=2, unique=True),
    st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1), min_size=2, unique=True),
)


@st.composite
def logs(draw: st.DrawFn) -> dict[str, list[Any]]:
    users, items = draw(ids), draw(ids)
    n = draw(st.integers(0, 40))
    return {
        "user": users[:2] + draw(st.lists(st.sampled_from(users), min_size=n, max_size=n)),
        "item": items[:2] + draw(st.lists(st.sampled_from(items), min_size=n, max_size=n)),
        "time": draw(st.lists(st.integers(0, 5), min_size=n + 2, max_size=n + 2)),
        "split": draw(st.lists(st.integers(0, 3), min_size=n + 2, max_size=n + 2)),
    }


def dict_model(rows: dict[str, list[Any]]) -> dict[tuple[Any, Any], tuple[float, int]]:
    model: dict[tuple[Any, Any], tuple[float, int]] = {}
    for user, item, time, part in zip(*rows.values(), strict=True):
        before = model.get((user, item), (time, part))
        model[user, item] = (max(before[0], time), min(before[1], part))
    return model


@settings(max_examples=80)
@given(rows=logs(), seed=st.integers(0, 9), how=st.sampled_from(["polars", "parquet", "pandas", "npz"]))
def test_log_equals_a_dict_for_any_order_of_rows(
    rows: dict[str, list[Any]], seed: int, how: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    order = np.random.default_rng(seed).permutation(len(rows["user"]))
    frame = pl.DataFrame(rows)[order.tolist()]
    source: Any = frame
    if how == "parquet":
        source = tmp_path_factory.mktemp("logs") / "log.parquet"
        frame.write_parquet(source)
    elif how == "pandas":
        source = pd.DataFrame({name: np.array(rows[name], dtype=object)[order] for name in rows})
    elif how == "npz" and all(frame[side].dtype != pl.Int64 or min(rows[side]) >= 0 for side in ("user", "item")):
        source = tmp_path_factory.mktemp("logs") / "log.npz"
        np.savez(source, **{name: np.array(rows[name])[order] for name in rows})
    model = dict_model(rows)
    log = read_interactions(source, time="time")
    assert log.time is not None and log.part is not None
    assert dict(zip(pairs(log), zip(log.time.tolist(), log.part.tolist(), strict=True), strict=True)) == model
    assert pairs(log) == sorted(model)
    assert log.user_ids.tolist() == sorted(set(rows["user"]))
    assert log.item_ids.tolist() == sorted(set(rows["item"]))
    assert log.merged == len(order) - len(model)
    without = read_interactions(frame.select("user", "item"))
    assert pairs(without) == pairs(log) and without.merged == log.merged


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_that_share_a_hash_stay_distinct(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [5 * 10**12, 3, 9 * 10**15, 3, 5 * 10**12]
    users = numbers if kind == "int" else [str(n) for n in numbers]
    plain = read_interactions(pl.DataFrame({"user": users, "item": ITEMS}))
    monkeypatch.setattr(pl.Series, "hash", lambda s: pl.Series(np.zeros(len(s), dtype=np.uint64)))
    log = read_interactions(pl.DataFrame({"user": users, "item": ITEMS}))
    assert pairs(log) == pairs(plain) == sorted(set(zip(users, ITEMS, strict=True)))


def test_hashes_that_share_a_slot_are_all_found() -> None:
    rng = np.random.default_rng(0)
    known = np.unique(np.concatenate([np.arange(1000), rng.integers(0, 2**63, 5000)]).astype(np.uint64))
    rng.shuffle(known)
    asked = rng.integers(0, len(known), 3 * BLOCK // 2)
    assert np.array_equal(find_hashes(known[asked], known), asked)


def test_logs_longer_than_a_block_are_complete() -> None:
    rng = np.random.default_rng(1)
    n = 2 * BLOCK + 17
    users, items = rng.integers(0, 900, n), rng.integers(0, 700, n)
    log = read_interactions(pl.DataFrame({"user": users, "item": items}))
    expected = np.unique(users * 700 + items)
    assert np.array_equal(log.user_ids[log.user_ix] * 700 + log.item_ids[log.item_ix], expected)
    assert log.merged == n - len(expected)


# ------------------------------------------------------------------------------------------------- columns


def test_defaults_also_find_user_id_and_item_id() -> None:
    frame = pl.DataFrame({"user_id": USERS, "item_id": ITEMS, "shop": ["x", "y", "x", "y", "z"]})
    assert set(pairs(read_interactions(frame))) == PAIRS
    assert read_interactions(frame, item="shop").item_ids.tolist() == ["x", "y", "z"]
    both = frame.with_columns(pl.lit(1).alias("user") + pl.int_range(5))
    assert read_interactions(both).user_ids.tolist() == [1, 2, 3, 4, 5]


def test_columns_without_a_header_are_read_by_position(tmp_path: Path) -> None:
    path = write(tmp_path, "u.tsv", "1\t5\t3\t100\n2\t6\t4\t200\n1\t6\t5\t300\n")
    log = read_interactions(path, header=False, user="u", min_rating=3, time="when")
    assert pairs(log) == [(1, 5), (1, 6), (2, 6)]
    assert log.time is not None and log.time.tolist() == [100, 300, 200]


def test_low_ratings_are_dropped_before_ids_are_counted() -> None:
    log = read_interactions(table(stars=[5.0, 1.0, 4.5, 2.0, 4.0]), rating="stars", min_rating=4)
    assert pairs(log) == [(10, "a"), (10, "b"), (300, "c")]
    assert log.user_ids.tolist() == [10, 300] and log.merged == 0


def test_ratings_that_are_ignored_are_reported(tmp_path: Path) -> None:
    rated = table(rating=[5.0, 1.0, 4.5, 2.0, 4.0])
    rated.write_csv(tmp_path / "log.csv")
    rated.write_csv(tmp_path / "bare.tsv", separator="\t", include_header=False)
    rated.write_parquet(tmp_path / "log.parquet")
    np.savez(tmp_path / "log.npz", user=USERS, item=ITEMS, rating=[5, 1, 4, 2, 4])
    for source in (rated, tmp_path / "log.csv", tmp_path / "log.parquet", tmp_path / "log.npz"):
        with pytest.warns(
            CounterpopWarning, match="ratings of .*'rating'.* ignored.*min_rating= .--min-rating"
        ) as seen:
            assert len(read_interactions(source)) == 4
        assert len(seen) == 1 and Path(seen[0].filename) == Path(__file__)
        assert len(read_interactions(source, min_rating=4)) == 3
    with pytest.warns(CounterpopWarning, match="ratings of .*bare.tsv"):
        assert set(pairs(read_interactions(tmp_path / "bare.tsv", header=False))) == PAIRS
    with pytest.warns(CounterpopWarning, match=r"the polars table \(column 'stars'\) were ignored"):
        assert len(read_interactions(rated.rename({"rating": "stars"}), rating="stars")) == 4


def test_inter_files_have_their_times_and_ratings(tmp_path: Path) -> None:
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    lines += ["196\t242\t3\t881250949", "186\t302\t3\t891717742", "22\t377\t1\t878887116", "196\t302\t5\t881250950"]
    path = write(tmp_path, "ml.inter", "\n".join(lines))
    with pytest.warns(CounterpopWarning, match="ratings of .*ml.inter .* were ignored"):
        log = read_interactions(path)
    assert pairs(log) == [(22, 377), (186, 302), (196, 242), (196, 302)]
    assert log.time is not None and log.time.tolist() == [878887116, 891717742, 881250949, 881250950]
    assert pairs(read_interactions(path, min_rating=3)) == [(186, 302), (196, 242), (196, 302)]
    assert read_interactions(path, min_rating=3, time=False).time is None


# ------------------------------------------------------------------------------------- text: lists or rows

CONSTANT = "196 242 1\n186 302 1\n22 377 1\n196 302 1\n186 377 1\n"  # every line has a 1 that is no item
RATED = "196 242 3 881250949\n186 302 3 891717742\n22 377 1 878887116\n196 302 5 881250950\n"
LIGHTGCN = "0 10 11 12\n1 11\n2 10 12 13 14\n"  # one line for each user, as in LightGCN's train.txt
ALIKE = "0 10 12\n1 11 10\n2 12 11\n"  # lists of two items each
LISTED = [(196, 242), (196, 302), (186, 302), (186, 377), (22, 377)]


def test_a_third_column_of_ones_is_no_item(tmp_path: Path) -> None:
    for text in (CONSTANT, CONSTANT.replace(" ", "\t"), CONSTANT.replace(" 1\n", " click\n")):
        with pytest.warns(CounterpopWarning) as seen:
            log = read_interactions(write(tmp_path, "log.txt", text))
        assert pairs(log) == sorted(LISTED)
        note = str(seen[0].message)
        assert "log.txt have 3 columns and users repeat, so the third was taken for a rating and ignored" in note
        assert "(--min-rating)" in note and "header='lists' (--lists)" in note and len(seen) == 1
    path = write(tmp_path, "log.txt", CONSTANT)
    assert pairs(read_interactions(path, min_rating=1)) == sorted(LISTED)
    with pytest.warns(CounterpopWarning, match="ignored") as seen:
        assert pairs(read_interactions(path, header=False)) == sorted(LISTED)
    assert len(seen) == 1
    ones = [(user, 1) for user in (22, 186, 196)]
    assert pairs(read_interactions(path, header="lists")) == sorted(LISTED + ones)


def test_ratings_and_times_of_text_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "log.txt", RATED)
    with pytest.warns(CounterpopWarning, match="4 columns .* and ignored, like all columns after it"):
        assert len(read_interactions(path)) == 4
    log = read_interactions(path, min_rating=3, time="when")
    assert pairs(log) == [(186, 302), (196, 242), (196, 302)]
    assert log.time is not None and log.time.tolist() == [891717742, 881250949, 881250950]
    timed = write(tmp_path, "timed.txt", "196 242 881250949\n186 302 891717742\n196 302 881250950\n")
    log = read_interactions(timed, time="time")
    assert pairs(log) == [(186, 302), (196, 242), (196, 302)]
    assert log.time is not None and log.time.tolist() == [891717742, 881250949, 881250950]
    halves = write(tmp_path, "halves.txt", "1 10 0.5\n2 11 4.5\n3 12 4.0\n")  # decimals are no ids
    with pytest.warns(CounterpopWarning, match="the third holds decimals, so the third was taken for a rating"):
        assert pairs(read_interactions(halves)) == [(1, 10), (2, 11), (3, 12)]
    named = write(tmp_path, "named.txt", "who what stars\n1 10 5\n2 11 4\n1 12 1\n")
    log = read_interactions(named, user="who", item="what", rating="stars", min_rating=4)
    assert pairs(log) == [(1, 10), (2, 11)]
    assert pairs(read_interactions(write(tmp_path, "b.txt", "user_id item_id\n1 10\n2 11\n"))) == [(1, 10), (2, 11)]


def test_lists_of_items_stay_readable(tmp_path: Path) -> None:
    for how in (None, "lists"):
        log = read_interactions(write(tmp_path, "train.txt", LIGHTGCN), header=how)
        assert pairs(log) == [(0, 10), (0, 11), (0, 12), (1, 11), (2, 10), (2, 12), (2, 13), (2, 14)]
    alike = write(tmp_path, "test.txt", ALIKE)
    with pytest.warns(CounterpopWarning, match="no user repeats, so each was read as a user and items; .*--no-header"):
        log = read_interactions(alike)
    assert pairs(log) == [(0, 10), (0, 12), (1, 10), (1, 11), (2, 11), (2, 12)]
    assert pairs(read_interactions(alike, header="lists")) == pairs(log)
    with pytest.warns(CounterpopWarning, match="ignored"):
        assert pairs(read_interactions(alike, header=False)) == [(0, 10), (1, 11), (2, 12)]


@pytest.mark.parametrize(
    "text",
    [
        "0 10 1\n1 11 1\n2 12 1\n",  # one row, or one list, for each user
        "0 10 5\n1 11 3\n2 12 4\n",
        "0 10 881250949\n1 11 891717742\n2 12 878887116\n",
        "0 10 17\n0 11 350\n2 12 4\n",  # counts of plays
        "0 10 view\n0 11 buy\n2 12 view\n",
        "0 10 5\n0 11\n2 12 4\n",
        "0 10 5 881250949\n1 11 3 881250949\n2 12 4 881250950\n",
    ],
)
def test_unclear_text_is_refused_with_a_question_that_can_be_answered(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "log.txt", text)
    with pytest.raises(InputError, match=r"must be clear what the third column .* is, .*\(first line: '0 10") as caught:
        read_interactions(path)
    for answer in ("header=False (--no-header)", "time='time' (split: --time time)", "header='lists' (--lists)"):
        assert answer in str(caught.value)
    words = [line.split() for line in text.splitlines()]
    lists = {(user, item) for user, *items in words for item in items}
    assert {(str(u), str(i)) for u, i in pairs(read_interactions(path, header="lists"))} == lists
    if len({len(line) for line in words}) == 1:
        with pytest.warns(CounterpopWarning, match="ignored"):
            log = read_interactions(path, header=False)
        assert {(str(u), str(i)) for u, i in pairs(log)} == {(user, item) for user, item, *_ in words}


def test_every_answer_about_text_is_checked(tmp_path: Path) -> None:
    ragged = write(tmp_path, "train.txt", LIGHTGCN)
    with pytest.raises(InputError, match="line 2 has 2 and the first has 4; correct that line, or pass header='lists'"):
        read_interactions(ragged, min_rating=3)
    with pytest.raises(InputError, match="no column 'rating', only 'user', 'item'"):
        read_interactions(ragged, header="lists", min_rating=3)
    with pytest.raises(InputError, match=r"must be in a \.txt file, but .*log.csv is csv"):
        read_interactions(as_csv(tmp_path), header="lists")
    with pytest.raises(InputError, match=r"tab-separated columns, .*rename it to \.tsv"):
        read_interactions(write(tmp_path, "tabs.txt", ALIKE.replace(" ", "\t")))
    unnamed = write(tmp_path, "unnamed.txt", "userID artistID weight\n2 51 13883\n2 52 11690\n3 51 12\n")
    with pytest.raises(
        InputError, match=r"pass user= \(--user\) and item= \(--item\) if the first line names the columns"
    ):
        read_interactions(unnamed)
    assert len(read_interactions(unnamed, user="userID", item="artistID")) == 3


def test_a_repeated_pair_keeps_its_latest_time_and_earliest_part() -> None:
    log = read_interactions(
        table(t=[1, 2, 3, 9, 4], fold=["test", "valid", "Train", "intervened", "validation"]), time="t", split="fold"
    )
    assert pairs(log) == sorted(PAIRS)
    assert log.time is not None and log.time.tolist() == [9, 3, 1, 4]
    assert log.part is not None and log.part.tolist() == [1, 0, 3, 2] and log.part.dtype == np.int8


NOON = datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "times",
    [
        [NOON] * 5,
        [f"{NOON}"] * 5,
        ["2024-02-29T12:00:00", "2024-02-29 12:00:00", "2024-02-29T12:00:00Z", "2024-02-29T14:00+02:00", "20240229T12"],
        [datetime(2024, 2, 29, 12)] * 5,
        pl.Series([datetime(2024, 2, 29, 12)] * 5, dtype=pl.Datetime("ns")).dt.replace_time_zone("UTC"),
        pl.Series([datetime(2024, 2, 29, 14)] * 5).dt.replace_time_zone("Africa/Cairo"),
    ],
    ids=["number", "text number", "iso", "datetime", "utc", "zone"],
)
def test_times_become_seconds(times: Any) -> None:
    log = read_interactions(table(t=times), time="t")
    assert log.time is not None and log.time.tolist() == [NOON] * 4


def test_dates_and_pandas_times_become_seconds() -> None:
    log = read_interactions(table(t=[date(1970, 1, 2)] * 5), time="t")
    assert log.time is not None and log.time.tolist() == [86400.0] * 4
    for stamp in ("2024-02-29 12:00", "2024-02-29 14:00+02:00"):
        frame = pd.DataFrame({"user": USERS, "item": ITEMS, "t": pd.to_datetime([stamp] * 5)})
        log = read_interactions(frame, time="t")
        assert log.time is not None and log.time.tolist() == [NOON] * 4


# ----------------------------------------------------------------------------------------------------- ids


def test_uuids_as_text_from_pandas_and_parquet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    users = [uuid.UUID(bytes=rng.bytes(16)) for _ in USERS]
    binary = pa.table({"user": pa.array([u.bytes for u in users], pa.binary(16)), "item": ITEMS})
    pl.DataFrame(binary).write_parquet(tmp_path / "log.parquet")
    expected = sorted(str(u) for u in users)
    assert read_interactions(pd.DataFrame({"user": users, "item": ITEMS})).user_ids.tolist() == expected
    assert read_interactions(binary).user_ids.tolist() == expected
    log = read_interactions(tmp_path / "log.parquet")
    assert log.user_ids.tolist() == expected
    assert log.user_positions(users).tolist() == [expected.index(str(u)) for u in users]


def test_other_kinds_of_ids(tmp_path: Path) -> None:
    big = [2**63 + 5, 1, 2, 3, 4]
    text = "user,item\n" + "".join(f"{u},{i}\n" for u, i in zip(big, ITEMS, strict=True))
    frame = pl.DataFrame({"user": pl.Series(big, dtype=pl.UInt64), "item": ITEMS})
    for source in (frame, pd.DataFrame({"user": big, "item": ITEMS}), write(tmp_path, "log.csv", text)):
        assert str(2**63 + 5) in read_interactions(source).user_ids.tolist()
    whole = read_interactions(table(user=[10.0, 7.0, 10.0, 7.0, 300.0]))
    assert whole.user_ids.dtype == np.int64 and set(pairs(whole)) == PAIRS
    raw = read_interactions(table(item=[b"b", b"a", b"a", b"a", b"c"]))
    assert set(pairs(raw)) == PAIRS


def test_text_column_that_changes_its_type_far_down(tmp_path: Path) -> None:
    rows = [(n % 50, n % 30, 0) for n in range(INFERRED_ROWS + 10)] + [("x", 3, "note")]
    path = write(tmp_path, "log.csv", "user,item,rest\n" + "".join(f"{u},{i},{r}\n" for u, i, r in rows))
    log = read_interactions(path)
    assert set(pairs(log)) == {(str(u), i) for u, i, _ in rows}


def test_quotes_byte_order_mark_line_ends_and_trailing_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "log.csv", b'\xef\xbb\xbfuser,item\r\n1,"a,b"\r\n2,"c ""d"""\r\n1,1\r\n\r\n\r\n')
    assert pairs(read_interactions(path)) == [(1, "1"), (1, "a,b"), (2, 'c "d"')]
    ones = write(tmp_path, "ones.csv", "user,item\n2,2\n1,1\n")  # 1 equals True, but the line is not blank
    assert pairs(read_interactions(ones)) == [(1, 1), (2, 2)]


def test_matrix_positions_are_ids_and_stored_zeros_are_ignored() -> None:
    matrix = sp.coo_matrix(([5.0, 0.0, 2.0, 1.0, 1.0], ([0, 1, 3, 3, 3], [4, 0, 1, 2, 2])), shape=(5, 6))
    for made in (matrix, matrix.tocsc(), sp.csr_array(matrix)):
        log = read_interactions(made)
        assert pairs(log) == [(0, 4), (3, 1), (3, 2)]
        assert log.n_users == 5 and log.n_items == 6
        assert pairs(read_interactions(made, min_rating=3)) == [(0, 4)]


def test_reading_a_file_imports_no_other_table_library(tmp_path: Path) -> None:
    code = (
        "import sys; from counterpop.readers import read_interactions; read_interactions(sys.argv[1]);"
        "print([m for m in ('pandas', 'pyarrow', 'scipy', 'torch', 'numba') if m in sys.modules])"
    )
    for source in (as_parquet(tmp_path), as_csv(tmp_path), as_npz(tmp_path)):
        command = [sys.executable, "-c", code, str(source)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------------ bad input


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "log.npz", **arrays)
    return folder / "log.npz"


def cut(path: Path, share: float = 0.6) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    return path


def damaged_parquet(folder: Path) -> Path:
    """A page of -6 values, which ends the process in polars 2.1."""
    path = as_parquet(folder)
    content = path.read_bytes()
    header = bytes([0x2C, 0x15, 2 * table().height])  # the struct of a data page, its number of values, 5 in zigzag
    assert header in content
    path.write_bytes(content.replace(header, bytes([0x2C, 0x15, 2 * table().height + 1])))
    return path


def damaged_npz(folder: Path) -> Path:
    path = folder / "log.npz"
    np.savez_compressed(path, user=np.arange(1000) * 7919 % 1013, item=np.arange(1000))
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("user.npy").header_offset
    content = bytearray(path.read_bytes())
    content[at + 200 : at + 300] = bytes(100)
    path.write_bytes(content)
    return path


BAD: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "missing file": (lambda d: d / "no.csv", {}, r"no\.csv is missing; pass"),
    "folder": (lambda d: d, {}, "is a folder without parquet files; pass"),
    "extension": (lambda d: write(d, "log.docx", "x"), {}, r"log\.docx must end in one of \.csv, .*rename"),
    "empty": (lambda d: write(d, "log.csv", ""), {}, "is empty; pass a file"),
    "blank": (lambda d: write(d, "log.csv", "\n\n"), {}, "log.csv has no column 'user'|log.csv could not be read"),
    "header only": (lambda d: write(d, "log.csv", "user,item\n"), {}, "must hold rows, but .*log.csv holds none"),
    "no user column": (as_csv, {"user": "who"}, "no column 'who', only 'user', 'item'; .* user=, or header=False"),
    "no time column": (lambda d: table(), {"time": "t"}, "polars table has no column 't', .* as time=$"),
    "no rating column": (lambda d: table(), {"min_rating": 3}, "no column 'rating', .* rating="),
    "no split column": (as_npz, {"split": "fold"}, "no column 'fold', only 'user', 'item'; .* split="),
    "null id": (lambda d: table(item=["a", "b", None, "c", "d"]), {}, "'item' .* row 3 holds nothing; correct"),
    "empty id": (lambda d: table(item=["a", "", "b", "c", "d"]), {}, "'item' .* an id .* row 2 holds nothing"),
    "csv gap": (lambda d: write(d, "log.csv", "user_id,item\n1,2\n,3\n"), {}, "'user_id' .* row 2 holds nothing"),
    "csv short": (lambda d: write(d, "log.csv", "user,item\n1,2\n3\n4,5\n"), {}, "'item' .* row 2 holds nothing"),
    "pandas nan": (lambda d: pd.DataFrame({"user": [1, np.nan], "item": [1, 2]}), {}, "'user' .*row 2 holds nan"),
    "pandas none": (lambda d: pd.DataFrame({"user": ["a", None], "item": [1, 2]}), {}, "'user' .*row 2 holds nothing"),
    "fraction": (lambda d: table(user=[1.0, 2.0, 2.5, 3.0, 4.0]), {}, r"'user' .*whole number.* row 3 holds 2\.5"),
    "inexact": (lambda d: table(user=[1.0, 2.0, 2.0**60, 3.0, 4.0]), {}, "'user' .*row 3 holds 1.15"),
    "infinite": (lambda d: table(user=[1.0, float("inf"), 2.0, 3.0, 4.0]), {}, "'user' .*row 2 holds inf"),
    "list ids": (lambda d: table(user=[[1], [2]] * 2 + [[3]]), {}, r"'user' .*numbers or text.* List\(Int64\)"),
    "struct ids": (lambda d: table(user=[{"a": n} for n in range(5)]), {}, "'user' .*numbers or text.* Struct"),
    "npz negative": (lambda d: npz(d, user=[0, 1, -4], item=[1, 2, 3]), {}, "'user' .*position .* row 3 holds -4"),
    "npz fraction": (lambda d: npz(d, user=[0, 1, 2], item=[1, 0.5, 3]), {}, r"'item' .* row 2 holds 0\.5"),
    "npz lengths": (lambda d: npz(d, user=[0, 1], item=[1, 2, 3]), {}, r"one length, got .*'item': \(3,\)"),
    "npz matrix": (lambda d: npz(d, user=[[0, 1]], item=[[1, 2]]), {}, "must be flat"),
    "npz pickled": (lambda d: npz(d, user=np.array([{}, 1]), item=[1, 2]), {}, "pickled objects.*plain arrays"),
    "npz cut": (lambda d: cut(as_npz(d)), {}, "is not an npz file, or is truncated"),
    "npz damaged": (damaged_npz, {}, "log.npz could not be read as npz"),
    "npz of text": (lambda d: write(d, "log.npz", "user,item"), {}, "is not an npz file"),
    "parquet cut": (lambda d: cut(as_parquet(d)), {}, "log.parquet could not be read as parquet"),
    "parquet of text": (lambda d: write(d, "log.parquet", "user,item\n1,2\n"), {}, "could not be read as parquet"),
    "parquet count": (damaged_parquet, {}, "log.parquet could not be read as parquet: the page header at byte .* dam"),
    "parquet hollow": (lambda d: write(d, "log.parquet", b"PAR1" + bytes(99) + b"PAR1"), {}, "read as parquet"),
    "ragged": (
        lambda d: write(d, "log.csv", "user,item,x\n1,2,3\n3,4,5,6\n"),
        {},
        "line 3 has 4 fields where .* has 3",
    ),
    "ragged pairs": (lambda d: write(d, "log.tsv", "user\titem\n1\t2\n3\t4\t5\n"), {}, "line 3 has 3 fields"),
    "latin-1": (lambda d: write(d, "log.csv", b"user,item\n1,caf\xe9\n2,b\n"), {}, "could not be read as csv.*UTF-8"),
    "gz cut": (lambda d: cut(as_gz(d)), {}, "log.csv.gz could not be read as csv"),
    "txt latin-1": (lambda d: write(d, "log.txt", b"1 caf\xe9\n2 b\n"), {}, "could not be read as text.*UTF-8"),
    "txt alone": (lambda d: write(d, "log.txt", "1 2 3\n\n9\n"), {}, "line 3 holds only '9'; remove"),
    "one user": (lambda d: table(user=[4] * 5), {}, "at least two users, but the polars table holds only 4; .*user="),
    "one item": (lambda d: table(item=["x"] * 5), {}, "at least two items, .* only 'x'; .*item="),
    "text rating": (lambda d: table(r=list("12x34")), {"rating": "r"}, "'r' .*number.* row 3 holds 'x'"),
    "nan rating": (lambda d: table(r=[1.0, 2.0, 3.0, float("nan"), 4.0]), {"rating": "r"}, "'r' .*row 4 holds nan"),
    "null rating": (lambda d: table(r=[1, None, 3, 3, 4]), {"rating": "r"}, "'r' .*row 2 holds nothing"),
    "all rated low": (lambda d: table(rating=[1] * 5), {"min_rating": 4}, r"no row .* 'rating' of 4 .*highest is 1\.0"),
    "text time": (lambda d: table(t=["2024-01-01"] * 4 + ["soon"]), {"time": "t"}, "'t' .*ISO.* row 5 holds 'soon'"),
    "null time": (lambda d: table(t=[date(2024, 1, 1)] * 3 + [None] * 2), {"time": "t"}, "'t' .*row 4 holds nothing"),
    "split number": (lambda d: table(split=[0, 1, 2, 3, 4]), {}, r"'split' .*0 to 3.* row 5 holds 4"),
    "split fraction": (lambda d: table(split=[0.0, 0.5, 2.0, 3.0, 3.0]), {}, r"'split' .*row 2 holds 0\.5"),
    "split word": (lambda d: table(split=["train", "dev"] + ["test"] * 3), {}, "'split' .*row 2 holds 'dev'"),
    "split truth": (lambda d: table(test=[True] * 5), {"split": "test"}, "'test' .*row 1 holds 'true'"),
    "split null": (lambda d: table(split=[0, 1, None, 3, 3]), {}, "'split' .*row 3 holds nothing"),
    "split list": (lambda d: table(split=[[0]] * 5), {}, "column 'split' .* could not be read as a split"),
    "duration": (lambda d: table(t=[date(2024, 1, 2) - date(2024, 1, 1)] * 4 + [None]), {"time": "t"}, "'t' .*row 5"),
    "same names": (lambda d: pd.DataFrame([[1, 2]], columns=["user", "user"]), {}, "names .* must differ, got .*user"),
    "lazy failure": (lambda d: pl.scan_parquet(d / "no.parquet"), {}, "the polars table could not be read"),
    "object": (lambda d: [(1, 2)], {}, "must be a path, .* got list"),
    "array": (lambda d: np.eye(3), {}, "must be a path, .* got ndarray"),
    "cut in quotes": (lambda d: write(d, "log.csv", 'user,item\n1,a\n2,"b\n3,c\n'), {}, "ends inside quotes.*cut off"),
    "stray return": (lambda d: write(d, "log.csv", "user,item\n1,a\n2\r,b\n"), {}, "line 3 has a carriage return"),
    "old Mac": (lambda d: write(d, "log.csv", "user,item\r1,a\r2,b\r"), {}, "line 1 has a carriage return"),
    "stray return in txt": (lambda d: write(d, "log.txt", "1 5\r2 7\n3 4\n"), {}, "line 1 of .* a carriage return"),
    "binary": (lambda d: table(user=[b"a", b"\xff", b"b", b"c", b"d"]), {}, r"UTF-8 .* row 2 holds b'\\xff'"),
    "duration id": (lambda d: table(user=[timedelta(n) for n in range(5)]), {}, "numbers or text as ids, got Duration"),
    "nan as least": (
        lambda d: table(rating=[1] * 5),
        {"min_rating": float("nan")},
        "min_rating must be a finite number",
    ),
    "empty matrix": (lambda d: sp.csr_matrix((3, 3)), {}, "must hold rows, but the SciPy matrix holds none"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_raises_one_sentence(case: str, tmp_path: Path) -> None:
    source, options, sentence = BAD[case]
    with pytest.raises(InputError, match=sentence) as caught:
        read_interactions(source(tmp_path), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
def test_ids_that_look_like_numbers_stay_text_unless_all_are_written_as_one(tmp_path: Path, name: str) -> None:
    mark, first = (",", "user,item\n") if name == "log.csv" else (" ", "")
    for users, expected in (
        (["1e2", "10e1", "100"], ["100", "10e1", "1e2"]),
        (["007", "7", "-0"], ["-0", "007", "7"]),
        (["1.0", "2.0", "30.0"], [1, 2, 30]),
        (["1.0", "1", "2"], ["1", "1.0", "2"]),
        (["-7", "0", "9223372036854775807"], [-7, 0, 2**63 - 1]),
        (["1", "2", "9223372036854775808"], ["1", "2", "9223372036854775808"]),
    ):
        lines = "".join(f"{user}{mark}{item}\n" for user, item in zip(users, "abc", strict=True))
        assert read_interactions(write(tmp_path, name, first + lines)).user_ids.tolist() == expected


# ------------------------------------------------------------------------------------------------ real logs


@pytest.mark.parametrize(
    ("name", "users", "items", "n", "test"),
    [("adressa", 13_485, 744, 116_321, 4 * 744), ("gowalla", 29_858, 40_981, 1_027_370, 5 * 40_981)],
)
def test_real_logs_have_their_known_counts(name: str, users: int, items: int, n: int, test: int) -> None:
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is missing; set COUNTERPOP_DATA to the folder that holds it")
    log = read_interactions(path)
    assert (log.n_users, log.n_items, len(log), log.merged) == (users, items, n, 0)
    assert log.part is not None and np.count_nonzero(log.part == 3) == test
    if name == "gowalla":
        other = read_interactions(path, split="split_lightgcn")
        assert other.part is not None and np.bincount(other.part).tolist() == [810_128, 0, 0, 217_242]


# ----------------------------------------------------------------------------------- lists of recommendations

LOG = read_interactions(pl.DataFrame({"user": [1, 1, 2, 3], "item": ["a", "b", "a", "c"]}))
LISTS = {"user": [2, 1, 2, 1, 2], "item": ["c", "c", "b", "a", "a"]}


def listed(found: Recommendations) -> dict[Any, list[Any]]:
    users, items = found.log.user_ids[found.users], found.log.item_ids
    return {user: [items[i] for i in row if i >= 0] for user, row in zip(users, found.lists, strict=True)}


@pytest.mark.parametrize(
    ("more", "order", "second"),
    [
        ({}, "rows", ["c", "b", "a"]),
        ({"rank": [3, 1, 1, 2, 2]}, "rank", ["b", "a", "c"]),
        ({"score": [0.1, 0.0, 0.2, 0.0, 0.9]}, "score", ["a", "b", "c"]),
        ({"rank": [3, 1, 1, 2, 2], "score": [9, 0, 0, 0, 0]}, "rank", ["b", "a", "c"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "frame"])
def test_lists_are_sorted_by_rank_or_score_or_row(
    tmp_path: Path, more: dict[str, list], order: str, second: list[str], ending: str
) -> None:
    frame = pl.DataFrame(LISTS | more, strict=False)
    source: Any = frame if ending == "frame" else tmp_path / f"lists.{ending}"
    if ending == "parquet":
        frame.write_parquet(source)
    elif ending != "frame":
        frame.write_csv(source, separator="," if ending == "csv" else "\t")
    found = read_recommendations(source, LOG)
    assert found.order == order
    assert listed(found) == {1: ["c", "a"], 2: second}
    assert found.lists.shape == (2, 3) and found.lists[0, 2] == -1
    assert found.log is LOG and not any(found.notes.values())


def test_lists_as_text_and_under_other_names(tmp_path: Path) -> None:
    found = read_recommendations(write(tmp_path, "lists.txt", "2 c b a\n1 c a\n"), LOG)
    assert listed(found) == {1: ["c", "a"], 2: ["c", "b", "a"]}
    rows = write(tmp_path, "rows.txt", "2 b 2\n2 a 1\n1 c 1\n")
    with pytest.raises(InputError, match=r"third column .* pass rank='rank' \(--rank rank\) or score='score'"):
        read_recommendations(rows, LOG)
    assert listed(read_recommendations(rows, LOG, rank="rank")) == {1: ["c"], 2: ["a", "b"]}
    frame = pl.DataFrame({"who": ["2", "2"], "what": ["b", "a"], "place": [2, 1]})
    found = read_recommendations(frame, LOG, user="who", item="what", rank="place")
    assert listed(found) == {2: ["a", "b"]}  # text ids match a log of integers


def test_a_repeated_item_keeps_its_first_place_and_k_cuts_lists_off() -> None:
    frame = pl.DataFrame({"user": [1] * 5, "item": ["b", "a", "b", "c", "a"], "rank": [5, 2, 3, 4, 1]})
    found = read_recommendations(frame, LOG)
    assert listed(found) == {1: ["a", "b", "c"]} and found.notes["repeated"] == 2
    cut = read_recommendations(frame, LOG, k=2)
    assert listed(cut) == {1: ["a", "b"]} and cut.notes["beyond_k"] == 1
    assert read_recommendations(frame, LOG, k=100).lists.shape == (1, 3)  # no longer than there are items


def test_ids_missing_from_the_log_are_reported_or_kept() -> None:
    frame = pl.DataFrame({"user": [1, 9, 9, 0], "item": ["b", "a", "aa", "zz"]})
    with pytest.raises(InputError, match=r"every user .* but 2 of 3 are not \(first: 0\); pass keep_unknown=True"):
        read_recommendations(frame, LOG)
    with pytest.raises(InputError, match=r"every item .* but 2 of 4 are not \(first: 'aa'\)"):
        read_recommendations(frame.with_columns(user=pl.lit(1)), LOG)
    found = read_recommendations(frame, LOG, keep_unknown=True)
    assert listed(found) == {0: ["zz"], 1: ["b"], 9: ["a", "aa"]}
    assert found.notes["unknown_users"] == found.notes["unknown_items"] == 2
    assert pairs(found.log) == pairs(LOG)  # the same rows; only ids were added
    assert found.log.item_ids.tolist() == ["a", "aa", "b", "c", "zz"]
    assert found.log.item_counts.tolist() == [2, 0, 1, 1, 0]
    assert LOG.item_ids.tolist() == ["a", "b", "c"]
    with pytest.raises(InputError, match="check which columns hold the ids"):
        read_recommendations(frame.filter(pl.col("user") == 9), LOG.rows(LOG.user_ix < 0), keep_unknown=True)


def test_unusable_lists_raise_one_sentence(tmp_path: Path) -> None:
    twice = pl.DataFrame({"user": [1, 1, 2], "item": ["b", "c", "b"], "rank": [1, 1, 1]})
    with pytest.raises(InputError, match="user 1 has two items at rank 1; give one list for each user"):
        read_recommendations(twice, LOG)
    with pytest.raises(InputError, match="must hold rows"):
        read_recommendations(twice.clear(), LOG)
    with pytest.raises(InputError, match="no column 'position'"):
        read_recommendations(twice, LOG, rank="position")
    with pytest.raises(InputError, match="must hold a number in every row, but row 2 holds 'x'"):
        read_recommendations(twice.with_columns(rank=pl.Series(["1", "x", "2"])), LOG)
    with pytest.raises(InputError, match="user ids of this log are integers, but 'bob' is not one"):
        read_recommendations(twice.with_columns(user=pl.lit("bob")), LOG)
    with pytest.raises(InputError, match="is missing"):
        read_recommendations(tmp_path / "nothing.csv", LOG)


def test_names_come_from_arrays_as_well_as_tables(tmp_path: Path) -> None:
    archive = npz(tmp_path, item=np.array([7, 5]), name=np.array(["Heat", "Alien"]))
    assert read_names(archive, np.array([5, 6, 7])) == ["Alien", None, "Heat"]
    with pytest.raises(InputError, match="no column 'name', only 'user', 'item'"):
        read_names(as_adjacency(tmp_path), np.array([5, 6, 7]))


# ------------------------------------------------------------------------------------- files that offices use

OFFICE = pl.DataFrame({"user": [1, 2, 2, 3], "item": ["é", "b;c", "a", "b;c"], "rating": [4.5, 1.0, 5.0, 2.5]})


def write_sheet(path: Path, frame: pl.DataFrame) -> None:
    """A minimal .xlsx workbook: numbers as numbers, text inline."""

    def cell(value: object) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    rows = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in [frame.columns, *frame.rows()])
    main, office = (
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="log" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def as_office_files(folder: Path) -> dict[str, Path | str]:
    """The same log in every form."""
    commas = OFFICE.write_csv()
    semicolons = OFFICE.write_csv(separator=";", quote_style="necessary", decimal_comma=True)
    lines = OFFICE.write_ndjson()
    texts = {
        "commas.csv": commas,
        "semicolons.csv": semicolons,
        "points.csv": OFFICE.write_csv(separator=";"),
        "declared.csv": f"sep=;\n{semicolons}",
        "tabs.csv": OFFICE.write_csv(separator="\t"),
        "lines.jsonl": lines,
        "lines.ndjson": lines,
        "table.tsv": OFFICE.write_csv(separator="\t"),
    }
    found: dict[str, Path | str] = {}
    for name, text in texts.items():
        found[name] = folder / name
        (folder / name).write_text(text, encoding="utf-8")
        with gzip.open(folder / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.write(text)
        found[f"{name}.gz"] = folder / f"{name}.gz"
    (folder / "excel.csv").write_text(semicolons, encoding="utf-8-sig")  # with a byte order mark
    write_sheet(folder / "sheet.xlsx", OFFICE)
    spark = folder / "spark.parquet" / "day=1"
    spark.mkdir(parents=True)
    OFFICE.head(3).write_parquet(spark / "part-0.snappy.parquet")
    OFFICE.tail(1).write_parquet(spark.parent / "part-1.parquet")
    (spark.parent / "_SUCCESS").touch()
    OFFICE.head(2).write_parquet(folder / "2026-01.parquet")
    OFFICE.tail(2).write_parquet(folder / "2026-02.parquet")
    found |= {"excel": folder / "excel.csv", "sheet": folder / "sheet.xlsx", "spark": spark.parent}
    return found | {"pattern": str(folder / "2026-*.parquet")}


def test_files_that_offices_use_hold_the_same_log(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel", reason="reads .xlsx files (extra xlsx)")
    for name, path in as_office_files(tmp_path).items():
        log = read_interactions(path, min_rating=2.0)
        pairs = zip(log.user_ids[log.user_ix].tolist(), log.item_ids[log.item_ix].tolist(), strict=True)
        assert list(pairs) == [(1, "é"), (2, "a"), (3, "b;c")], name


def test_zstd_is_read_as_gzip_is(tmp_path: Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("the command zstd is not installed; it makes the file to read")
    OFFICE.drop("rating").write_csv(tmp_path / "log.csv", separator=";")
    OFFICE.drop("rating").write_ndjson(tmp_path / "log.jsonl")
    (tmp_path / "log.txt").write_text("1 a b\n2 b c\n3 a\n")
    for name in ("log.csv", "log.jsonl", "log.txt"):
        plain = read_interactions(tmp_path / name)
        subprocess.run(["zstd", "-q", tmp_path / name], check=True)
        with gzip.open(tmp_path / f"{name}.gz", "wb") as file:
            file.write((tmp_path / name).read_bytes())
        for packed in (".zst", ".gz"):
            log = read_interactions(tmp_path / f"{name}{packed}")
            assert (log.user_ix.tolist(), log.item_ix.tolist()) == (plain.user_ix.tolist(), plain.item_ix.tolist())
            assert log.item_ids.tolist() == plain.item_ids.tolist()


def test_office_files_that_cannot_be_read_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(path: Path | str) -> str:
        with pytest.raises(InputError) as caught:
            read_interactions(path)
        return str(caught.value)

    (tmp_path / "old.csv").write_bytes("user;item\n1;é\n2;b\n".encode("cp1252"))
    assert "it is not UTF-8 text (in a spreadsheet, save it as “CSV UTF-8”)" in refusal(tmp_path / "old.csv")
    (tmp_path / "broken.jsonl").write_text('{"user": 1, "item": 2}\n{"user": 1,')
    assert "could not be read as JSON lines" in refusal(tmp_path / "broken.jsonl")
    (tmp_path / "broken.xlsx").write_text("no workbook")
    (tmp_path / "log.parquet.gz").write_bytes(b"x")
    assert "text also in .gz or .zst" in refusal(tmp_path / "log.parquet.gz")
    (tmp_path / "empty").mkdir()
    assert "is a folder without parquet files" in refusal(tmp_path / "empty")
    assert "names others" in refusal(str(tmp_path / "*.csv"))
    assert "is missing" in refusal(str(tmp_path / "none-*.parquet"))
    if importlib.util.find_spec("fastexcel"):
        assert "could not be read as xlsx" in refusal(tmp_path / "broken.xlsx")
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    assert "pip install 'counterpop[xlsx]'" in refusal(tmp_path / "broken.xlsx")
    OFFICE.head(2).write_parquet(tmp_path / "a.parquet")
    OFFICE.select("user").write_parquet(tmp_path / "b.parquet")
    assert "b.parquet has no column 'item' where a.parquet has String" in refusal(str(tmp_path / "?.parquet"))


def test_the_lists_that_recommend_writes_are_read_again(tmp_path: Path) -> None:
    log = read_interactions(pl.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5]}))
    rows = {"user": [1, 1, 2], "rank": [2, 1, 1], "item": [5, 6, 5], "score": [0.5, 0.75, 0.25]}
    pl.DataFrame(rows).write_ndjson(tmp_path / "lists.jsonl")
    found = read_recommendations(tmp_path / "lists.jsonl", log)
    assert found.lists.tolist() == [[1, 0], [0, -1]] and found.order == "rank"


@pytest.mark.parametrize("by", ["rank", "score", "rows"])
def test_lists_read_in_blocks_of_users_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """Rows in any order, with repeated items and lists of all lengths; also one column at a time, from parquet."""
    draw = np.random.default_rng(0)
    log = read_interactions(pl.DataFrame({"user": np.arange(300) % 60, "item": np.arange(300) % 41}))
    frame = pl.DataFrame({"user": draw.integers(0, 60, 700), "item": draw.integers(0, 41, 700)})
    if by != "rows":
        frame = frame.with_columns(pl.Series(by, draw.permutation(700) + 1.0))
    expected: dict[int, list[int]] = {}
    order = frame if by == "rows" else frame.sort(by, descending=by == "score", maintain_order=True)
    for user, item in order.select("user", "item").rows():
        mine = expected.setdefault(user, [])
        if item not in mine:
            mine.append(item)
    frame.write_parquet(tmp_path / "lists.parquet")
    for size in (1, 7, 1 << 16):
        monkeypatch.setattr(recommendations, "BLOCK_USERS", size)
        for source in (frame, tmp_path / "lists.parquet"):
            found = read_recommendations(source, log)
            lists = {int(u): [int(i) for i in row if i >= 0] for u, row in zip(found.users, found.lists, strict=True)}
            assert lists == expected and found.order == by
            assert found.notes["repeated"] == 700 - sum(map(len, expected.values()))
            assert found.lists.shape[1] == max(map(len, expected.values()))
            assert read_recommendations(source, log, k=3).notes["beyond_k"] == sum(
                max(0, len(items) - 3) for items in expected.values()
            )
