"""The projection and the query transform are equivalent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpop.adjustment import adjust
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.recommender import Recommender

strengths = st.floats(-3, 3)
seeds = st.integers(0, 2**32 - 1)


def random_adjustment(seed: int, item_strength: float, user_strength: float, dim: int = 7) -> Recommender:
    draw = np.random.default_rng(seed)
    vectors = Embeddings(
        draw.normal(size=(5, dim)).astype(np.float32),
        draw.normal(size=(9, dim)).astype(np.float32),
        np.arange(5),
        np.arange(9),
    )
    q, p = (v / np.linalg.norm(v) for v in draw.normal(size=(2, dim)))
    nothing = Interactions(np.zeros(0, np.int32), np.zeros(0, np.int32), vectors.user_ids, vectors.item_ids)
    directions = q.astype(np.float32), p.astype(np.float32)
    return Recommender(*directions, item_strength, user_strength, embeddings=vectors, seen=nothing)


def formula(a: Recommender) -> np.ndarray:
    """P'.Q' as METHOD.md writes it, in float64."""
    P, Q = a.embeddings.user_vectors.astype(np.float64), a.embeddings.item_vectors.astype(np.float64)
    q, p = a.item_direction.astype(np.float64), a.user_direction.astype(np.float64)
    Q = np.stack([row - a.item_strength * (row @ q) * q for row in Q])
    P = np.stack([row - a.user_strength * (row @ p) * p for row in P])
    return P @ Q.T


@given(seeds, strengths, strengths)
def test_query_and_adjusted_vectors_give_the_scores_of_the_formula(seed: int, a: float, b: float) -> None:
    adjustment = random_adjustment(seed, a, b)
    vectors = adjustment.embeddings
    expected = formula(adjustment)
    close = {"rtol": 1e-4, "atol": 1e-4 * (1 + np.abs(expected).max())}
    assert np.allclose(adjustment.query(vectors.user_vectors) @ vectors.item_vectors.T, expected, **close)
    stored = adjust(vectors, adjustment)
    assert np.allclose(stored.user_vectors @ stored.item_vectors.T, expected, **close)
    assert np.array_equal(stored.user_ids, vectors.user_ids)
    assert np.array_equal(stored.item_ids, vectors.item_ids)


@given(seeds)
def test_strength_zero_is_the_identity(seed: int) -> None:
    adjustment = random_adjustment(seed, 0.0, 0.0)
    vectors = adjustment.embeddings
    assert np.array_equal(adjustment.query(vectors.user_vectors), vectors.user_vectors)
    stored = adjust(vectors, adjustment)
    assert np.array_equal(stored.user_vectors, vectors.user_vectors)
    assert np.array_equal(stored.item_vectors, vectors.item_vectors)


@given(seeds)
def test_strength_one_removes_the_direction(seed: int) -> None:
    adjustment = random_adjustment(seed, 1.0, 1.0)
    stored = adjust(adjustment.embeddings, adjustment)
    assert np.abs(stored.item_vectors @ adjustment.item_direction).max() < 1e-5
    assert np.abs(stored.user_vectors @ adjustment.user_direction).max() < 1e-5
    only_items = adjustment.with_strengths(1.0, 0.0)
    query = only_items.query(adjustment.embeddings.user_vectors)
    assert np.abs(query @ adjustment.item_direction).max() < 1e-5


def test_many_queries_equal_single_ones() -> None:
    adjustment = random_adjustment(0, 0.6, 1.4)
    users = adjustment.embeddings.user_vectors
    together = adjustment.query(users)
    assert together.shape == users.shape
    assert np.allclose(together, np.stack([adjustment.query(u) for u in users]), rtol=1e-6, atol=1e-6)
    deeper = adjustment.query(np.stack([users, 2 * users]))
    assert np.allclose(deeper, np.stack([together, 2 * together]), rtol=1e-6, atol=1e-6)


def test_strengths_of_a_request_override_the_tuned_ones() -> None:
    adjustment = random_adjustment(0, 0.6, 1.4)
    user = adjustment.embeddings.user_vectors[0]
    for asked, meant in (
        ({"item_strength": 0.0}, (0.0, 1.4)),
        ({"user_strength": 0.0}, (0.6, 0.0)),
        ({"item_strength": 2.0, "user_strength": 0.5}, (2.0, 0.5)),
    ):
        assert np.array_equal(adjustment.query(user, **asked), adjustment.with_strengths(*meant).query(user))
    assert not np.array_equal(adjustment.query(user), user)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_queries_are_float32(dtype: type) -> None:
    adjustment = random_adjustment(0, 0.6, 1.4)
    assert adjustment.query(adjustment.embeddings.user_vectors.astype(dtype)).dtype == np.float32
    stored = adjust(adjustment.embeddings, adjustment)
    assert stored.user_vectors.dtype == stored.item_vectors.dtype == np.float32


@pytest.mark.parametrize("shape", [(6,), (5, 8), ()])
def test_a_vector_of_another_width_is_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"a user vector must have 7 numbers, like the directions, got shape"):
        random_adjustment(0, 0.6, 1.4).query(np.zeros(shape))


@pytest.mark.parametrize("strength", [float("nan"), float("inf")])
def test_strengths_must_be_finite(strength: float) -> None:
    with pytest.raises(InputError, match="item_strength must be a finite number"):
        random_adjustment(0, strength, 0.0)
    with pytest.raises(InputError, match="user_strength must be a finite number"):
        random_adjustment(0, 0.0, 0.0).with_strengths(0.0, strength)


def test_each_vector_may_have_its_own_strengths() -> None:
    adjustment = random_adjustment(0, 0.6, 1.4)
    users = adjustment.embeddings.user_vectors
    item, user = np.linspace(0, 2, 5, dtype=np.float32), np.linspace(1, 0, 5, dtype=np.float32)
    together = adjustment.query(users, item, user)
    apart = [adjustment.query(u, float(a), float(b)) for u, a, b in zip(users, item, user, strict=True)]
    assert np.allclose(together, np.stack(apart), rtol=1e-6, atol=1e-6)
    assert together.dtype == np.float32
    with pytest.raises(InputError, match=r"one number, or one for each of the vectors \(5,\), got shapes \(4,\)"):
        adjustment.query(users, item[:4])
    with pytest.raises(InputError, match="strengths must be finite numbers"):
        adjustment.query(users, np.full(5, np.nan, dtype=np.float32))
