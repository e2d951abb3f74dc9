"""Every command takes what `debias` wrote as it takes a run, and `load` gives back all of it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.artifacts import load_saved, load_tested
from counterpop.cli import main
from counterpop.errors import ArtifactError, InputError
from counterpop.interactions import pair_keys
from counterpop.reporting import write_debiasing
from counterpop.runs import BOTH_SIDES
from counterpop.splits import Development, Split
from counterpop.worlds import World
from serving_run import serving

POINT = ("--point", "gain")  # the most gain: a small world proves little else


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def call_json(*words: object) -> dict[str, Any]:
    result = call(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def write_log(log: cp.Interactions, path: Path) -> None:
    ids = {"who": [f"u{n}" for n in log.user_ids[log.user_ix]], "item": [f"i{n}" for n in log.item_ids[log.item_ix]]}
    pl.DataFrame(ids).write_parquet(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of true taste plus popularity, a log, a later log, and FIX (with the later log) and ALONE (without)."""
    folder = tmp_path_factory.mktemp("debias")
    world: World = cp.make_world(1500, 300, seed=2)
    split = cp.split_uniform(world.log, test=5, valid=5, ordinary=0, seed=0)
    popularity = np.log1p(world.log.item_counts.astype(np.float32))[:, None]
    users = np.hstack([world.user_taste, np.ones((1500, 1), np.float32)])
    items = np.hstack([world.item_taste, 0.5 * popularity]).astype(np.float32)
    np.savez(folder / "users.npz", vectors=users, ids=[f"u{n}" for n in range(1500)])
    np.savez(folder / "items.npz", vectors=items, ids=[f"i{n}" for n in range(300)])
    for name, part in (("log", split.train), ("later", split.valid), ("latest", split.test)):
        write_log(part, folder / f"{name}.parquet")
    vectors = ("--user-vectors", folder / "users.npz", "--item-vectors", folder / "items.npz")
    log = ("--interactions", folder / "log.parquet", "--user", "who")
    call_json("debias", *vectors, *log, *POINT, "--holdout", folder / "later.parquet", "--out", folder / "FIX")
    call_json("debias", *vectors, *log, *POINT, "--out", folder / "ALONE")
    return folder


@pytest.fixture(scope="module")
def fix(folder: Path) -> cp.Debiasing:
    found = cp.load(folder / "FIX")
    assert isinstance(found, cp.Debiasing) and found.gained
    return found


def expected(folder: Path, **more: Any) -> cp.Debiasing:
    """The same from Python, in memory."""
    log, later = (cp.read_interactions(folder / f"{name}.parquet", user="who") for name in ("log", "later"))
    users, items = (np.load(folder / f"{side}.npz") for side in ("users", "items"))
    ids = {"user_ids": users["ids"].tolist(), "item_ids": items["ids"].tolist()}
    return cp.debias(users["vectors"], items["vectors"], log, **ids, holdout=later, point="gain", **more)


def same(one: Any, other: Any) -> None:
    """Raises unless two values of ours are equal, arrays by their content."""
    if hasattr(one, "__dataclass_fields__"):
        assert type(one) is type(other)
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert [*one] == [*other]
        for name in one:
            same(one[name], other[name])
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_load_gives_back_everything(folder: Path, fix: cp.Debiasing) -> None:
    same(fix, expected(folder))


def test_the_page_can_be_made_again(folder: Path, fix: cp.Debiasing, tmp_path: Path) -> None:
    write_debiasing(fix, tmp_path / "again.html", "log.parquet")
    assert (tmp_path / "again.html").read_text() == (folder / "FIX" / "report.html").read_text()


