"""Very large logs: read in stretches, split in one pass and mapped into memory, with the same meaning as small ones."""

from __future__ import annotations

import io
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from rich.console import Console

import counterpop as cp
from builders import random_log
from counterpop.artifacts import splits as split_folders
from counterpop.cli import main
from counterpop.cli.progress import working
from counterpop.errors import ArtifactError, CounterpopWarning, InputError
from counterpop.interactions import Interactions, pair_keys
from counterpop.kernels.drawing import Triples
from counterpop.kernels.prefetch import NEAR
from counterpop.progress import watching
from counterpop.readers import read_interactions, streams
from counterpop.readers import text as text_files
from counterpop.splits import Split, drawing
from counterpop.training.backbones import mf
from counterpop.training.backbones.contract import Start
from counterpop.training.methods.plain.native import walk
from counterpop.training.native import Tables
from counterpop.training.sampling import TripleSampler
from training_cases import settings_for


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large."""
    for module, name, value in (
        (streams, "MANY_ROWS", 0),
        (streams, "STRETCH", 300),
        (streams, "BUCKET", 700),
        (drawing, "MANY_PAIRS", 0),
        (split_folders, "MANY_PAIRS", 0),
    ):
        monkeypatch.setattr(module, name, value)


def write_parts(folder: Path, table: pl.DataFrame, parts: int = 3) -> Path:
    folder.mkdir()
    for part in range(parts):
        table[part::parts].write_parquet(folder / f"part-{part:05}.parquet")
    return folder


def table_of(kind: str) -> pl.DataFrame:
    draw = np.random.default_rng(5)
    users, items = draw.integers(0, 400, 4000), (80 * draw.random(4000) ** 2).astype(np.int64)
    ids: dict[str, tuple[Any, Any]] = {
        "near": (users + 7, items - 3),
        "far": (users * 10**12, items * 10**15),
        "text": ([f"u{u}" for u in users], [f"i-{i:04}" for i in items]),
        "floats": (users.astype(float), items.astype(float)),
        "unsigned": (pl.Series(users.astype(np.uint64)) + 2**63 - 200, items),
        "bytes": ([b"%016d" % u for u in users], [b"%0*d" % (16 if n else 9, i) for n, i in enumerate(items)]),
    }
    rest = {"time": draw.integers(0, 50, 4000), "rating": draw.integers(1, 6, 4000), "split": draw.integers(0, 4, 4000)}
    return pl.DataFrame({"user": ids[kind][0], "item": ids[kind][1], **rest})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["near", "far", "text", "floats", "unsigned", "bytes"])
@pytest.mark.parametrize("how", [{}, {"time": "time", "split": "split"}, {"min_rating": 4.0, "time": "time"}])
def test_streamed_reading_gives_what_the_ordinary_reader_gives(kind: str, how: dict[str, Any], tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "log", table_of(kind))
    how = {"split": False, "min_rating": 1.0, **how}
    (tmp_path / "scratch").mkdir()
    shares: list[float] = []
    one = read_interactions(folder, **how)
    two = read_interactions(folder, scratch=tmp_path / "scratch", report=shares.append, **how)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 20  # it was streamed
    for name in ("user_ix", "item_ix", "user_ids", "item_ids", "time", "part"):
        first, second = getattr(one, name), getattr(two, name)
        assert (first is None) == (second is None)
        assert first is None or (first.dtype == second.dtype and np.array_equal(first, second))
    assert one.merged == two.merged > 0


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.usefixtures("small")
def test_bad_parts_are_named_and_nothing_is_left(scratch: bool, tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "log", table_of("near"))
    (tmp_path / "scratch").mkdir()
    how: dict[str, Any] = {"min_rating": 1.0, "scratch": tmp_path / "scratch" if scratch else None}
    good = (folder / "part-00001.parquet").read_bytes()
    cases: list[tuple[Any, str]] = [
        (table_of("text"), r"part-00001.parquet has String in 'user' where part-00000.parquet has Int64 in 'user'"),
        (table_of("near").drop("item"), "part-00001.parquet has no column 'item' where part-00000.parquet has Int64"),
        (good[:-30], r"part-00001.parquet could not be read as parquet: .*; repair it or write it again"),
        (b"", r"part-00001.parquet could not be read as parquet"),
        (good[:200] + b"?" * 3000 + good[3200:], r"part-00001.parquet could not be read as parquet"),
    ]
    for content, sentence in cases:
        if isinstance(content, bytes):
            (folder / "part-00001.parquet").write_bytes(content)
        else:
            content.write_parquet(folder / "part-00001.parquet")
        with pytest.raises(InputError, match=sentence):
            read_interactions(folder, **how)
        result = CliRunner().invoke(
            main, ["split", str(folder), "--protocol", "random", "--out", str(tmp_path / "out")]
        )
        assert result.exit_code == 1 and "part-00001.parquet" in result.stderr
    (folder / "part-00001.parquet").unlink()
    with pytest.warns(CounterpopWarning, match=r"1 of the parts 0 to 2 in .* are missing \(first: part 1\)"):
        read_interactions(folder, **how)
    (tmp_path / "scratch").rmdir() if not scratch else None
    assert {path.name for path in tmp_path.iterdir()} <= {"log", "scratch"}


def write_folders(folder: Path, table: pl.DataFrame, *columns: str) -> Path:
    """As Spark and Hive write a table that is partitioned by columns: these are in the names of the folders only."""
    for values, rows in table.group_by(columns):
        inner = folder.joinpath(*(f"{name}={value}" for name, value in zip(columns, values, strict=True)))
        inner.mkdir(parents=True)
        for part in range(2):
            rows.drop(columns)[part::2].write_parquet(inner / f"part-{part:05}-c0ffee.snappy.parquet")
    return folder


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("columns", [("split",), ("time", "split"), ("item",)])
def test_columns_in_the_names_of_folders_are_read(columns: tuple[str, ...], scratch: bool, tmp_path: Path) -> None:
    table = table_of("near").drop("rating")
    dates = pl.date(2024, 1, 1) + pl.duration(days=pl.col("time"))
    table = table.with_columns(dates.alias("time")) if "time" in columns else table
    folder = write_folders(tmp_path / "run=5", table, *columns)  # run is no column: it lies above the folder
    (tmp_path / "scratch").mkdir()
    expected = read_interactions(table, time="time")
    for source in (folder, f"{folder}/*=*/**/*.parquet"):
        log = read_interactions(source, time="time", scratch=tmp_path / "scratch" if scratch else None)
        for name in ("user_ids", "item_ids", "user_ix", "item_ix", "time", "part"):
            assert np.array_equal(getattr(log, name), getattr(expected, name)), name
    with pytest.raises(InputError, match="has no column 'run', only 'user'"):
        read_interactions(folder, split="run")


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.usefixtures("small")
def test_a_partitioned_folder_is_read_whole_or_refused(scratch: bool, tmp_path: Path) -> None:
    table = table_of("near").drop("rating", "time")
    folder = write_folders(tmp_path / "log", table, "split")
    (tmp_path / "scratch").mkdir()
    how: dict[str, Any] = {"scratch": tmp_path / "scratch" if scratch else None}
    expected = read_interactions(table)
    more = folder / "split=3" / "part-00002.parquet"
    table.drop("split").head(0).write_parquet(more)  # an empty partition
    log = read_interactions(folder, **how)
    assert np.array_equal(log.item_ix, expected.item_ix) and np.array_equal(log.part, expected.part)
    unfinished = folder / "_temporary" / "0" / "split=3" / "part-00000.parquet"
    unfinished.parent.mkdir(parents=True)
    table.drop("split").write_parquet(unfinished)
    with pytest.warns(CounterpopWarning, match=r"so 1 parquet files of .* were left out \(first: _temporary/0"):
        assert read_interactions(folder, **how).merged == expected.merged
    unfinished.unlink()
    more.unlink()
    table.drop("split").head(9).write_parquet(folder / "part-00002.parquet")  # in no folder with a split
    with pytest.raises(InputError, match=r"column 'split' .* must hold 0 to 3, .* holds nothing"):
        read_interactions(folder, **how)
    (folder / "part-00002.parquet").unlink()
    (folder / "split=2").rename(folder / "split=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(InputError, match=r"column 'split' .* must hold 0 to 3, .* holds nothing"):
        read_interactions(folder, **how)


@pytest.mark.usefixtures("small")
def test_a_damaged_footer_is_refused_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of the last file of the last folder, wherever it was cut off."""
    folder = write_folders(tmp_path / "log", table_of("near").drop("rating", "time"), "split")
    last = max(folder.rglob("*.parquet"))
    good = last.read_bytes()
    read: list[Any] = []
    monkeypatch.setattr(pl, "scan_parquet", lambda *args, **named: read.append(args))
    footer = int.from_bytes(good[-8:-4], "little")
    for kept in (0, 4, len(good) // 2, len(good) - 8 - footer, len(good) - 8, len(good) - 4, len(good) - 1):
        last.write_bytes(good[:kept])
        with pytest.raises(
            InputError, match=rf"split=3/{last.name} could not be read as parquet: .*; repair it"
        ) as one:
            read_interactions(folder, scratch=tmp_path)
        assert "\n" not in str(one.value) and not read


@pytest.mark.parametrize("packed", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "txt"])
def test_compressed_text_that_was_cut_off_is_refused(kind: str, packed: str, tmp_path: Path) -> None:
    """Wherever it was cut, even if only the checksum at the end is missing."""
    table = table_of("near").select("user", "item")
    lines = "".join(f"{user} {item}\n" for user, item in table.iter_rows())
    text = {"csv": table.write_csv(), "jsonl": table.write_ndjson(), "txt": lines}[kind].encode()
    whole = pa.compress(text, codec={"gz": "gzip", "zst": "zstd"}[packed], asbytes=True)
    file = tmp_path / f"log.{kind}.{packed}"
    file.write_bytes(whole)
    log = read_interactions(file)
    assert len(log) + log.merged == len(table)
    for kept in (20, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        file.write_bytes(whole[:kept])
        with pytest.raises(InputError, match=rf"log.{kind}.{packed} could not be read as .*; repair it") as one:
            read_interactions(file)
        assert "\n" not in str(one.value)


@pytest.mark.usefixtures("small")
def test_csv_above_the_limit_of_streaming_loses_nothing(tmp_path: Path) -> None:
    """It is read into memory as a whole, and split as the same log in parquet is."""
    table = table_of("near").select("user", "item")
    folder = write_parts(tmp_path / "log", table)
    table.write_csv(tmp_path / "log.csv")
    expected = read_interactions(table)
    splits = []
    for source in (folder, tmp_path / "log.csv"):
        out = tmp_path / f"{source.name}.split"
        CliRunner().invoke(
            main, ["split", str(source), "--protocol", "random", "--out", str(out)], catch_exceptions=False
        )
        split = cp.load_split(out)
        assert len(split.train) + len(split.valid) + len(split.test) == len(expected)
        splits.append(split)
    for part in ("train", "valid", "test"):
        one, two = (getattr(split, part) for split in splits)
        assert np.array_equal(pair_keys(one), pair_keys(two))


@pytest.mark.usefixtures("small")
def test_a_row_without_an_id_is_named(tmp_path: Path) -> None:
    table = table_of("near").with_columns(
        pl.when(pl.col("user") == 19).then(None).otherwise(pl.col("user")).alias("user")
    )
    (tmp_path / "scratch").mkdir()
    with pytest.raises(
        InputError, match=r"part-00000.parquet.* must hold an id in every row, but row \d+ holds nothing"
    ):
        read_interactions(write_parts(tmp_path / "log", table), min_rating=1.0, scratch=tmp_path / "scratch")


@pytest.mark.parametrize("rows", [10, 300, 100_000])  # sizes of one, two and four bytes in the header
def test_text_larger_than_memory_is_refused_before_it_is_read(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"user,item\n" + b"1,2\n3,4\n" * rows
    files = {name: tmp_path / f"log.{name}" for name in ("csv", "csv.zst")}
    files["csv"].write_bytes(text)
    files["csv.zst"].write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    for file in files.values():
        monkeypatch.setattr(text_files, "_memory_bytes", lambda: len(text))
        assert read_interactions(file).n_users == 2
        monkeypatch.setattr(text_files, "_memory_bytes", lambda: len(text) - 1)
        with pytest.raises(InputError, match=r"log.csv.* holds .* GB; write it as a folder of parquet files"):
            read_interactions(file)


# --- drawing in one pass ---


def test_rows_of_each_group_are_drawn_equally_often() -> None:
    draw = np.random.default_rng(3)
    group = draw.integers(0, 4, 60).astype(np.int32)
    pool, quota = draw.random(60) < 0.8, np.array([3, 0, 100, 5])
    have = np.bincount(group[pool], minlength=4)
    drawn, rounds = np.zeros(60), 4000
    for seed in range(rounds):
        rows = drawing.select(group, pool, quota, np.random.default_rng(seed))
        assert (np.diff(rows) > 0).all() and pool[rows].all()
        assert np.array_equal(np.bincount(group[rows], minlength=4), np.minimum(quota, have))
        drawn[rows] += 1
    chance = np.where(pool, np.minimum(quota, have)[group] / have[group], 0)
    error = np.sqrt(rounds * chance * (1 - chance))
    assert (np.abs(drawn - rounds * chance) <= 4.5 * error).all()
    assert len(drawing.select(np.empty(0, np.int32), pool, np.array([7]), np.random.default_rng(0))) == 7


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("protocol", ["random", "uniform"])
def test_a_split_in_one_pass_keeps_the_promises_of_the_protocol(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(300, 60, np.linspace(0.02, 0.5, 60))
    make = {"random": cp.split_random, "uniform": cp.split_uniform}[protocol]
    large = make(log, 0.2, 0.1, ordinary=0.05)
    monkeypatch.setattr(drawing, "MANY_PAIRS", 1 << 26)
    usual = make(log, 0.2, 0.1, ordinary=0.05)
    assert large.manifest.counts == usual.manifest.counts
    parts = (large.train, large.valid, large.test, large.development.ordinary)
    keys = np.concatenate([pair_keys(part) for part in parts if part is not None])
    assert np.array_equal(np.sort(keys), pair_keys(log))
    assert not np.array_equal(pair_keys(large.test), pair_keys(usual.test))
    if protocol == "uniform":
        assert np.array_equal(large.test.item_counts, usual.test.item_counts)
        assert large.train.item_counts.min() >= 1
    again = make(log, 0.2, 0.1, ordinary=0.05, seed=0)
    assert np.array_equal(pair_keys(again.test), pair_keys(usual.test))


# --- folders ---


@pytest.mark.usefixtures("small")
def test_the_commands_from_a_large_folder_to_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*words: object) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    folder = write_parts(tmp_path / "log", table_of("near").select("user", "item"))
    monkeypatch.setattr("counterpop.cli.progress.LONG", 0.0)  # every phase is a long one
    made = call("split", folder, "--protocol", "uniform", "--out", tmp_path / "split")
    assert 5e7 < made["peak_memory_bytes"] < 1e11
    assert {path.name for path in tmp_path.iterdir()} == {"log", "split"}
    assert (tmp_path / "split/train.item_ix.npy").is_file() and not (tmp_path / "split/train.parquet").exists()
    split = cp.load_split(tmp_path / "split")
    mapped = split.train.item_ix
    assert isinstance(mapped.base.obj, mmap.mmap) and not split.train.item_ix.flags.writeable
    log = read_interactions(folder)
    parts = (split.train, split.valid, split.test, split.development.ordinary)
    keys = np.concatenate([pair_keys(part) for part in parts if part is not None])
    assert np.array_equal(np.sort(keys), pair_keys(log)) and made["pairs"] == len(log)
    call(
        "train", tmp_path / "split", "--dim", 4, "--epochs", 3, "--loss", "bpr", "--no-refit", "--out", tmp_path / "run"
    )
    call("tune", tmp_path / "run")
    assert call("evaluate", tmp_path / "run")["users"] > 0
    assert call("recommend", tmp_path / "run", "--users", "all", "--out", tmp_path / "lists")["users"] == log.n_users
    file = tmp_path / "split/train.item_ix.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(ArtifactError, match=r"train.item_ix.npy was changed after writing"):
        cp.load_split(tmp_path / "split")


def test_counts_and_order_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(50, 30, 0.3)
    user_counts, item_counts = np.bincount(log.user_ix, minlength=50), np.bincount(log.item_ix, minlength=30)
    monkeypatch.setattr("counterpop.interactions.BLOCK", 7)
    same = Interactions(log.user_ix, log.item_ix, log.user_ids, log.item_ids)
    assert np.array_equal(same.user_counts, user_counts) and np.array_equal(same.item_counts, item_counts)
    for at in (6, 7, 13, 20):
        item_ix = log.item_ix.copy()
        item_ix[[at, at + 1]] = item_ix[[at + 1, at]]
        if log.user_ix[at] == log.user_ix[at + 1]:
            with pytest.raises(InputError, match="rows must be sorted by user and then by item"):
                Interactions(log.user_ix, item_ix, log.user_ids, log.item_ids)


# --- training in helpings ---


def test_helpings_go_through_the_same_data_as_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(400, 50, 0.2)
    for sampling in ("interactions", "users"):
        start = Start(log, settings_for(engine="native", sampling=sampling, threads=2))
        whole, helped = TripleSampler(start, 2), TripleSampler(start, 2, most=len(log) // 5)
        assert (whole.helpings, helped.helpings) == (1, 5 if sampling == "interactions" else 6)
        users = []
        for sampler in (whole, helped):
            drawn = np.zeros((2, 400), dtype=np.int64)
            for helping in range(sampler.helpings):
                for part, triples in enumerate(sampler.epoch(0, helping)):
                    number = int(triples.block_starts[-1])
                    assert np.array_equal(np.sort(triples.order[:number]), np.arange(number))
                    drawn[part] += np.bincount(triples.users[:number], minlength=400)
                    keys = triples.users[:number].astype(np.int64) * 50
                    assert np.isin(keys + triples.items[:number], pair_keys(log)).all()
                    assert not np.isin(keys + triples.negatives[:number], pair_keys(log)).any()
            assert not (drawn[0] & drawn[1]).any()  # a user belongs to one thread
            users.append(drawn.sum(axis=0))
        if sampling == "interactions":
            assert np.array_equal(users[0], users[1]) and np.array_equal(users[0], log.user_counts)
        else:
            mean = len(log) / np.count_nonzero(log.user_counts)
            for drawn in users:
                assert set(drawn[log.user_counts > 0]) <= {int(mean), int(mean) + 1}


def test_a_model_trained_in_helpings_is_as_good(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"dim": 16, "epochs": 30, "check_every": 30, "loss": "bpr", "negative_power": 0.0}
    recalls = []
    for most in (1 << 26, len(split.train) // 4):
        monkeypatch.setattr(mf, "MOST_TRIPLES", most)
        runs = [cp.train(split, refit=False, seed=seed, **how) for seed in range(3)]
        assert runs[0].ledger is not None and runs[0].ledger.triples > 25 * len(split.train)
        recalls.append([run.history[-1]["valid"] for run in runs])
    spread = max(np.std(recalls, axis=1, ddof=1).max(), 0.004)
    assert abs(np.mean(recalls[0]) - np.mean(recalls[1])) < 3 * spread


def test_rows_asked_for_ahead_change_nothing() -> None:
    """The same steps in a table that is too large for the caches and in one that is not."""
    draw = np.random.default_rng(2)
    users, items = (draw.normal(size=(n, 32)).astype(np.float32) for n in (50, 70_000))
    assert items.nbytes > NEAR > items[:100].nbytes
    columns = [draw.integers(0, n, 500).astype(np.int32) for n in (50, 100, 100)]
    triples = Triples(*columns, np.arange(500, dtype=np.int32), np.array([0, 500]))
    none = Tables(*np.zeros((2, 0, 4, 32), np.float32))
    moved = []
    for table in (items, items[:100]):
        tables = Tables(users.copy(), table.copy())
        walk(
            *(tables, None, triples, triples.order, (np.float32(0.1), np.float32(0.01))),
            *((False, True), none, 1, np.empty(0, np.float32)),
        )
        moved.append((tables.users, tables.items[:100]))
    assert np.array_equal(moved[0][0], moved[1][0]) and np.array_equal(moved[0][1], moved[1][1])
    assert not np.array_equal(moved[0][0], users)


def test_measuring_shows_a_bar_over_all_users(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("counterpop.cli.progress.console", console)
    run = cp.train(split, dim=8, epochs=2, refit=False, loss="bpr", negative_power=0.0)
    tuned = cp.tune(run, split)
    told: list[tuple[int, int]] = []
    with working("measuring"), watching(lambda *counts: told.append(counts)):
        cp.evaluate(tuned, split, on="valid", threads=2)
    users = np.count_nonzero(split.valid.user_counts)
    passes = 2 * (users + np.count_nonzero(split.development.ordinary.user_counts))  # plain and adjusted, both parts
    assert [sum(counts) for counts in zip(*told, strict=True)] == [passes, passes]
    shown = console.file.getvalue()
    assert "measuring" in shown and "100%" in shown
    told.clear()
    cp.evaluate(tuned, split, on="valid")
    assert not told
