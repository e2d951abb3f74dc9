"""Damaged folders and logs, and loads beside a writer: refused with a sentence, or read as they are."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from victims import context, record, times

import counterpop as cp
from counterpop.artifacts import load_tested
from counterpop.errors import ArtifactError


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two tuned runs that differ in their split and their vectors."""
    folder = tmp_path_factory.mktemp("versions")
    paths = [folder / "a", folder / "b"]
    for seed, path in enumerate(paths):
        split = cp.split_uniform(cp.make_world(150, 80, seed=seed).log, seed=1)
        run = cp.train(split, dim=4 + seed, epochs=4, threads=1, loss="bpr", negative_power=0.0)
        tuned = cp.tune(run, split, point="gain")
        cp.save_run(run, path, split)
        cp.save_tuning(path, tuned, tuned.grid, tuned.to_json())
    return paths


def test_mutated_folders_are_refused_with_a_sentence(versions: list[Path], tmp_path: Path) -> None:
    chance, refused, read = random.Random(4), 0, 0
    shutil.copytree(versions[0], tmp_path / "run")
    files = [path for path in sorted((tmp_path / "run").rglob("*")) if path.is_file()]
    for _ in range(times(100, 10_000)):
        path = chance.choice(files)
        before = path.read_bytes()
        sealed = path.name == "manifest.json" and chance.random() < 0.5
        after = reseal(before, chance) if sealed else mutate(before, chance)
        path.write_bytes(after)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cp.CounterpopWarning)
                saved, _ = load_tested(tmp_path / "run")
                saved.recommender()
            read += 1
            assert sealed or after == before or same_json(before, after), f"{path.name} was changed in silence"
        except cp.CounterpopError as error:
            refused += 1
            assert "\n" not in str(error)
        path.write_bytes(before)
    record("mutated folders", f"{refused + read:,}", f"{refused:,} refused; {read:,} read: unchanged in meaning, or "
           "edited with a right checksum; no traceback")  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A flipped bit, a changed, inserted or removed stretch, a cut, or another end."""
    at = chance.randrange(len(data) + 1)
    stretch = chance.randbytes(chance.choice((1, 1, 4, 40)))
    kind = chance.randrange(6)
    if kind == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + stretch + data[at + len(stretch) :]
    if kind == 2:
        return data[:at] + stretch + data[at:]
    if kind == 3:
        return data[:at] + data[at + len(stretch) :]
    return data[:at] if kind == 4 else data + stretch


def reseal(data: bytes, chance: random.Random) -> bytes:
    """A manifest with a value that is something else, and the right checksum: damage that only its reader can find."""
    manifest = json.loads(data)
    inside: Any = manifest
    while True:
        key = chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        if not isinstance(inside[key], dict | list) or not inside[key] or chance.random() < 0.3:
            break
        inside = inside[key]
    inside[key] = chance.choice((None, -1, 1.5, 10**30, "", "x", [], {}, [1], {"a": 1}, True))
    if not isinstance(manifest, dict):
        return json.dumps(manifest).encode()
    manifest.pop("checksum", None)
    text = json.dumps(manifest, sort_keys=True)
    return json.dumps({**manifest, "checksum": hashlib.sha256(text.encode()).hexdigest()}).encode()


def same_json(before: bytes, after: bytes) -> bool:
    try:
        return bool(json.loads(before) == json.loads(after))
    except ValueError:
        return False


def test_mutated_logs_are_refused_or_read_as_a_plain_parser_does(tmp_path: Path) -> None:
    chance, refused, read = random.Random(5), Counter[str](), Counter[str]()
    users = ("u1", "7", "007", "ü", '"a,b"', "1e2")
    rows = [(chance.choice(users), str(chance.randrange(30))) for _ in range(60)]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_parquet(tmp_path / "whole.parquet")
    whole = {
        end: "\n".join(by.join(row) for row in [("user", "item"), *rows, ()]).encode()
        for end, by in (("csv", ","), ("tsv", "\t"))
    }
    whole["parquet"] = (tmp_path / "whole.parquet").read_bytes()
    for _ in range(times(100, 10_000)):
        end = chance.choice(("csv", "csv", "tsv", "parquet"))
        path, data = tmp_path / f"log.{end}", mutate(whole[end], chance)
        path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cp.CounterpopWarning)
                log = cp.read_interactions(path)
        except cp.CounterpopError as error:
            refused[end] += 1
            assert "\n" not in str(error)
            continue
        read[end] += 1
        ids = log.user_ids[log.user_ix].tolist(), log.item_ids[log.item_ix].tolist()
        found = {(str(user), str(item)) for user, item in zip(*ids, strict=True)}
        expected = frame_pairs(path) if end == "parquet" else plain_pairs(data, "," if end == "csv" else "\t")
        assert found == expected, f"read in silence as something else: {data!r}"
    kinds = ", ".join(f"{end} {refused[end] + read[end]:,}" for end in whole)
    record("mutated logs", f"{refused.total() + read.total():,} ({kinds})", f"{refused.total():,} refused; "
           f"{read.total():,} read as Python's csv module or polars reads them; no traceback")  # fmt: skip


def frame_pairs(path: Path) -> set[tuple[str, str]]:
    frame = pl.read_parquet(path).drop_nulls(["user", "item"]).with_columns(pl.col(pl.Binary).cast(pl.String))
    return {(str(user), str(item)) for user, item in zip(frame["user"], frame["item"], strict=True)}


def plain_pairs(data: bytes, by: str) -> set[tuple[str, str]]:
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=by))
    at = [rows[0].index(name) for name in ("user", "item")]
    return {(row[at[0]], row[at[1]]) for row in rows[1:] if any(row)}


def write_by_turns(path: Path, versions: list[Path], stop: Path) -> None:
    """Writes the two versions over each other until a file appears."""
    saved = [load_tested(version) for version in versions]
    while not stop.exists():
        for run, split in saved:
            cp.save_run(run.run, path, split)


def test_loads_beside_a_writer_are_never_mixed(versions: list[Path], tmp_path: Path) -> None:
    expected = [load_tested(version) for version in versions]
    path = tmp_path / "run"
    shutil.copytree(versions[0], path)
    writer = context.Process(target=write_by_turns, args=(path, versions, tmp_path / "stop"))
    writer.start()
    loads, seen, refused, needed = 0, Counter[int](), 0, times(60, 10_000)
    while loads < needed or len(seen) < 2:
        assert writer.is_alive()
        try:
            saved, split = load_tested(path)
        except ArtifactError as error:
            assert "while it was read" in str(error)
            refused += 1
            continue
        loads += 1
        which = saved.run.settings["dim"] - 4
        seen[which] += 1
        other, right = expected[which]
        assert np.array_equal(saved.run.embeddings.item_vectors, other.run.embeddings.item_vectors)
        assert np.array_equal(split.test.item_ix, right.test.item_ix)
        assert np.array_equal(saved.known.train.item_ix, right.train.item_ix)
    (tmp_path / "stop").touch()
    writer.join()
    assert writer.exitcode == 0
    record("loads beside a writer", f"{loads:,}", f"none mixed ({seen[0]:,} and {seen[1]:,} of the two versions); "
           f"{refused} gave up with an error")  # fmt: skip
