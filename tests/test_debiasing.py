"""Vectors trained elsewhere: planted popularity is found, and none is invented."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from builders import make_log
from counterpop.debiasing import Effect
from counterpop.errors import InputError
from counterpop.interactions import pair_keys
from counterpop.worlds import World, taste_recall


@pytest.fixture(scope="module")
def taste_world() -> World:
    return cp.make_world(1500, 300, seed=2)


@pytest.fixture(scope="module")
def split(taste_world: World) -> cp.Split:
    return cp.split_uniform(taste_world.log, test=5, valid=5, ordinary=0, seed=0)


def planted(world: World, amount: float) -> tuple[np.ndarray, np.ndarray]:
    """True taste, and one more dimension: the same for all users, for items their popularity."""
    popularity = np.log1p(world.log.item_counts.astype(np.float32))[:, None]
    users = np.hstack([world.user_taste, np.ones((len(world.user_taste), 1), np.float32)])
    return users, np.hstack([world.item_taste, amount * popularity]).astype(np.float32)


@pytest.mark.parametrize("later", [True, False])
def test_planted_popularity_is_taken_out(taste_world: World, split: cp.Split, later: bool) -> None:
    users, items = planted(taste_world, 0.5)
    given = {"holdout": split.valid, "point": "gain"} if later else {}  # a small holdout: much cannot be told apart
    fix = cp.debias(users, items, split.train, **given)
    assert fix.gained
    assert (fix.agreement is None) is later
    assert fix.uniform.comparison["recall"]["low"] > 0
    assert fix.uniform.adjusted.average_popularity < fix.uniform.plain.average_popularity
    everyone = cp.Embeddings(users, items, split.train.user_ids, split.train.item_ids)
    lists = {}
    for name, queries in (("plain", users), ("fixed", fix.query(users))):
        lists[name], _ = cp.rank(
            queries,
            everyone.item_vectors,
            20,
            users=np.arange(len(users), dtype=np.int32),
            seen=[split.train],
            ties=np.arange(len(items)),
        )
    found = {name: taste_recall(taste_world, top, exclude=split.train).mean() for name, top in lists.items()}
    assert 1 - found["fixed"] < 0.5 * (1 - found["plain"])  # most of what popularity had hidden


def test_pure_taste_is_left_as_it_is(taste_world: World, split: cp.Split) -> None:
    fix = cp.debias(taste_world.user_taste, taste_world.item_taste, split.train, holdout=split.valid)
    assert (fix.item_strength, fix.user_strength, fix.gained) == (0.0, 0.0, False)
    assert np.array_equal(fix.query(taste_world.user_taste), taste_world.user_taste)


def test_no_user_is_both_tuned_and_tested_on(taste_world: World, split: cp.Split) -> None:
    fix = cp.debias(*planted(taste_world, 0.5), split.train, holdout=split.valid)
    assert fix.grid.users + len(fix.ordinary.plain.users) <= (split.valid.user_counts > 0).sum()
    assert len(fix.ordinary.plain.users) > 0.4 * (split.valid.user_counts > 0).sum()


@pytest.mark.parametrize("later", [True, False])
def test_times_do_not_decide_what_is_held_out(taste_world: World, split: cp.Split, later: bool) -> None:
    users, items = planted(taste_world, 0.5)
    assert split.train.time is not None
    found = []
    for keep in (True, False):
        log, held = (one if keep else replace(one, time=None) for one in (split.train, split.valid))
        found.append(cp.debias(users, items, log, holdout=held if later else None))
    timed, untimed = found
    assert np.array_equal(timed.uniform.plain.users, untimed.uniform.plain.users)
    assert timed.uniform.plain.recall == untimed.uniform.plain.recall


def test_the_order_of_rows_does_not_matter(taste_world: World, split: cp.Split) -> None:
    users, items = planted(taste_world, 0.5)
    first = cp.debias(users, items, split.train)
    shuffled = np.random.default_rng(0).permutation(len(items))
    again = cp.debias(
        users, items[shuffled], split.train, item_ids=split.train.item_ids[shuffled], user_ids=split.train.user_ids
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
    with pytest.raises(InputError, match="vector for each of the log's 300 items, in order, got 290; pass item_ids"):
        cp.debias(users, items[:290], log)
    with pytest.raises(InputError, match="item ids must be unique, but 0 occurs more than once"):
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
    with pytest.warns(cp.CounterpopWarning, match="left out .* pairs: 0 users and 10 items have no vector"):
        dropped = cp.debias(users, items[:290], log, item_ids=ids[:290], drop_unknown=True)
    assert dropped.embeddings is not None
    assert len(dropped.embeddings.item_ids) == 290


def test_the_order_of_a_ledger_is_that_of_the_vectors(taste_world: World, split: cp.Split) -> None:
    run = cp.train(split, dim=8, epochs=10, seed=0, refit=False)
    vectors, ledger = run.embeddings, run.ledger
    own = cp.find_directions(run.model, split.train)
    shuffled = np.random.default_rng(0).permutation(split.train.n_items)
    fix = cp.debias(
        vectors.user_vectors,
        vectors.item_vectors[shuffled],
        split.train,
        user_ids=vectors.user_ids,
        item_ids=vectors.item_ids[shuffled],
        ledger=replace(ledger, items=ledger.items[shuffled]),
    )
    assert fix.item_direction == pytest.approx(own.item, abs=1e-6)
    assert fix.user_direction == pytest.approx(own.user, abs=1e-6)


@pytest.mark.parametrize("side", ["user", "item"])
def test_every_mismatch_is_reported(taste_world: World, split: cp.Split, side: str) -> None:
    users, items = planted(taste_world, 0.5)
    given = {
        "user_vectors": users,
        "item_vectors": items,
        "user_ids": split.train.user_ids,
        "item_ids": split.train.item_ids,
    }

    def run(**changed: object) -> cp.Debiasing:
        return cp.debias(**given | changed, interactions=split.train)

    vectors, ids = given[f"{side}_vectors"], given[f"{side}_ids"]
    names = f"{side}_vectors", f"{side}_ids"
    with pytest.raises(InputError, match=f"every {side} needs a vector, but 5 {side}s of the log have none"):
        run(**dict(zip(names, (vectors[5:], ids[5:]), strict=True)))
    extra = np.vstack([vectors, vectors[:3]]), np.append(ids, [10_000, 10_001, 10_002])
    with pytest.warns(cp.CounterpopWarning, match=f"3 of .* {side} vectors have no interaction in the log"):
        run(**dict(zip(names, extra, strict=True)))
    with pytest.raises(InputError, match="must have the same width, got"):
        run(**{names[0]: vectors[:, 1:]})
    with pytest.raises(InputError, match=f"has ids such as 0 and the vectors ids such as 10000; pass {side}_ids"):
        run(**{names[1]: ids + 10_000})
    broken = vectors.copy()
    broken[3, 0] = np.inf
    with pytest.raises(InputError, match=f"1 {side} vectors hold NaN or infinity"):
        run(**{names[0]: broken})
    broken[3] = 0
    with pytest.warns(cp.CounterpopWarning, match=f"1 {side} vectors are all zero"):
        run(**{names[0]: broken})
    mixed = np.random.default_rng(0).permutation(ids)
    with pytest.raises(InputError, match="no more than by chance; check that each vector has the right id"):
        run(**{names[1]: mixed})


def test_targets_and_floors(taste_world: World, split: cp.Split) -> None:
    users, items = planted(taste_world, 0.5)
    free = cp.debias(users, items, split.train, floor={"recall": 0.5}, target="average_popularity")
    bound = cp.debias(users, items, split.train, floor={"recall": 0.98}, target="average_popularity")
    assert free.uniform.adjusted.average_popularity < bound.uniform.adjusted.average_popularity
    assert bound.uniform.adjusted.average_popularity < bound.uniform.plain.average_popularity
    plain, chosen = (bound.ordinary_grid.at(*pair)["recall"] for pair in ((0.0, 0.0), bound.tried))
    assert chosen >= 0.98 * plain
    for target, sign in (("gini", -1), ("tail_share", 1), ("ndcg", 1)):
        found = cp.debias(users, items, split.train, floor={"recall": 0.9}, target=target)
        assert found.gained
        assert sign * (getattr(found.uniform.adjusted, target) - getattr(found.uniform.plain, target)) > 0
    with pytest.warns(
        cp.CounterpopWarning, match="the target coverage without a limit takes the strengths that move it most"
    ):
        cp.debias(users, items, split.train, holdout=split.valid, target="coverage", point="gain")
    with pytest.raises(InputError, match="floor must name one of"):
        cp.debias(users, items, split.train, floor={"speed": 0.9})
    with pytest.raises(InputError, match="'metric' is not a setting; there are target, point, price, floor, k"):
        cp.debias(users, items, split.train, metric="recall")


def test_coverage_and_gini_are_better_if_the_intervals_do_not_overlap() -> None:
    low, same, high = (
        SimpleNamespace(coverage=middle, intervals={"coverage": (middle - 0.05, middle + 0.05)})
        for middle in (0.40, 0.44, 0.60)
    )
    assert Effect(low, high, {}).is_better("coverage")  # type: ignore[arg-type]
    assert not Effect(high, low, {}).is_better("coverage")  # type: ignore[arg-type]
    near = Effect(low, same, {})  # type: ignore[arg-type]
    assert near.gain("coverage") > 0
    assert not near.is_better("coverage")


def test_the_curve_holds_every_point_and_its_frontier(taste_world: World, split: cp.Split) -> None:
    found = cp.debias(*planted(taste_world, 0.5), split.train, holdout=split.valid, point="gain")
    curve = found.curve()
    assert len(curve["frontier"]) == 169
    points = np.column_stack([curve["uniform_recall"], curve["ordinary_recall"]])
    for n, point in enumerate(points):
        beaten = ((points >= point).all(axis=1) & (points > point).any(axis=1)).any()
        assert curve["frontier"][n] == (not beaten)
    at = (curve["item_strength"] == found.tried[0]) & (curve["user_strength"] == found.tried[1])
    assert curve["uniform_recall"][at] == curve["uniform_recall"].max()
    assert found.ordinary_grid.at(0.4, 0.6)["ndcg"] in curve["ordinary_ndcg"]
    assert len(found.frontier) == curve["frontier"].sum()


def test_points_have_gain_and_price_on_users_who_were_not_tuned_on(taste_world: World, split: cp.Split) -> None:
    users, items = planted(taste_world, 0.5)
    with pytest.warns(cp.CounterpopWarning, match="a gain that is judged without a later log may be none"):
        most = cp.debias(users, items, split.train, point="gain")
    found = cp.debias(users, items, split.train)
    assert found.points == most.points and set(found.points) == {"gain", "balanced", "free"}
    assert most.points["gain"].proven and most.points["gain"].price > 0.05  # beyond what "balanced" may cost
    for fix, name in ((most, "gain"), (found, "balanced")):
        point, told = fix.points[name], fix.to_json()
        assert fix.gained and fix.tried == (point.item_strength, point.user_strength)
        plain, adjusted = fix.uniform.plain, fix.uniform.adjusted
        assert point.gain == pytest.approx(adjusted.recall - plain.recall)
        assert point.price == pytest.approx(1 - fix.ordinary.adjusted.recall / fix.ordinary.plain.recall)
        assert point.low < point.gain < point.high and point.price_low < point.price < point.price_high
        assert (told["point"], told["gain"], told["price"], told["proven"]) == (name, point.gain, point.price, True)
        assert f"at a price of {100 * point.price:.1f} % of ordinary recall" in fix.sentences[0]
    assert found.allowed_price == pytest.approx(0.05 * found.agreement)
    assert found.points["balanced"].price <= found.allowed_price < 0.05
    assert cp.debias(users, items, split.train, holdout=split.valid).allowed_price == 0.05
    with pytest.raises(InputError, match=r"price is a share of ordinary recall, at least 0 and below 1, got 2"):
        cp.debias(users, items, split.train, price=2)


def test_large_catalogues_use_a_sample_of_the_users(
    taste_world: World, split: cp.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, items = planted(taste_world, 0.5)
    whole = cp.debias(users, items, split.train)
    assert whole.sample is None
    some = cp.debias(users, items, split.train, users=200)
    monkeypatch.setattr("counterpop.panels.MOST_SCORES", 200 * 300)
    monkeypatch.setattr("counterpop.panels.LEAST_USERS", 1)
    limited = cp.debias(users, items, split.train)
    assert some.to_json() == limited.to_json()
    assert some.sample == 200
    assert some.grid.users == len(some.uniform.plain.users) == len(some.ordinary.plain.users) == 200
    assert np.isin(some.uniform.plain.users, whole.uniform.plain.users).all()
    assert some.gained


def test_too_few_users_raise_an_error() -> None:
    log = make_log([(0, 0), (0, 1), (0, 2)], 1, 3)
    draw = np.random.default_rng(0)
    with pytest.raises(
        InputError, match="held-out pairs of several users are needed, to tune on some and test on others"
    ):
        cp.debias(draw.normal(size=(1, 4)), draw.normal(size=(3, 4)), log)


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
        done = CliRunner().invoke(
            main,
            [
                "debias",
                "--user-vectors",
                str(tmp_path / "users.npy"),
                "--item-vectors",
                str(tmp_path / name),
                "--interactions",
                str(tmp_path / "log.parquet"),
                "--holdout",
                str(tmp_path / "later.csv"),
                "--write-vectors",
                "--json",
                "--force",
                "--out",
                str(tmp_path / "fix"),
            ],
        )
        assert done.exit_code == 0, done.stderr
        printed = json.loads(done.stdout)
        assert printed["uniform"]["adjusted"]["recall"] == expected.uniform.adjusted.recall
        saved = cp.load_adjustment(tmp_path / "fix")
        assert np.array_equal(saved.query(users), expected.query(users))
        assert json.loads((tmp_path / "fix" / "effect.json").read_text())["tried"] == list(expected.tried)
        curve = pl.read_parquet(tmp_path / "fix" / "curve.parquet")
        assert curve["uniform_recall"].to_list() == expected.curve()["uniform_recall"].tolist()
        plain = json.loads((tmp_path / "fix" / "adjustment.json").read_text())
        assert plain["item_direction"] == expected.item_direction.tolist()
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
def test_broken_vector_files_are_refused(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    from counterpop.adapters.files import read_vectors

    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_vectors(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        read_vectors(tmp_path / "missing.npy")


def test_damaged_and_ambiguous_vector_files_are_refused(tmp_path: Path) -> None:
    from counterpop.adapters.files import read_model, read_vectors

    def refused(name: str, reader: Callable[[Path], object] = read_vectors) -> str:
        with pytest.raises(InputError) as caught:
            reader(tmp_path / name)
        return str(caught.value)

    table = np.random.default_rng(0).normal(size=(200, 8))
    np.savez_compressed(tmp_path / "v.npz", vectors=table, user_factors=table, item_factors=table)
    whole = (tmp_path / "v.npz").read_bytes()
    half = len(whole) // 2
    (tmp_path / "v.npz").write_bytes(whole[:500] + bytes(200) + whole[700:])
    assert "cannot be read as npz" in refused("v.npz")
    for broken in (whole[:half], whole[:half] + bytes(200) + whole[half + 200 :]):
        (tmp_path / "v.npz").write_bytes(broken)
        assert "must be a model saved by implicit" in refused("v.npz", read_model)
    header = b'{"vectors":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}'
    (tmp_path / "v.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert "write it again, in float32" in refused("v.safetensors")
    rows = {"id": ["a", "b"], "vector": [[1.0, 2.0], [3.0, 4.0]]}
    pl.DataFrame(rows | {"bias": [1.0, 2.0]}).write_parquet(tmp_path / "v.parquet")
    assert "only the columns 'id' and 'vector', but also has bias" in refused("v.parquet")
    pl.DataFrame(rows | {"id": ["a", None]}).write_parquet(tmp_path / "v.parquet")
    assert "every vector needs an id, but 1 have none" in refused("v.parquet")


def test_the_page_says_what_was_found(taste_world: World, split: cp.Split, tmp_path: Path) -> None:
    from counterpop.reporting import write_debiasing

    log = split.train
    found = cp.debias(*planted(taste_world, 0.5), log, floor={"ndcg": 0.9})
    write_debiasing(found, tmp_path / "page.html", "<shop>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Yes: remove popularity, at item strength {found.tried[0]}, user strength {found.tried[1]}" in page
    assert "&lt;shop&gt;" in page
    assert "<shop>" not in page
    assert "Judged without a later log" in page
    assert "Only strengths that keep 0.9 of ndcg on ordinary held-out pairs were considered." in page
    for effect in (found.uniform, found.ordinary):
        for side in (effect.plain, effect.adjusted):
            assert f"<span>{100 * side.recall:.1f}\u00a0%</span>" in page
    assert "ndcg at least 0.9 of the plain model" in page
    assert "Strengths by segment" not in page
    spread = cp.debias(*planted(taste_world, 0.5), log, target="gini", floor={"recall": 0.9})
    write_debiasing(spread, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "gini improves by" in page
    unsure = {name: replace(point, proven=False, p_value=0.047) for name, point in found.points.items()}
    write_debiasing(replace(found, item_strength=0.0, user_strength=0.0, points=unsure), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Not significant: leave the vectors as they are" in page
    assert "Strengths stay 0, because no gain is proven." in page and "Proof takes p &lt; 0.01." in page
    dear = unsure | {"gain": found.points["gain"]}
    write_debiasing(replace(found, item_strength=0.0, user_strength=0.0, points=dear), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Not at this price: leave the vectors as they are" in page and "NO PROVEN POINT KEEPS THE PRICE" in page
    left = cp.debias(taste_world.user_taste, taste_world.item_taste, log, holdout=split.valid)
    segments = cp.Segments("activity", (5.0, 9.0), ((0.0, 0.2), (0.4, 0.6), (1.0, 1.2)))
    write_debiasing(replace(left, segments=segments, by_segment=left.uniform), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No: leave the vectors as they are" in page
    assert "Judged on a later log." in page
    assert re.search(r'<th scope="row"[^>]*>from 9</th><td[^>]*>1.0</td><td[^>]*>1.2</td>', page)


def test_segments_are_saved_with_the_adjustment(tmp_path: Path) -> None:
    east, north = np.eye(2, dtype=np.float32)
    segments = cp.Segments("head-taste", (0.3, 0.6), ((0.0, 0.2), (0.4, 0.6), (1.0, 1.2)))
    cp.save_adjustment(cp.Adjustment(east, north, 0.4, 0.2, segments=segments), tmp_path / "fix")
    assert cp.load_adjustment(tmp_path / "fix").segments == segments
    cp.save_adjustment(cp.Adjustment(east, north, 0.4, 0.2), tmp_path / "fix")
    assert cp.load_adjustment(tmp_path / "fix").segments is None
