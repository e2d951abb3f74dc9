"""Without a later log: vectors are rebuilt without the held-out pairs, and the verdict agrees with the truth."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import counterpop as cp
from builders import train_als
from counterpop.debiasing import hold_out
from counterpop.debiasing.rebuilding import LogHistories, fit_fold_in, rebuild
from counterpop.folding import fold_in, ridge, transposed
from counterpop.worlds import World, taste_recall


@pytest.fixture(scope="module")
def biased() -> World:
    return cp.make_world(2500, 400, exponent=1.0, seed=3)


@pytest.mark.parametrize("others", [0.0, 0.03, 1.0])
def test_fold_in_is_weighted_least_squares(others: float) -> None:
    V = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    histories = [np.array(h, dtype=np.int32) for h in ([3, 9], [], list(range(5, 35)))]
    for rows, vector in zip(histories, fold_in(V, histories, 2.5, others), strict=True):
        wanted, weight = np.zeros(40), np.full(40, others)
        weight[rows] = 1.0
        wanted[rows] = 1.0
        root = np.sqrt(weight)[:, None]
        stacked = np.vstack([root * V, np.sqrt(2.5) * np.eye(6)])
        expected = np.linalg.lstsq(stacked, np.r_[root[:, 0] * wanted, np.zeros(6)], rcond=None)[0]
        assert vector == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_als_is_reproduced_and_random_vectors_are_not(biased: World) -> None:
    log = biased.log
    users, items = train_als(log)
    of_users = fit_fold_in(users, LogHistories(items, log), 20, 0)
    of_items = fit_fold_in(items, LogHistories(users, transposed(log)), 20, 0)
    assert of_users.kind.others == of_items.kind.others == 1.0
    assert min(of_users.agreement, of_items.agreement) > 0.95
    again = of_users.rebuild(LogHistories(items, log), np.arange(50, dtype=np.int32))
    assert again == pytest.approx(users[:50], abs=0.02 * float(np.abs(users).max()))
    draw = np.random.default_rng(0)
    for mean in (0.0, 3.0):  # a common part, which any rebuilt vector has as well, is no agreement
        noise = (mean + draw.normal(size=users.shape)).astype(np.float32)
        assert fit_fold_in(noise, LogHistories(items, log), 20, 0).agreement < 0.1


def test_vectors_that_cannot_be_rebuilt_prove_nothing(biased: World) -> None:
    users, items = train_als(biased.log)
    noise = np.random.default_rng(0).normal(size=users.shape) * users.std(axis=0)
    found = cp.debias((users + 3 * noise).astype(np.float32), items, biased.log)
    assert (found.gained, found.provable, found.item_strength, found.user_strength) == (False, False, 0.0, 0.0)
    assert found.headline.startswith("No proof without a later log")
    assert found.sentences == [found.how_judged]
    assert found.how_judged.startswith("No proof is possible without a later log (--holdout)")
    printed = json.loads(json.dumps(found.to_json()))
    assert printed["how_judged"] == found.how_judged
    assert printed["agreement"] < 0.55


def test_rebuilt_vectors_are_those_of_a_log_without_the_pairs(biased: World) -> None:
    """Every formula written out densely, and recall counted by hand."""
    log = replace(biased.log, time=None)
    users, items = train_als(log)
    found = cp.debias(users, items, log)
    vectors = cp.Embeddings(users, items, log.user_ids, log.item_ids)
    part = rebuild(hold_out(log, None, 0), vectors, log, 20, 0)[0].parts[0]
    of_users = fit_fold_in(users, LogHistories(items, log), 20, 0)
    of_items = fit_fold_in(items, LogHistories(users, transposed(log)), 20, 0)
    dense, kept = np.zeros((2, log.n_users, log.n_items))
    dense[log.user_ix, log.item_ix] = 1
    kept[part.seen.user_ix, part.seen.item_ix] = 1
    assert ((dense - kept).sum(axis=0) <= dense.sum(axis=0) / 2).all()

    def solved(V: np.ndarray, histories: np.ndarray, reg: float) -> np.ndarray:
        V = V.astype(np.float64)
        folded = histories @ V @ np.linalg.inv(V.T @ V + reg * np.eye(V.shape[1]))
        return np.column_stack([folded, np.ones(len(folded))])

    assert of_users.kind.reg == pytest.approx(0.1 * np.mean((items**2).sum(axis=1)), rel=1e-5)
    less = solved(users, (kept - dense).T, of_items.kind.reg)[:, :-1] @ of_items.to_given[:-1]
    new_items = items + less
    new_users = solved(new_items, kept, of_users.kind.reg) @ of_users.to_given
    q, p = found.item_direction.astype(float), found.user_direction.astype(float)
    tested = np.unique(part.test.user_ix)
    for (a, b), measured in (((0.0, 0.0), found.uniform.plain), (found.tried, found.uniform.adjusted)):
        x = new_users - b * np.outer(new_users @ p, p)
        scores = (x - a * np.outer(x @ q, q)) @ new_items.T
        scores[kept > 0] = -np.inf
        recalls = []
        for user in tested:
            held = part.test.item_ix[part.test.user_ix == user]
            recalls.append(np.isin(held, np.argsort(-scores[user])[:20]).mean())
        assert measured.recall == pytest.approx(np.mean(recalls), abs=1e-3)
        assert len(measured.users) == len(tested)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dim", [8, 24])
def test_the_verdict_agrees_with_the_truth(exponent: float, dim: int) -> None:
    """Worlds from no exposure bias to a strong one: what is proven finds more of the users' true favourites."""
    world = cp.make_world(2500, 400, exponent=exponent, seed=4)
    found = cp.debias(*train_als(world.log, dim), world.log)
    assert found.provable
    everybody = np.arange(2500, dtype=np.int32)
    plain, adjusted = (
        taste_recall(world, model.recommend(everybody)[0], exclude=world.log)
        for model in (found.with_strengths(0.0, 0.0), found)
    )
    assert found.gained == (exponent > 0)
    if found.gained:
        assert adjusted.mean() > 1.1 * plain.mean()


def test_the_reg_is_a_multiple_of_the_mean_squared_length() -> None:
    V = np.array([[3.0, 4.0], [0.0, 1.0]], dtype=np.float32)
    assert ridge(V) == pytest.approx(4 * 13)
    assert ridge(V, 0.1) == pytest.approx(1.3)
    assert ridge(0 * V) == 1.0