@pytest.mark.parametrize("name", ["FIX", "ALONE"])
def test_lists_are_those_of_adjusted_vectors_without_seen_items(folder: Path, tmp_path: Path, name: str) -> None:
    call_json("recommend", folder / name, "--k", 15, "--out", tmp_path / "lists.parquet")
    lists = pl.read_parquet(tmp_path / "lists.parquet")
    told = json.loads((folder / name / "adjustment.json").read_text())
    P, Q = (np.load(folder / f"{side}.npz") for side in ("users", "items"))
    p, q = np.array(told["user_direction"]), np.array(told["item_direction"])
    assert told["item_strength"] > 0
    users = P["vectors"] - told["user_strength"] * np.outer(P["vectors"] @ p, p)
    items = Q["vectors"] - told["item_strength"] * np.outer(Q["vectors"] @ q, q)
    scores = users @ items.T
    log = pl.read_parquet(folder / "log.parquet")
    row, column = ({i: n for n, i in enumerate(side["ids"].tolist())} for side in (P, Q))
    scores[[row[u] for u in log["who"]], [column[i] for i in log["item"]]] = -np.inf
    best = np.argsort(-scores, axis=1)[:, :15]
    of_user = lists.group_by("user", maintain_order=True).agg("item", "score")
    assert len(of_user) == 1500
    for user, own, score in of_user.iter_rows():
        assert own == Q["ids"][best[row[user]]].tolist()
        assert score == pytest.approx(scores[row[user], best[row[user]]].tolist(), abs=1e-4)


def test_evaluate_gives_the_proven_effect(folder: Path, fix: cp.Debiasing) -> None:
    told = call_json("evaluate", folder / "FIX")
    for part, effect in ((told, fix.uniform), (told["ordinary"], fix.ordinary)):
        assert part["users"] == len(effect.plain.users)
        assert part["plain"] == json.loads(json.dumps(effect.plain.to_json()))
        assert part["adjusted"] == json.loads(json.dumps(effect.adjusted.to_json()))
        assert part["comparison"] == effect.comparison
    assert told["even"] and told["price"]["lost"] == pytest.approx(fix.points["gain"].price)
    tuned_on = call_json("evaluate", folder / "FIX", "--on", "valid")
    assert tuned_on["adjusted"]["recall"] == pytest.approx(fix.grid.at(*fix.tried)["recall"], rel=1e-6)


def test_evaluate_gives_what_it_gives_for_the_same_vectors_as_a_run(
    folder: Path, fix: cp.Debiasing, tmp_path: Path
) -> None:
    known, nothing = fix.split.development, fix.seen.rows(np.zeros(len(fix.seen), dtype=bool))
    for held, part in (("test", fix.split.test), ("ordinary", known.ordinary)):
        assert part is not None
        split = Split(Development(known.train, nothing, drawn=known.drawn), part, fix.split.manifest)
        cp.save_run(cp.Run(cp.Model(fix.embeddings, dials=BOTH_SIDES)), tmp_path / held, split)
        cp.save_tuning(tmp_path / held, cp.Adjustment(*(getattr(fix, f) for f in STORED)), fix.grid, {})
        run, own = (call_json("evaluate", path) for path in (tmp_path / held, folder / "FIX"))
        own = own if held == "test" else own["ordinary"]
        for name in ("k", "users", "item_strength", "user_strength", "plain", "adjusted", "comparison", "gain"):
            assert run[name] == own[name], name


STORED = ("item_direction", "user_direction", "item_strength", "user_strength")


