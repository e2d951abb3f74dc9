"""The one-pass grid equals separate evaluations, and the best of its points is chosen."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from builders import make_log, random_log, vectors_for
from counterpop import artifacts
from counterpop import grid as grid_layout
from counterpop.adjustment import adjust
from counterpop.directions import Directions, find_directions, lean_of
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.evaluation import evaluate, measure, measure_model
from counterpop.interactions import Interactions, join, pair_keys
from counterpop.metrics.resampling import PER_USER
from counterpop.ranking import rank, tie_order
from counterpop.recommender import Recommender
from counterpop.runs import BOTH_SIDES, Dials, Model, Run
from counterpop.splits import Split, split_from_logs
from counterpop.tuning import STRENGTHS, Grid, choose_strengths, search_strengths, trace_frontier, tune
from counterpop.tuning import search as tuning
from counterpop.tuning.proof import FOLDS, CrossFit, Folded, Frontier, Way, deal_folds
from counterpop.worlds import World

QUARTERS = tuple(n / 4 for n in range(11))
METRICS = (*PER_USER, "coverage", "gini")


def exact_case(train: Interactions, seed: int = 0, largest: int = 3) -> tuple[Embeddings, Directions]:
    """Integer vectors and unit directions of halves, which overlap by a half: with strengths in quarters every score is
    exact in float32 on either path, and there are many ties."""
    draw = np.random.default_rng(seed)
    users, items = (
        draw.integers(-largest, largest + 1, (n, 6)).astype(np.float32) for n in (train.n_users, train.n_items)
    )
    item = np.array([0.5, 0.5, 0.5, 0.5, 0, 0], np.float32)
    user = np.array([0.5, -0.5, 0.5, 0.5, 0, 0], np.float32)
    return Embeddings(users, items, train.user_ids, train.item_ids), Directions(item, user)


def one_by_one(vectors, directions, train, held, k, item_strengths, user_strengths, users=None):
    """Each point evaluated separately: {metric: (A, B)}."""
    values = {name: np.empty((len(item_strengths), len(user_strengths))) for name in METRICS}
    for a, item_strength in enumerate(item_strengths):
        for b, user_strength in enumerate(user_strengths):
            strengths = item_strength, user_strength
            point = Recommender(directions.item, directions.user, *strengths, embeddings=vectors, seen=train)
            if users is None:
                found = measure_model(point, held, k, resamples=0)
            else:
                lists, _ = point.recommend(users, k)
                found = measure(lists, users, train, held, resamples=0)
            for name in METRICS:
                values[name][a, b] = getattr(found, name)
    return values


def assert_same(grid: Grid, expected: dict[str, np.ndarray], atol: float = 1e-9) -> None:
    for name, value in grid.values.items():
        assert np.allclose(value, expected[name], rtol=1e-6, atol=atol), name


@pytest.mark.parametrize("k", [1, 10, 500])
def test_one_pass_equals_121_evaluations(split: Split, k: int) -> None:
    vectors, directions = exact_case(split.train)
    case = (vectors, directions, split.train, split.valid)
    grid = search_strengths(*case, k=k, item_strengths=QUARTERS, user_strengths=QUARTERS)
    expected = one_by_one(*case, k, QUARTERS, QUARTERS)
    assert set(grid.values) == set(METRICS)
    assert_same(grid, expected)
    assert grid.users == len(np.unique(split.valid.user_ix))
    if k == 10:
        assert len(np.unique(grid.values["recall"])) > 60  # the points really differ


def test_one_pass_with_real_vectors_and_the_strengths_of_the_paper(split: Split) -> None:
    vectors = vectors_for(split.train)
    case = (vectors, find_directions(Model(vectors), split.train), split.train, split.valid)
    grid, expected = search_strengths(*case), one_by_one(*case, 20, STRENGTHS, STRENGTHS)
    # scores are rounded differently: where two items nearly tie, one may take the other's place, which moves the mean
    # popularity of one list by the difference of their counts over 20
    differ = {
        n for name, value in grid.values.items() for n in np.flatnonzero(~np.isclose(value, expected[name]).ravel())
    }
    assert len(differ) <= 2
    most = np.ptp(split.train.item_counts) / 20 / grid.users
    assert np.abs(grid.values["average_popularity"] - expected["average_popularity"]).max() <= most


@pytest.mark.parametrize(("cell_items", "most_cells", "anchors"), [(1, 10_000, 5), (4, 9, 1), (10_000, 1, 3)])
@pytest.mark.parametrize("threads", [1, 3])
def test_cells_anchors_and_threads_do_not_change_the_result(
    split: Split, cell_items: int, most_cells: int, anchors: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = (*exact_case(split.train), split.train, split.valid)
    axes = {"item_strengths": QUARTERS, "user_strengths": (0.0, 0.5, 2.5)}
    plain = search_strengths(*case, k=10, **axes)
    for name, value in (("CELL_ITEMS", cell_items), ("MOST_CELLS", most_cells), ("_ANCHORS", anchors)):
        monkeypatch.setattr(grid_layout, name, value)
    assert_same(search_strengths(*case, k=10, threads=threads, **axes), plain.values)


@pytest.mark.parametrize("spread", [1, 60])
@pytest.mark.parametrize("strengths", [(0.0, 0.25, 1.0), (-8.0, 0.0, 1.0, 32.0)])
def test_no_item_is_missed_in_a_large_catalogue(spread: int, strengths: tuple[float, ...]) -> None:
    n_users, n_items = 40, 3000
    train = random_log(n_users, n_items, 0.01)
    held = random_log(n_users, n_items, 0.01, seed=1)
    held = held.rows(~np.isin(held.user_ix * n_items + held.item_ix, train.user_ix * n_items + train.item_ix))
    vectors, directions = exact_case(train, largest=1)
    items = vectors.item_vectors.copy()
    items[::7] *= spread  # a few outliers along both directions
    vectors = dataclasses.replace(vectors, item_vectors=items)
    case = (vectors, directions, train, held)
    grid = search_strengths(*case, k=10, item_strengths=strengths, user_strengths=strengths)
    assert_same(grid, one_by_one(*case, 10, strengths, strengths))


@pytest.mark.parametrize("seed", range(4))
def test_rounding_hides_no_item(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item has a twin, and the strengths remove a thousand times more than they leave."""
    n_users, n_items, dim = 60, 2000, 8
    train, held = random_log(n_users, n_items, 0.01), random_log(n_users, n_items, 0.01, seed=1)
    draw = np.random.default_rng(seed)
    users, items = 0.3 * draw.normal(size=(n_users, dim)), 0.3 * draw.normal(size=(n_items // 2, dim))
    users[:, 0] += 1000 * draw.random(n_users)
    items[:, 0] += 1000 * draw.random(n_items // 2)
    vectors = Embeddings(
        users.astype(np.float32), items.repeat(2, axis=0).astype(np.float32), train.user_ids, train.item_ids
    )
    east = np.eye(dim, dtype=np.float32)[0]
    monkeypatch.setattr(grid_layout, "CELL_ITEMS", 1)
    monkeypatch.setattr(grid_layout, "MOST_CELLS", 10**6)
    case = (vectors, Directions(east, east), train, held)
    grid = search_strengths(*case, k=10)
    closed = tuning.group_items

    def without_bounds(*parts: np.ndarray):
        cells = closed(*parts)
        widest = np.array([-1e30, 1e30, -1e30, 1e30], np.float32)[:, None]
        return dataclasses.replace(cells, boxes=np.repeat(widest, cells.boxes.shape[1], axis=1))

    monkeypatch.setattr(tuning, "group_items", without_bounds)
    whole = search_strengths(*case, k=10)
    assert whole.looked_at > 0.9 * n_items
    for name in METRICS:
        assert np.array_equal(grid.values[name], whole.values[name]), name


def test_most_items_are_ruled_out(split: Split) -> None:
    n_items = 3000
    train, held = random_log(40, n_items, 0.01), random_log(40, n_items, 0.002, seed=1)
    vectors = vectors_for(train, dim=16)
    grid = search_strengths(vectors, find_directions(Model(vectors), train), train, held)
    assert 20 <= grid.looked_at < n_items / 3


def test_skipping_exposure_changes_nothing_else(split: Split) -> None:
    case = (*exact_case(split.train), split.train, split.valid)
    grid, without = (search_strengths(*case, exposure=wanted) for wanted in (True, False))
    assert set(without.values) == set(PER_USER)
    assert_same(without, grid.values)


def test_only_some_users(split: Split) -> None:
    case = (*exact_case(split.train), split.train, split.valid)
    users = np.flatnonzero(split.valid.user_counts)[::5].astype(np.int32)
    axes = {"item_strengths": (0.0, 1.0), "user_strengths": (0.0, 0.5)}
    grid = search_strengths(*case, k=10, users=users, **axes)
    assert grid.users == len(users)
    assert_same(grid, one_by_one(*case, 10, *axes.values(), users=users))


def test_pairs_can_be_weighted(split: Split) -> None:
    vectors, directions = exact_case(split.train)
    weights, k = np.random.default_rng(0).integers(1, 9, len(split.valid)).astype(np.float32), 10
    held = dataclasses.replace(split.valid, weight=weights)
    axes = {"item_strengths": (0.0, 1.0), "user_strengths": (0.0, 1.0)}
    grid = search_strengths(vectors, directions, split.train, held, k=k, **axes)
    point = Recommender(directions.item, directions.user, 1.0, 1.0, embeddings=vectors, seen=split.train)
    users = np.unique(held.user_ix)
    lists, _ = point.recommend(users, k)
    measured = measure(lists, users, split.train, held)
    sums = dict.fromkeys(PER_USER, 0.0)
    total = 0.0
    for u, listed in zip(users, lists, strict=True):
        worth = dict(zip(held.item_ix[held.user_ix == u], weights[held.user_ix == u], strict=True))
        share = sum(worth.values()) / len(worth)
        total += share
        gains = [worth.get(i, 0) for i in listed]
        sums["recall"] += sum(gains) / len(worth)
        sums["hit_rate"] += share * any(gains)
        discount = 1 / np.log2(np.arange(2, k + 2))
        sums["ndcg"] += gains @ discount / discount[: min(k, len(worth))].sum()
        sums["average_popularity"] += share * split.train.item_counts[listed].mean()
    assert grid.weight == pytest.approx(total)
    for name in ("recall", "hit_rate", "ndcg", "average_popularity"):
        assert grid.at(1.0, 1.0)[name] == pytest.approx(sums[name] / total, rel=1e-5), name
        assert getattr(measured, name) == pytest.approx(sums[name] / total), name
        low, high = measured.intervals[name]
        assert low < sums[name] / total < high, name
    folds = deal_folds(len(vectors.user_ids), 0)
    folded = search_strengths(vectors, directions, split.train, held, k=k, **axes, user_groups=folds)
    for name in (
        "recall",
        "hit_rate",
        "ndcg",
        "tail_share",
    ):  # folds count by their weight: together they are the whole
        together = Folded.of(folded, name).mean(np.ones(FOLDS, bool))
        np.testing.assert_allclose(together, grid.values[name], rtol=1e-6, err_msg=name)
    equal = dataclasses.replace(held, weight=np.full(len(held), 3, np.float32))
    same = search_strengths(vectors, directions, split.train, equal, k=k)
    assert_same(search_strengths(vectors, directions, split.train, split.valid, k=k), same.values, atol=1e-6)


def test_nothing_held_out_is_an_error(split: Split) -> None:
    with pytest.raises(InputError, match="but the validation part or one of its users has none"):
        search_strengths(*exact_case(split.train), split.train, split.valid.rows(np.zeros(len(split.valid), bool)))


# --- the choice ---


def made_up_grid(**values: object) -> Grid:
    tables = {name: np.array(table, dtype=np.float64) for name, table in values.items()}
    rows, columns = next(iter(tables.values())).shape
    return Grid(STRENGTHS[:rows], STRENGTHS[:columns], tables, 10, 10.0)


def test_the_point_with_the_best_target_is_chosen() -> None:
    grid = made_up_grid(recall=[[1, 2, 3], [4, 9, 5]], tail_share=[[0, 0, 1], [0, 0, 0]])
    assert choose_strengths(grid) == (0.2, 0.2)
    assert choose_strengths(grid, "tail_share") == (0.0, 0.4)
    assert grid.at(0.2, 0.4) == {"recall": 5, "tail_share": 0}


@pytest.mark.parametrize("target", ["average_popularity", "gini"])
def test_lower_is_better_for_popularity_and_gini(target: str) -> None:
    assert choose_strengths(made_up_grid(**{target: [[5, 4], [3, 4]]}), target) == (0.2, 0.0)


def test_the_weakest_of_equal_points_is_chosen() -> None:
    assert choose_strengths(made_up_grid(recall=[[0, 0, 7], [7, 0, 7]])) == (0.2, 0.0)
    assert choose_strengths(made_up_grid(recall=[[0, 7, 0], [0, 7, 0], [7, 0, 7]])) == (0.0, 0.2)
    assert choose_strengths(made_up_grid(recall=[[7, 7], [7, 7]])) == (0.0, 0.0)


def test_a_floor_on_the_ordinary_part_excludes_points() -> None:
    grid = made_up_grid(recall=[[1, 2, 3], [4, 9, 5]])
    ordinary = made_up_grid(
        ndcg=[[1.0, 0.99, 0.97], [0.98, 0.979, 0.981]], average_popularity=[[100, 90, 90], [103, 101, 102]]
    )
    assert choose_strengths(grid, floor={"ndcg": 0.98}, ordinary=ordinary) == (0.2, 0.4)
    assert choose_strengths(grid, floor={"ndcg": 0.979}, ordinary=ordinary) == (0.2, 0.2)
    # where lower is better: at most 1 / 0.985 of 100, which is 101.5
    assert choose_strengths(grid, floor={"average_popularity": 0.985}, ordinary=ordinary) == (0.2, 0.2)
    assert choose_strengths(grid, floor={"average_popularity": 0.999}, ordinary=ordinary) == (0.0, 0.4)
    both = {"ndcg": 0.98, "average_popularity": 0.999}
    assert choose_strengths(grid, floor=both, ordinary=ordinary) == (0.0, 0.2)


def test_the_frontier_holds_the_points_that_no_other_beats() -> None:
    """Six points; gains 0 1 3 2 3 5, prices 0 2 6 4 4 -2 %: only the last is left, and without it four are."""
    grid = made_up_grid(recall=[[0.1, 0.11, 0.13], [0.12, 0.13, 0.15]])
    ordinary = made_up_grid(recall=[[0.5, 0.49, 0.47], [0.48, 0.48, 0.51]])
    (point,) = trace_frontier(grid, ordinary)
    assert (point.item_strength, point.user_strength) == (0.2, 0.4)
    assert (point.gain, point.price) == (pytest.approx(0.05), pytest.approx(-0.02))
    poor = made_up_grid(recall=[[0.1, 0.11, 0.13], [0.12, 0.13, 0.02]])
    found = trace_frontier(poor, ordinary)
    assert [(p.item_strength, p.user_strength) for p in found] == [(0.2, 0.4), (0.0, 0.0), (0.0, 0.2), (0.2, 0.2)]
    assert [p.price for p in found] == pytest.approx([-0.02, 0.0, 0.02, 0.04])
    popularity = made_up_grid(average_popularity=[[5, 4, 6], [5, 5, 9]])
    assert [p.gain for p in trace_frontier(popularity, ordinary, "average_popularity")] == [-4, 0, 1]


def test_wrong_choices_are_rejected() -> None:
    grid = made_up_grid(recall=[[1, 2]])
    with pytest.raises(InputError, match="target must be one of recall, got 'fame'"):
        choose_strengths(grid, "fame")
    with pytest.raises(InputError, match="a floor is measured on an ordinary validation part, but this split has"):
        choose_strengths(grid, floor={"recall": 0.9})
    with pytest.raises(InputError, match="floor must name one of recall, got 'fame'"):
        choose_strengths(grid, floor={"fame": 0.9}, ordinary=grid)


# --- tune ---


@pytest.fixture(scope="module")
def run(world: World, split: Split) -> Run:
    """A model of the true taste, with popularity on an extra axis that all users follow."""
    popularity = split.train.item_counts[:, None] / split.train.item_counts.max()
    users = np.hstack([world.user_taste, np.ones((split.train.n_users, 1))])
    items = np.hstack([world.item_taste, 4 * popularity])
    ids = split.train.user_ids, split.train.item_ids
    return Run(Model(Embeddings(users.astype(np.float32), items.astype(np.float32), *ids), dials=BOTH_SIDES))


def same_adjustment(first: Recommender, second: Recommender) -> bool:
    return (
        (first.item_strength, first.user_strength) == (second.item_strength, second.user_strength)
        and np.array_equal(first.item_direction, second.item_direction)
        and np.array_equal(first.user_direction, second.user_direction)
        and first.embeddings is second.embeddings
        and first.refit == second.refit
    )


def test_the_point_of_most_gain_is_the_grid_s_maximum(run: Run, split: Split) -> None:
    best = tune(run, split, point="gain", prove=False)
    grid, ordinary = best.grid, best.ordinary
    case = run.embeddings, find_directions(run.model, split.train), split.train
    for found, part in ((grid, split.valid), (ordinary, split.development.ordinary)):
        expected = search_strengths(*case, part).values
        assert all(np.array_equal(found.values[name], expected[name]) for name in METRICS)  # to the last bit
    assert grid.at(best.item_strength, best.user_strength)["recall"] == grid.values["recall"].max()
    assert best.sentence.endswith("without looking for proof.") and best.points == {}
    assert tune(run, split, point="gain").sentence.startswith("Took the grid's maximum")
    assert grid.values["recall"].max() > grid.values["recall"][0, 0] + 0.05
    assert best.embeddings is run.embeddings and not best.refit
    assert same_adjustment(best, tune(run, split, point="gain", prove=False))
    held_back = tune(run, split, floor={"recall": 1.0}, point="gain", prove=False)
    assert ordinary.at(held_back.item_strength, held_back.user_strength)["recall"] >= ordinary.at(0, 0)["recall"]
    fairest = tune(run, split, target="gini", point="gain", prove=False)
    assert grid.at(fairest.item_strength, fairest.user_strength)["gini"] == grid.values["gini"].min()


def test_every_part_is_searched_once(run: Run, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Interactions] = []

    def search(*case: object, **options: object) -> Grid:
        searched.append(case[3])
        return search_strengths(*case, **options)

    monkeypatch.setattr("counterpop.tuning.choosing.search_strengths", search)
    for how in ({"point": "gain"}, {"point": "gain", "prove": False}, {}):
        searched.clear()
        tune(run, split, **how)
        assert searched == [split.valid, split.development.ordinary]


def test_tune_cannot_see_the_test_part(run: Run, split: Split) -> None:
    known = split.development
    everything = np.argwhere(np.ones((split.train.n_users, 3)))
    garbage = dataclasses.replace(
        make_log(everything, split.train.n_users, split.train.n_items),
        user_ids=split.train.user_ids,
        item_ids=split.train.item_ids,
    )
    garbage = garbage.rows(~np.isin(pair_keys(garbage), pair_keys(known.refit_train())))
    best = tune(run, split)
    assert same_adjustment(best, tune(run, dataclasses.replace(split, test=garbage)))
    assert same_adjustment(best, tune(run, known))
    other = dataclasses.replace(known, valid=garbage)
    assert not same_adjustment(best, tune(run, other))  # but validation decides


def test_directions_can_be_named(run: Run, split: Split) -> None:
    best = tune(run, split, item_direction="popularity-mean", user_direction="active-mean")
    named = find_directions(run.model, split.train, "popularity-mean", "active-mean")
    assert np.array_equal(best.item_direction, named.item)
    assert np.array_equal(best.user_direction, named.user)


def test_a_refit_keeps_the_strengths_of_the_first_model_and_has_its_own_directions(run: Run, split: Split) -> None:
    again = Model(vectors_for(split.train, dim=7, seed=9), dials=BOTH_SIDES)
    first, second = tune(run, split), tune(dataclasses.replace(run, refit=again), split)
    assert first.proven and first.item_strength + first.user_strength > 0
    assert (second.item_strength, second.user_strength) == (first.item_strength, first.user_strength)
    assert second.embeddings is again.embeddings and second.refit
    # popular items of train + validation + ordinary, not only of train
    expected = find_directions(again, split.development.refit_train())
    assert np.array_equal(second.item_direction, expected.item)
    assert np.array_equal(second.user_direction, expected.user)
    assert not np.array_equal(expected.item, find_directions(again, split.train).item)


# --- proof ---


def folded_grid(values: list[object], users: int = 20) -> Grid:
    """A grid with a fold for each table of recall."""
    folds = [dataclasses.replace(made_up_grid(recall=table), users=users) for table in values]
    mean = np.mean([fold.values["recall"] for fold in folds], axis=0)
    return dataclasses.replace(made_up_grid(recall=mean), user_groups=tuple(folds))


ALL = np.ones(FOLDS, dtype=bool)


def test_the_smallest_strength_within_one_standard_error_of_the_best_is_taken() -> None:
    """0.2 is worse than 0.4 by .01 on average: within the noise of the folds, or beyond it."""
    noise = np.array([1, -1] * 5)
    for spread, chosen in ((0.04, (0.0, 0.2)), (0.02, (0.0, 0.4))):  # standard errors .0133 and .0067
        grid = folded_grid([[[0.0, 0.30 + spread * n, 0.31]] for n in noise])
        frontier = Frontier(grid, None, "recall", {}, None)
        assert frontier.choose("balanced", ALL) == chosen
        assert frontier.choose("gain", ALL) == (0.0, 0.4)
    without = np.arange(FOLDS) != 0  # the mean of the other folds decides
    grid = folded_grid([[[0.0, 9.0, 0.0]], *[[[0.0, 0.0, 0.1]]] * 9])
    assert Frontier(grid, None, "recall", {}, None).choose("gain", without) == (0.0, 0.4)
    assert Frontier(grid, None, "recall", {}, None).choose("gain", ALL) == (0.0, 0.2)


def test_a_price_and_a_loss_that_is_not_significant() -> None:
    """Ordinary recall falls by 0, 2, 4 and 8 %, the same in every fold but for the first of them."""
    grid = folded_grid([[[0.1, 0.2, 0.3, 0.4]]] * FOLDS)
    ordinary = folded_grid([[[0.5, 0.49 + wobble, 0.48, 0.46]] for wobble in (0.03, -0.03) * 5])
    frontier = Frontier(grid, ordinary, "recall", {}, 0.05)
    assert frontier.choose("gain", ALL) == (0.0, 0.6)
    assert frontier.choose("balanced", ALL) == (0.0, 0.4)  # 4 % and no spread
    assert frontier.choose("free", ALL) == (0.0, 0.2)  # 2 % with a standard error of 2 %
    tight = dataclasses.replace(frontier, price=0.03)
    assert tight.choose("balanced", ALL) == (0.0, 0.0)  # 2 % may be 4 %
    assert dataclasses.replace(frontier, price=0.5).choose("balanced", ALL) == (0.0, 0.6)


def test_every_user_is_measured_at_strengths_chosen_on_others(run: Run, split: Split) -> None:
    """The proof of the most gain, recomputed one fold at a time with searches that leave its users out."""
    proof = tune(run, split, point="gain", k=5).points["gain"]
    fold, directions = deal_folds(split.train.n_users, 0), find_directions(run.model, split.train)
    users = np.flatnonzero(split.valid.user_counts).astype(np.int32)
    case, differences = (run.embeddings, directions, split.train, split.valid), []
    for number in range(FOLDS):
        mine, others = users[fold[users] == number], users[fold[users] != number]
        chosen = choose_strengths(search_strengths(*case, k=5, users=others))
        point = Recommender(directions.item, directions.user, *chosen, embeddings=run.embeddings, seen=split.train)
        found = [
            measure(one.recommend(mine, 5)[0], mine, split.train, split.valid, resamples=0).per_user["recall"]
            for one in (point, point.with_strengths(0.0, 0.0))
        ]
        differences.append(found[0] - found[1])
    difference = np.concatenate(differences)
    assert proof.gain == pytest.approx(difference.mean(), abs=1e-9)
    assert proof.low < proof.gain < proof.high and proof.proven == (proof.p_value < 0.05)
    error = difference.std() / np.sqrt(len(difference))
    assert (proof.high - proof.low) / (2 * 1.96) == pytest.approx(error, rel=0.15)


def test_another_direction_is_taken_only_if_it_is_better_by_more_than_the_noise(run: Run, split: Split) -> None:
    """The other ways are better by .01 and .0098 on average, with standard errors of .0133 and .0067."""
    model = Recommender(*np.eye(2, 6, dtype=np.float32), 0.0, 0.0, embeddings=run.embeddings, seen=split.train)
    ways = [
        Way(model, Frontier(folded_grid(tables), None, "recall", {}, None))
        for tables in (
            [[[0.1, 0.3]]] * FOLDS,
            *([[[0.1, mean + spread * n]] for n in [1, -1] * 5] for mean, spread in ((0.31, 0.04), (0.3098, 0.02))),
        )
    ]
    fold = deal_folds(split.train.n_users, 0)
    for others, cautious, boldest in (((1,), 0, 1), ((2,), 1, 1), ((2, 1), 1, 2), ((1, 2), 2, 1)):
        fit = CrossFit((ways[0], *(ways[n] for n in others)), (split.valid,), fold, 20, 0)
        assert fit.choose("balanced") == (cautious, (0.0, 0.2))
        assert fit.choose("gain") == (boldest, (0.0, 0.2))


def test_the_choice_of_a_direction_is_part_of_the_proof(run: Run, split: Split) -> None:
    """Recomputed one fold at a time: the better of both grids of the other users."""
    tuned = tune(run, split, point="gain", item_direction="auto", k=5)
    fold = deal_folds(split.train.n_users, 0)
    users = np.flatnonzero(split.valid.user_counts).astype(np.int32)
    both = [find_directions(run.model, split.train, *kinds) for kinds in ((None, None), ("ridge", "ridge"))]
    axes = dict.fromkeys(("item_strengths", "user_strengths"), tuned.grid.item_strengths)

    def best(among: np.ndarray) -> tuple[float, Recommender]:
        found = []
        for directions in both:
            grid = search_strengths(run.embeddings, directions, split.train, split.valid, k=5, users=among, **axes)
            chosen = choose_strengths(grid)
            sides = directions.item, directions.user
            model = Recommender(*sides, *chosen, embeddings=run.embeddings, seen=split.train)
            found.append((grid.at(*chosen)["recall"], model))
        return max(found, key=lambda one: one[0])

    assert same_adjustment(tuned, best(users)[1])
    differences = []
    for number in range(FOLDS):
        mine, point = users[fold[users] == number], best(users[fold[users] != number])[1]
        found = [
            measure(one.recommend(mine, 5)[0], mine, split.train, split.valid, resamples=0).per_user["recall"]
            for one in (point, point.with_strengths(0.0, 0.0))
        ]
        differences.append(found[0] - found[1])
    assert tuned.points["gain"].gain == pytest.approx(np.concatenate(differences).mean(), abs=1e-9)


def test_a_refit_has_the_kind_of_directions_that_was_chosen(run: Run, split: Split) -> None:
    known, found = split.development, tune(dataclasses.replace(run, refit=run.model), split, item_direction="auto")
    first, second = (find_directions(run.model, log, *found.kinds) for log in (known.train, known.refit_train()))
    assert np.array_equal(found.trial.item_direction, first.item)
    assert np.array_equal(found.item_direction, second.item)
    assert (found.to_json()["item_direction"], found.to_json()["user_direction"]) == found.kinds


# --- strengths by user ---


def test_one_pass_with_leans_equals_separate_evaluations(split: Split) -> None:
    vectors, directions = exact_case(split.train)
    lean = (np.random.default_rng(3).integers(-8, 9, split.train.n_users) / 4).astype(np.float32)
    axes = (0.0, 0.5, 1.0, 2.0), (-0.5, 0.0, 0.25)
    grid = search_strengths(
        vectors, directions, split.train, split.valid, item_strengths=axes[0], user_strengths=axes[1], lean=lean
    )
    users, ties = np.flatnonzero(split.valid.user_counts).astype(np.int32), tie_order(vectors.item_ids)
    model = Recommender(directions.item, directions.user, 0.0, 0.0, embeddings=vectors, seen=split.train)
    for (n, first), (m, second) in itertools.product(*map(enumerate, axes)):
        queries = model.query(vectors.user_vectors[users], first + second * lean[users], 0.0)
        lists, _ = rank(queries, vectors.item_vectors, 20, users=users, seen=[split.train], ties=ties)
        expected = measure(lists, users, split.train, split.valid, resamples=0)
        for name in METRICS:
            assert grid.values[name][n, m] == pytest.approx(getattr(expected, name), abs=1e-9), name


def two_kinds_of_users() -> tuple[Run, Split]:
    """Half of the users like popular items and half do not, which their history shows; the model believes all do."""
    draw = np.random.default_rng(0)
    fame = np.repeat([3.0, 0.0], [40, 360])
    kind = np.repeat([1, 0], 300)
    taste, items = draw.normal(size=(600, 4)), draw.normal(size=(400, 4))
    wish = taste @ items.T + np.where(kind[:, None] == 1, 2 * fame, 0) + draw.gumbel(size=(600, 400))
    order = np.argsort(-wish, axis=1)[:, :24]
    rows = np.stack([np.repeat(np.arange(600), 24), order.ravel()], axis=1)
    part = np.tile([0] * 16 + [1] * 4 + [2] * 4, (600, 1))
    part = draw.permuted(part, axis=1).ravel()
    train, valid, test = (make_log(rows[part == n], 600, 400) for n in range(3))
    split = split_from_logs(train, test, valid)
    users = np.hstack([taste, np.ones((600, 1))]).astype(np.float32)
    vectors = Embeddings(users, np.hstack([items, fame[:, None]]).astype(np.float32), train.user_ids, train.item_ids)
    return Run(Model(vectors, dials=BOTH_SIDES)), split


def test_strengths_differ_by_user_where_users_differ(tmp_path: Path) -> None:
    run, split = two_kinds_of_users()
    assert lean_of(split.train)[:300].mean() > 0.8 > -0.8 > lean_of(split.train)[300:].mean()
    for point in ("balanced", "gain"):
        same, own = (tune(run, split, point=point, by_user=by_user) for by_user in (False, True))
        assert same.lean == 0 and own.lean < 0 and own.user_strength == 0
        assert "for each standard deviation of lean to popular items" in own.sentence
        assert own.points[point].lean == own.to_json()["lean"] == own.lean
        assert own.points[point].gain > same.points[point].gain
        figures = [evaluate(one, split, on="valid", resamples=0).adjusted.recall for one in (same, own)]
        assert figures[1] > figures[0] + 0.01
        assert figures[1] == pytest.approx(own.measured["recall"])
        assert evaluate(own, split, resamples=0).adjusted.recall > evaluate(same, split, resamples=0).adjusted.recall
    users = np.array([0, 5, 599], dtype=np.int32)
    strengths = (own.item_strength + own.lean * lean_of(own.seen)[users]).astype(np.float32)
    queries = own.query(own.embeddings.user_vectors[users], strengths)
    lists, _ = rank(queries, own.embeddings.item_vectors, 20, users=users, seen=[own.seen], ties=own.ties)
    assert np.array_equal(own.recommend(users)[0], lists)
    assert [row.item for row in own.explain(5)[1]] == lists[1].tolist()
    artifacts.save_run(run, tmp_path / "run", split)
    artifacts.save_tuning(tmp_path / "run", own, own.grid, own.to_json())
    assert np.array_equal(artifacts.load(tmp_path / "run").recommend(users)[0], lists)
    valid = artifacts.load_run(tmp_path / "run").recommender("valid")
    assert evaluate(valid, split, on="valid", resamples=0).adjusted.recall == pytest.approx(figures[1])
    with pytest.raises(InputError, match="item vectors cannot hold strengths that differ by user"):
        adjust(own.embeddings, own)


def test_strengths_are_the_same_for_all_where_users_do_not_differ(run: Run, split: Split) -> None:
    same, own = (tune(run, split, by_user=by_user) for by_user in (False, True))
    assert own.lean == 0 and own.by_lean is None
    assert same_adjustment(own, same) and own.points == same.points
    with pytest.raises(InputError, match="by_user must be proven on a metric of single users"):
        tune(run, split, by_user=True, target="gini")


def test_one_dial_does_what_two_do_along_parallel_directions(run: Run, split: Split) -> None:
    q = find_directions(run.model, split.train).item
    a, b = 0.6, 0.5
    both = search_strengths(
        run.embeddings, Directions(q, q), split.train, split.valid, item_strengths=(0.0, a), user_strengths=(0.0, b)
    )
    tuned = tune(run, split, point="gain", one_dial=True)
    assert tuned.user_strength == 0 and tuned.grid.user_strengths == (0.0,)
    assert set(tuned.grid.item_strengths) >= {round(0.05 * n, 2) for n in range(41)}
    alone = search_strengths(
        run.embeddings, Directions(q, q), split.train, split.valid, item_strengths=(0.0, 0.8), user_strengths=(0.0,)
    )
    assert a + b - a * b == pytest.approx(0.8)
    assert both.at(a, b)["recall"] == pytest.approx(alone.at(0.8, 0.0)["recall"], abs=1e-3)
    assert tuned.measured["recall"] == tuned.grid.values["recall"].max()


def test_a_proven_gain_is_taken_at_its_price(run: Run, split: Split) -> None:
    tuned = tune(run, split)
    point = tuned.points["balanced"]
    assert tuned.proven and tuned.sentence.startswith("Took the balanced point, item strength")
    assert (tuned.item_strength, tuned.user_strength) == (point.item_strength, point.user_strength) != (0.0, 0.0)
    assert point.gain > 0 and point.price <= 0.05 and point.price_low <= point.price <= point.price_high
    assert set(tuned.points) == {"gain", "balanced", "free"}
    assert tuned.to_json()["gain"] == point.gain and tuned.to_json()["validation"] == "uniform"
    assert tuned.to_json()["frontier"] == [dataclasses.asdict(one) for one in tuned.frontier]
    recall = tuned.grid.values["recall"]
    assert tuned.frontier[-1].gain == pytest.approx(recall.max() - recall[0, 0])
    assert all(a.gain < b.gain and a.price < b.price for a, b in itertools.pairwise(tuned.frontier))
    assert tuned.grid.item_strengths == tuned.grid.user_strengths == (0.0, 0.05, 0.1, *STRENGTHS[1:])
    assert "price is unknown" in tune(run, dataclasses.replace(split.development, ordinary=None)).sentence


def test_without_a_proof_strengths_stay_0(split: Split) -> None:
    """Random vectors: whatever the grid's maximum is, it is luck. One in twenty may be taken for proof."""
    proven, moved = 0, 0
    for seed in range(30):
        run = Run(Model(vectors_for(split.train, dim=6, seed=seed), dials=BOTH_SIDES))
        tuned = tune(run, dataclasses.replace(split.development, ordinary=None), k=5)
        proven += tuned.proven
        moved += choose_strengths(tuned.grid) != (0.0, 0.0)
        if not tuned.proven:
            assert (tuned.item_strength, tuned.user_strength) == (0.0, 0.0)
            assert tuned.sentence.startswith("Strengths stay 0, because no gain is proven")
    assert proven <= 3 and moved > 20


def test_no_point_within_the_price_is_said_loudly(run: Run, split: Split) -> None:
    """On the ordinary part of this split every user follows popularity, so any adjustment costs a lot."""
    popular = np.argsort(-split.train.item_counts)[:12]
    pairs = [(user, item) for user in range(split.train.n_users) for item in popular]
    log = make_log(pairs, split.train.n_users, split.train.n_items)
    log = dataclasses.replace(log, user_ids=split.train.user_ids, item_ids=split.train.item_ids)
    ordinary = log.rows(~np.isin(pair_keys(log), pair_keys(join(split.train, split.valid))))
    known = dataclasses.replace(split.development, ordinary=ordinary)
    tuned = tune(run, known, price=0.0)
    assert (tuned.item_strength, tuned.user_strength) == (0.0, 0.0) and not tuned.proven
    assert tuned.points["gain"].proven and tuned.points["gain"].price > 0.05
    assert tuned.sentence.startswith("NO PROVEN POINT KEEPS THE PRICE, so strengths stay 0")
    assert "at most 0 % of ordinary recall" in tuned.sentence
    least = tune(run, known, target="average_popularity", point="gain")
    assert any("recall of the most popular 5 % of items collapses from" in warning for warning in least.warnings)


def test_a_strength_on_the_edge_of_its_grid_is_reported(run: Run, split: Split) -> None:
    short = dataclasses.replace(run.model, dials=Dials(user_strengths=(0.0, 0.6)))
    tuned = tune(dataclasses.replace(run, model=short), split, price=0.5)
    assert (tuned.item_strength, tuned.user_strength) == (0.0, 0.6)
    assert tuned.warnings == ("user strength 0.6 is the largest of its grid; a larger one may be better",)


def test_coverage_and_gini_are_proven_by_intervals_that_are_apart(run: Run, split: Split) -> None:
    for target in ("gini", "coverage", "average_popularity"):
        tuned = tune(run, split, target=target, price=0.5, k=3)
        point = tuned.points["balanced"]
        assert point.proven and point.low > 0 and (point.p_value is None) == (target != "average_popularity")
        before, after = tuned.grid.at(0, 0)[target], tuned.grid.at(tuned.item_strength, tuned.user_strength)[target]
        assert after > before if target == "coverage" else after < before


def test_nothing_to_tune(run: Run, split: Split) -> None:
    plain = dataclasses.replace(run, model=dataclasses.replace(run.model, dials=None))
    tuned = tune(plain, split)
    assert (tuned.item_strength, tuned.user_strength, tuned.points) == (0.0, 0.0, {}) and not tuned.proven
    assert tuned.sentence == "There are no strengths to tune, so they are 0."


def test_wrong_settings_of_tune_are_rejected(run: Run, split: Split) -> None:
    bare = dataclasses.replace(split.development, ordinary=None)
    with pytest.raises(InputError, match="a price is measured on an ordinary validation part"):
        tune(run, bare, price=0.1)
    with pytest.raises(InputError, match="a floor is measured on an ordinary validation part"):
        tune(run, bare, floor={"recall": 0.9})
    with pytest.raises(InputError, match="point must be one of gain, balanced, free, got 'best'"):
        tune(run, split, point="best")
    with pytest.raises(InputError, match=r"price is a share of ordinary recall, at least 0 and below 1, got 1\.5"):
        tune(run, split, price=1.5)
    with pytest.raises(InputError, match="target must be one of"):
        tune(run, split, target="fame")
    with pytest.raises(InputError, match="prove=False goes only with point='gain', which takes a maximum, got 'free'"):
        tune(run, split, point="free", prove=False)


def test_a_zero_user_vector_ties_everything_and_costs_no_more(split: Split) -> None:
    """All scores tie: the list follows the tie order, and no time is spent on removing items one by one."""
    vectors, directions = exact_case(split.train)
    user = int(np.flatnonzero(split.valid.user_counts)[0])
    vectors.user_vectors[user] = 0
    grid = search_strengths(vectors, directions, split.train, split.valid, k=5, users=np.array([user], dtype=np.int32))
    ties = tie_order(vectors.item_ids).astype(float)
    ties[split.train.item_ix[split.train.user_ix == user]] = np.inf
    mean = split.train.item_counts[np.argsort(ties)[:5]].mean()
    assert grid.values["average_popularity"] == pytest.approx(np.full((11, 11), mean))


def test_vectors_of_another_log_are_rejected(split: Split) -> None:
    """Positions that mean other items would rank and measure nonsense."""
    vectors, directions = exact_case(split.train)
    other = dataclasses.replace(split.valid, item_ids=split.valid.item_ids + 1)
    with pytest.raises(InputError, match="must hold the same items in the same order"):
        search_strengths(vectors, directions, split.train, other)
    with pytest.raises(InputError, match="must hold the same items in the same order"):
        measure_model(
            Recommender(directions.item, directions.user, 0.0, 0.0, embeddings=vectors, seen=split.train), other
        )
    with pytest.raises(InputError, match="must hold the same items in the same order"):
        Recommender(directions.item, directions.user, 0.0, 0.0, embeddings=vectors, seen=other)
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        search_strengths(vectors, directions, split.train, split.valid, k=0)


def test_an_unreachable_floor_is_an_error() -> None:
    grid = made_up_grid(recall=[[1, 2]])
    with pytest.raises(InputError, match="no pair of strengths satisfies the floor"):
        choose_strengths(grid, floor={"recall": 3.0}, ordinary=grid)
