"""Vectors that somebody else trained: a popularity planted by hand is found, and none is invented."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from counterpop.errors import InputError
from counterpop.interactions import pair_keys
from counterpop.worlds import World, taste_recall


@pytest.fixture(scope="module")
def taste_world() -> World:
    return cp.make_world(1500, 300, seed=2)


@pytest.fixture(scope="module")
def split(taste_world: World) -> cp.Split:
    return cp.split_uniform(taste_world.log, test=5, valid=5, seed=0)


def planted(world: World, amount: float) -> tuple[np.ndarray, np.ndarray]:
    """True taste, and one more dimension in which users are alike and items stand by their popularity."""
    popularity = np.log1p(world.log.item_counts.astype(np.float32))[:, None]
    users = np.hstack([world.user_taste, np.ones((len(world.user_taste), 1), np.float32)])
    return users, np.hstack([world.item_taste, amount * popularity]).astype(np.float32)


@pytest.mark.parametrize("later", [True, False])
def test_planted_popularity_is_taken_out(taste_world: World, split: cp.Split, later: bool) -> None:
    users, items = planted(taste_world, 0.5)
    fix = cp.debias(users, items, split.train, holdout=split.valid if later else None)
    assert fix.gained
    assert fix.in_sample is not later
    assert fix.uniform.comparison["recall"]["low"] > 0
    assert fix.uniform.adjusted.average_popularity < fix.uniform.plain.average_popularity
    everyone = cp.Embeddings(users, items, split.train.user_ids, split.train.item_ids)
    lists = {}
    for name, queries in (("plain", users), ("fixed", fix.query(users))):
        lists[name], _ = cp.rank(
            queries, everyone.item_vectors, 20, users=np.arange(len(users), dtype=np.int32),
            seen=[split.train], ties=np.arange(len(items)),
        )  # fmt: skip
    found = {name: taste_recall(taste_world, top, exclude=split.train).mean() for name, top in lists.items()}
    assert 1 - found["fixed"] < 0.5 * (1 - found["plain"])  # most of what popularity had hidden


def test_pure_taste_is_left_alone(taste_world: World, split: cp.Split) -> None:
    fix = cp.debias(taste_world.user_taste, taste_world.item_taste, split.train, holdout=split.valid)
    assert (fix.item_strength, fix.user_strength, fix.gained) == (0.0, 0.0, False)
    assert np.array_equal(fix.query(taste_world.user_taste), taste_world.user_taste)


def test_users_who_choose_and_users_who_prove_are_apart(taste_world: World, split: cp.Split) -> None:
    fix = cp.debias(*planted(taste_world, 0.5), split.train, holdout=split.valid)
    assert fix.grid.users + len(fix.ordinary.plain.users) <= (split.valid.user_counts > 0).sum()
    assert len(fix.ordinary.plain.users) > 0.4 * (split.valid.user_counts > 0).sum()


def test_the_order_of_rows_does_not_matter(taste_world: World, split: cp.Split) -> None:
    users, items = planted(taste_world, 0.5)
    first = cp.debias(users, items, split.train)
    shuffled = np.random.default_rng(0).permutation(len(items))
    again = cp.debias(
        users,
        items[shuffled],
        split.train,
        item_ids=split.train.item_ids[shuffled],
        user_ids=split.train.user_ids,
    )
    assert again.tried == first.tried
    assert again.item_direction == pytest.approx(first.item_direction)
    assert again.uniform.adjusted.recall == first.uniform.adjusted.recall


def test_ids_without_vectors_and_vectors_without_ids(taste_world: World, split: cp.Split) -> None:
    users, items = planted(taste_world, 0.5)
    log, ids = split.train, split.train.item_ids
    with pytest.raises(
        InputError, match=r"every item needs a vector, but 10 items of the log have none \(first: 290\)"
    ):
        cp.debias(users, items[:290], log, item_ids=ids[:290])
    with pytest.raises(
        InputError, match="vector for each of the log's 300 items in their order, got 290; pass item_ids"
    ):
        cp.debias(users, items[:290], log)
    with pytest.raises(InputError, match="item ids must be given once, but 0 comes twice"):
        cp.debias(users, items, log, item_ids=np.maximum(ids, 1) - 1)
    with pytest.raises(InputError, match="each item vector needs an id, got 300 vectors and 299 ids"):
        cp.debias(users, items, log, item_ids=ids[:-1])
    with pytest.raises(InputError, match="same width, got 7 and 6"):
        cp.debias(users, items[:, 1:], log)
    with pytest.raises(InputError, match="the holdout must hold pairs that the log does not"):
        cp.debias(users, items, log, holdout=log)
    broken = items.copy()
    broken[7] = np.nan
    with pytest.raises(InputError, match="1 item vectors hold NaN or infinity"):
        cp.debias(users, broken, log)
    broken[7] = 0
    with pytest.warns(cp.CounterpopWarning, match="1 item vectors are all zero"):
        cp.debias(users, broken, log)
    dropped = cp.debias(users, items[:290], log, item_ids=ids[:290], drop_unknown=True)
    assert dropped.embeddings is not None
    assert len(dropped.embeddings.item_ids) == 290


def test_the_command_in_every_format(
    taste_world: World, split: cp.Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from click.testing import CliRunner
    from safetensors.numpy import save_file

    from counterpop.cli import main

    users, items = planted(taste_world, 0.5)
    ids = split.train.item_ids.astype(np.int64)
    log = split.train
    pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}).write_parquet(
        tmp_path / "log.parquet"
    )
    later = split.valid
    assert not np.isin(pair_keys(later), pair_keys(log)).any()
    pl.DataFrame({"user": later.user_ids[later.user_ix], "item": later.item_ids[later.item_ix]}).write_csv(
        tmp_path / "later.csv"
    )
    np.save(tmp_path / "users.npy", users)
    np.save(tmp_path / "items.npy", items)
    np.savez(tmp_path / "items.npz", vectors=items, ids=ids)
    save_file({"vectors": items, "ids": ids}, tmp_path / "items.safetensors")
    pl.DataFrame({"id": ids, "vector": items}).write_parquet(tmp_path / "items.parquet")
    pl.DataFrame({"id": ids} | {f"d{n}": items[:, n] for n in range(items.shape[1])}).write_parquet(
        tmp_path / "wide.parquet"
    )
    expected = cp.debias(users, items, log, holdout=later)
    for name in ("items.npy", "items.npz", "items.safetensors", "items.parquet", "wide.parquet"):
        done = CliRunner().invoke(main, [
            "debias", "--user-vectors", str(tmp_path / "users.npy"), "--item-vectors", str(tmp_path / name),
            "--interactions", str(tmp_path / "log.parquet"), "--holdout", str(tmp_path / "later.csv"),
            "--write-vectors", "--json", "--out", str(tmp_path / "fix"),
        ])  # fmt: skip
        assert done.exit_code == 0, done.stderr
        printed = json.loads(done.stdout)
        assert printed["uniform"]["adjusted"]["recall"] == expected.uniform.adjusted.recall
        saved = cp.load_adjustment(tmp_path / "fix")
        assert np.array_equal(saved.query(users), expected.query(users))
        written = pl.read_parquet(tmp_path / "fix" / "items.parquet")["vector"].to_numpy()
        assert np.stack(written) @ users[0] == pytest.approx(
            cp.adjust(expected.embeddings, expected).item_vectors @ users[0], abs=1e-5
        )


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("v.npy", b"nonsense", "cannot be read as npy"),
        ("v.safetensors", b"nonsense", "cannot be read as safetensors"),
        ("v.parquet", b"nonsense", "cannot be read as parquet"),
        ("v.npz", b"nonsense", "cannot be read as npz"),
        ("v.txt", b"", "vectors are read from .npy, .npz, .safetensors or .parquet"),
    ],
)
def test_broken_vector_files_are_one_sentence(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    from counterpop.adapters.files import read_vectors

    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_vectors(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        read_vectors(tmp_path / "missing.npy")