def test_evaluate_without_a_holdout_says_what_to_pass_and_takes_it(folder: Path, fix: cp.Debiasing) -> None:
    for command in (("evaluate", folder / "ALONE"), ("report", folder / "ALONE", "--out", folder / "alone.html")):
        refused = call(*command)
        assert refused.exit_code == 1
        assert refused.stderr.strip() == (
            "Error: there are no test pairs to measure on, because debias was given no later log; pass one as "
            "--holdout FILE"
        )
    told = call_json("evaluate", folder / "ALONE", "--holdout", folder / "later.parquet")
    alone = cp.load(folder / "ALONE")
    later = cp.read_interactions(folder / "later.parquet", user="who")
    held = set(zip(later.user_ids[later.user_ix].tolist(), later.item_ids[later.item_ix].tolist(), strict=True))
    # a twin of recall on all later pairs, by sets
    recalls = []
    for user in np.unique(later.user_ids[later.user_ix]).tolist():
        own = {item for who, item in held if who == user}
        lists, _ = alone.recommend(alone.seen.user_positions([user]), 20)
        recalls.append(len(own & {*alone.seen.item_ids[lists[0]].tolist()}) / len(own))
    assert told["ordinary"]["adjusted"]["recall"] == pytest.approx(np.mean(recalls))
    assert told["ordinary"]["users"] == len(recalls)
    even = load_tested(folder / "ALONE", folder / "later.parquet")[1].test
    counts = even.item_counts[even.item_counts > 0]
    assert counts.max() <= np.median(np.unique(later.item_ix, return_counts=True)[1])


def test_users_tuned_on_are_left_out_of_another_holdout(folder: Path, fix: cp.Debiasing) -> None:
    _, split = load_tested(folder / "FIX", folder / "latest.parquet")
    assert len(split.test) and not (split.test.user_counts[fix.split.valid.user_counts > 0]).any()
    assert not np.isin(pair_keys(split.test), pair_keys(fix.seen)).any()
    refused = call("evaluate", folder / "ALONE", "--user", "who")
    assert refused.exit_code == 2 and "--user works only together with --holdout" in refused.stderr


def test_a_run_has_a_test_part_of_its_own(tmp_path: Path, folder: Path, split: cp.Split) -> None:
    cp.save_run(cp.train(split, epochs=1, dim=4), tmp_path / "run", split)
    with pytest.raises(InputError, match="has a test part of its own; a holdout"):
        load_tested(tmp_path / "run", folder / "later.parquet")


