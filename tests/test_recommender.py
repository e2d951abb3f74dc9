"""A recommender ranks what its users have not seen, and explains why its lists differ from the plain ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import vectors_for
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.splits import Split


@pytest.fixture(scope="module")
def model(split: Split) -> Recommender:
    vectors = vectors_for(split.train)
    found = find_directions(Model(vectors), split.train)
    return Recommender(found.item, found.user, 0.8, 0.4, embeddings=vectors, seen=split.train)


def full_sort(model: Recommender, user: int, *strengths: float) -> list[int]:
    scores = model.query(model.embeddings.user_vectors[user], *strengths) @ model.embeddings.item_vectors.T
    scores[model.seen.item_ix[model.seen.user_ix == user]] = -np.inf
    return np.argsort(-scores)[: np.isfinite(scores).sum()].tolist()


def test_lists_hold_the_best_unseen_items(model: Recommender) -> None:
    users = np.array([5, 0, 17], dtype=np.int32)
    for strengths in ((), (0.0, 0.0), (1.7, 0.2)):
        lists, scores = model.recommend(users, 12, *strengths)
        assert lists.tolist() == [full_sort(model, user, *strengths)[:12] for user in users]
        assert (np.diff(scores) <= 0).all()
    nothing_seen = replace(model, seen=model.seen.rows(np.zeros(len(model.seen), dtype=bool)))
    assert not np.array_equal(nothing_seen.recommend(users, 12)[0], model.recommend(users, 12)[0])


def test_an_explanation_adds_up(model: Recommender) -> None:
    user = 7
    orders = full_sort(model, user, 0.0, 0.0), full_sort(model, user)
    for rows, order in zip(model.explain(user, 15), orders, strict=True):
        assert [row.item for row in rows] == order[:15]
        for row in rows:
            assert row.plain_score == pytest.approx(row.popular_part + row.conformity_part + row.adjusted_score)
            assert (row.plain_rank, row.adjusted_rank) == tuple(1 + each.index(row.item) for each in orders)
            vector = model.embeddings.item_vectors[row.item]
            assert row.adjusted_score == pytest.approx(
                float(model.query(model.embeddings.user_vectors[user]) @ vector), abs=1e-4
            )


def test_other_strengths_keep_the_model(model: Recommender) -> None:
    other = model.with_strengths(0.0, 2.0)
    assert isinstance(other, Recommender) and other.embeddings is model.embeddings and other.seen is model.seen
    assert other.explain(3)[1] == model.explain(3, item_strength=0.0, user_strength=2.0)[1]


def test_a_log_with_other_items_is_rejected(model: Recommender) -> None:
    other: Interactions = replace(model.seen, item_ids=model.seen.item_ids + 1)
    with pytest.raises(InputError, match="must hold the same items in the same order"):
        replace(model, seen=other)