def test_the_report_shows_what_debias_wrote(folder: Path, tmp_path: Path) -> None:
    told = call_json("report", folder / "FIX", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"{100 * told['runs'][str(folder / 'FIX')]['adjusted']['recall']:.1f}" in page


@pytest.mark.parametrize("name", ["FIX", "ALONE"])
def test_the_audit_of_what_debias_wrote(folder: Path, name: str) -> None:
    told, model = call_json("audit", folder / name, "--k", 10), cp.load(folder / name)
    held = cp.load_split(folder / name).test
    for part, way in ((told, model), (told["plain"], model.with_strengths(0, 0))):
        one = cp.audit_model(way, model.seen, 10, held=held if len(held) else None).as_dict()
        assert {key: part[key] for key in one} == json.loads(json.dumps(one))
    assert told["item_strength"] == model.item_strength
    assert told["average_popularity"] < told["plain"]["average_popularity"]


def test_several_folders_are_audited_together(folder: Path) -> None:
    both = call_json("audit", folder / "FIX", folder / "ALONE", "--k", 10)
    one, other = (call_json("audit", folder / name, "--k", 10) for name in ("FIX", "ALONE"))
    measures = [name for name in both["definitions"] if name != "pop_reo"]
    assert [both[name] for name in measures] == [one[name] for name in measures]
    assert both["plain"]["gini"] == one["plain"]["gini"]
    assert [*both["others"]] == ["ALONE, as trained", "ALONE, adjusted"]
    for name in measures:
        assert both["others"]["ALONE, adjusted"][name] == other[name], name
    (row,) = (row for row in both["between"]["ALONE, adjusted"] if row["name"] == "gini")
    assert row["after"] - row["before"] == pytest.approx(other["gini"] - one["gini"])


def test_a_moved_folder_finds_its_vectors(folder: Path, fix: cp.Debiasing, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    (moved / "elsewhere").mkdir()
    for name in ("users.npz", "items.npz"):  # not those of the first place
        assert json.loads((moved / "FIX" / "manifest.json").read_text())["vectors"][f"{name[:4]}_vectors"]["path"] == (
            f"../{name}"
        )
    same(cp.load(moved / "FIX"), fix)
    shutil.move(moved / "FIX", moved / "elsewhere" / "FIX")  # the files stay where they were first
    same(cp.load(moved / "elsewhere" / "FIX"), fix)


def test_missing_and_changed_vectors_are_one_sentence(folder: Path, fix: cp.Debiasing, tmp_path: Path) -> None:
    vectors = {f"{side}_vectors": tmp_path / f"{side}.npy" for side in ("user", "item")}
    for side, path in vectors.items():
        np.save(path, getattr(fix.embeddings, side))
    cp.save_adjustment(fix, tmp_path / "FIX", made_from=vectors)
    same(cp.load(tmp_path / "FIX"), fix)
    np.save(vectors["item_vectors"], fix.embeddings.item_vectors * 2)
    with pytest.raises(ArtifactError, match=r"item\.npy was changed after .* was made from it; run counterpop debias"):
        cp.load(tmp_path / "FIX")
    vectors["item_vectors"].unlink()
    with pytest.raises(ArtifactError, match=r"refers to vectors that are not there any more \(.*item\.npy\)"):
        cp.load(tmp_path / "FIX")
    refused = call("recommend", tmp_path / "FIX")
    assert refused.exit_code == 1 and refused.stderr.count("\n") == 1
    # a query needs only the directions
    assert np.array_equal(
        cp.load_adjustment(tmp_path / "FIX").query(np.ones(fix.embeddings.dim)), fix.query(np.ones(fix.embeddings.dim))
    )


def test_copied_vectors_need_no_file(folder: Path, fix: cp.Debiasing, tmp_path: Path) -> None:
    cp.save_adjustment(fix, tmp_path / "copy", copy_vectors=True)
    same(cp.load(tmp_path / "copy"), fix)
    cp.save_adjustment(fix, tmp_path / "none")
    with pytest.raises(ArtifactError, match=r"they came from no file; save it again with copy_vectors=True"):
        cp.load(tmp_path / "none")
    cp.save_adjustment(cp.Adjustment(*(getattr(fix, f) for f in STORED)), tmp_path / "bare")
    with pytest.raises(ArtifactError, match=r"bare holds only directions and strengths"):
        cp.load(tmp_path / "bare")


def test_mapped_files_give_the_same(folder: Path, fix: cp.Debiasing, tmp_path: Path) -> None:
    """As the processes of `serve --workers` load it."""
    cp.save_adjustment(fix, tmp_path / "copy", copy_vectors=True)
    for path in (tmp_path / "copy", folder / "FIX"):
        same(load_saved(path, mapped=True).recommender(), fix)


def test_the_copy_option_writes_the_vectors(folder: Path, tmp_path: Path) -> None:
    vectors = ("--user-vectors", folder / "users.npz", "--item-vectors", folder / "items.npz")
    log = ("--interactions", folder / "log.parquet", "--user", "who")
    made = call_json("debias", *vectors, *log, *POINT, "--copy-vectors", "--out", tmp_path / "FIX")
    assert json.loads((tmp_path / "FIX" / "manifest.json").read_text())["vectors"] == {}
    alone = cp.load(folder / "ALONE")
    assert made["item_strength"] == alone.item_strength
    assert np.array_equal(cp.load(tmp_path / "FIX").embeddings.item_vectors, alone.embeddings.item_vectors)


def test_what_debias_wrote_is_served_and_reloaded(folder: Path, tmp_path: Path, fix: cp.Debiasing) -> None:
    run = tmp_path / "served"
    cp.save_adjustment(fix, run, copy_vectors=True)
    with serving(run) as (server, _):
        told = server.get("/recommend?user=u17&k=9")
        lists, _ = fix.recommend(fix.seen.user_positions(["u17"]), 9)
        assert [entry["item"] for entry in told["items"]] == fix.seen.item_ids[lists[0]].tolist()
        assert {entry["item"] for entry in server.get("/history?user=u17")["items"]} == {
            *fix.seen.item_ids[fix.seen.item_ix[fix.seen.user_ix == fix.seen.user_positions(["u17"])[0]]].tolist()
        }
        measured = server.measures()
        a, b = (
            measured[f"{side}_strengths"].index(strength)
            for side, strength in zip(("item", "user"), fix.tried, strict=True)
        )
        assert measured["values"]["recall"][a][b] == pytest.approx(fix.grid.at(*fix.tried)["recall"], rel=1e-6)
        assert measured["values"]["price"][a][b] == pytest.approx(fix.points["gain"].price, rel=1e-6)
        cp.save_adjustment(fix.with_strengths(0.0, 0.0), run, copy_vectors=True)
        plain, _ = fix.recommend(fix.seen.user_positions(["u17"]), 9, 0.0, 0.0)
        for _ in range(100):
            now = [entry["item"] for entry in server.get("/recommend?user=u17&k=9")["items"]]
            if now == fix.seen.item_ids[plain[0]].tolist():
                break
            time.sleep(0.05)
        assert now == fix.seen.item_ids[plain[0]].tolist() != [entry["item"] for entry in told["items"]]


def test_sliders_without_a_later_log_show_what_debias_measured(folder: Path) -> None:
    from counterpop.serving.measures import measure_stops
    from counterpop.serving.watching import load_served

    alone = cp.load(folder / "ALONE")
    assert isinstance(alone, cp.Debiasing)
    measured = measure_stops(load_served(folder / "ALONE"))
    a, b = (measured[f"{side}_strengths"].index(one) for side, one in zip(("item", "user"), alone.tried, strict=True))
    assert measured["values"]["recall"][a][b] == pytest.approx(alone.grid.at(*alone.tried)["recall"], rel=1e-6)
    ordinary = alone.ordinary_grid
    lost = 1 - ordinary.at(*alone.tried)["recall"] / ordinary.at(0.0, 0.0)["recall"]
    assert measured["values"]["price"][a][b] == pytest.approx(lost, rel=1e-6)


def test_the_kind_of_a_folder_is_recognised(folder: Path, fix: cp.Debiasing, tmp_path: Path, split: cp.Split) -> None:
    cp.save_split(split, tmp_path / "split")
    with pytest.raises(ArtifactError, match="is a split folder, but a run or adjustment folder is needed here"):
        cp.load(tmp_path / "split")
    saved = load_saved(folder / "FIX")
    assert saved.name == "FIX" and saved.trained_on() is saved.known.train
    assert saved.settings["item_vectors"] == "items.npz"
    refused = call("tune", folder / "FIX")
    assert "is an adjustment folder, but a run folder is needed here" in refused.stderr
    assert replace(fix, point="free").headline == fix.headline


def test_several_runs_are_audited_together(tmp_path: Path, split: cp.Split, folder: Path) -> None:
    for name, method in (("gradient", "gradient"), ("plain", "plain")):
        run = cp.train(split, method=method, epochs=3, dim=4)
        cp.save_run(run, tmp_path / name, split)
    both = call_json("audit", tmp_path / "gradient", tmp_path / "plain")
    one, other = (call_json("audit", tmp_path / name) for name in ("gradient", "plain"))
    for name in both["definitions"]:
        assert (both[name], both["others"]["plain"][name]) == (one[name], other[name]), name
    refused = call("audit", tmp_path / "plain", folder / "FIX")
    assert refused.exit_code == 1
    assert "only for the same items, but FIX has other items than plain; audit them separately" in refused.stderr


def test_an_untuned_run_warns_once_when_it_is_served(tmp_path: Path, split: cp.Split) -> None:
    cp.save_run(cp.train(split, method="gradient", epochs=2, dim=4), tmp_path / "run", split)
    saved = load_saved(tmp_path / "run")
    with pytest.warns(cp.CounterpopWarning, match="has not been tuned") as told:
        saved.recommender()
    assert len(told) == 1
    (trial, valid), *_ = saved.held_out()  # a second warning would be an error
    assert trial.seen is saved.known.train and valid is saved.known.valid
