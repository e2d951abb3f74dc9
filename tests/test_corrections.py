"""Corrections equal their formulas and are chosen only on validation; calibrated lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import vectors_for
from counterpop.corrections import (
    calibrated_lists,
    choose_calibration,
    correct,
    discount_popularity,
    shorten_items,
    subtract_head,
)
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.evaluation import measure, measure_model
from counterpop.interactions import head
from counterpop.metrics.popularity import popularity_groups
from counterpop.recommender import Recommender
from counterpop.runs import Model, Run
from counterpop.splits import Split


def scores_of(vectors) -> np.ndarray:
    return vectors.user_vectors.astype(np.float64) @ vectors.item_vectors.astype(np.float64).T


@pytest.mark.parametrize("mix", [0.0, 0.5, 1.0])
def test_pc_equals_its_formula(split: Split, mix: float) -> None:
    vectors = vectors_for(split.train)
    plain, rare = scores_of(vectors), 1 / np.maximum(split.train.item_counts, 1)
    change = rare * (mix * plain + 1 - mix)
    change *= np.linalg.norm(plain, axis=1, keepdims=True) / np.linalg.norm(change, axis=1, keepdims=True)
    corrected = scores_of(discount_popularity(vectors, split.train, 0.7, mix))
    assert np.allclose(corrected, plain + 0.7 * change, atol=1e-4)


def test_tten_divides_by_the_length(split: Split) -> None:
    vectors = vectors_for(split.train)
    vectors.item_vectors[3] = 0
    lengths = np.linalg.norm(vectors.item_vectors.astype(np.float64), axis=1)
    lengths[3] = 1
    corrected = scores_of(shorten_items(vectors, split.train, 0.6))
    assert np.allclose(corrected, scores_of(vectors) / lengths**0.6, atol=1e-5)
    assert not corrected[:, 3].any()


def test_the_head_is_subtracted(split: Split) -> None:
    vectors = vectors_for(split.train)
    popular = head(split.train.item_counts)
    taken = subtract_head(vectors, split.train, 1.0).item_vectors
    q = vectors.item_vectors[popular].mean(axis=0) - vectors.item_vectors[~popular].mean(axis=0)
    assert np.abs(taken @ (q / np.linalg.norm(q))).max() < 1e-5


@pytest.mark.parametrize("by", ["pc", "tten", "head-minus-tail"])
def test_strength_0_changes_nothing_and_validation_chooses(split: Split, by: str) -> None:
    """On validation the chosen strengths are at least as good as 0; a refit is corrected with them."""
    run = Run(Model(vectors_for(split.train)), Model(vectors_for(split.train, seed=1)), {"method": "plain"})
    corrected = correct(run, split, by)
    chosen = corrected.settings["correction"]
    assert chosen["valid"] >= chosen["plain"] and corrected.settings["method"] == f"plain+{by}"

    def recall(model: Model) -> float:
        found = find_directions(model, split.train)
        plain = Recommender(found.item, found.user, 0.0, 0.0, embeddings=model.embeddings, seen=split.train)
        return measure_model(plain, split.valid, resamples=0).recall

    assert recall(corrected.model) == pytest.approx(chosen["valid"], abs=1e-9)
    assert recall(run.model) == pytest.approx(chosen["plain"], abs=1e-9)
    apply = {"pc": discount_popularity, "tten": shorten_items, "head-minus-tail": subtract_head}[by]
    again = apply(run.refit.embeddings, split.development.refit_train(), *chosen["strengths"])
    assert np.array_equal(corrected.refit.embeddings.item_vectors, again.item_vectors)


def test_a_wrong_correction_is_rejected(split: Split) -> None:
    run = Run(Model(vectors_for(split.train)))
    with pytest.raises(InputError, match="by must be one of pc, tten, head-minus-tail, got 'luck'"):
        correct(run, split, "luck")
    with pytest.raises(InputError, match="target must be one of"):
        correct(run, split, "tten", target="joy")


# --- calibrated popularity ---


@pytest.fixture(scope="module")
def recommender(split: Split) -> Recommender:
    vectors = vectors_for(split.train)
    # popular items first: all lists are far from what users have seen
    lift = np.zeros_like(vectors.item_vectors)
    lift[:, 0] = 3 * np.log1p(split.train.item_counts)
    users = vectors.user_vectors.copy()
    users[:, 0] = 1
    vectors = replace(vectors, item_vectors=vectors.item_vectors + lift, user_vectors=users)
    found = find_directions(Model(vectors), split.train)
    return Recommender(found.item, found.user, 0.0, 0.0, embeddings=vectors, seen=split.train)


def distance_from_profiles(lists: np.ndarray, split: Split) -> float:
    groups = popularity_groups(split.train.item_counts)
    shares = np.stack([(groups[lists] == g).mean(axis=1) for g in range(5)], axis=1)
    own = np.zeros((split.train.n_users, 5))
    np.add.at(own, (split.train.user_ix, groups[split.train.item_ix]), 1)
    return float(np.abs(shares - own / own.sum(axis=1, keepdims=True)).sum(axis=1).mean())


def test_calibrated_lists_are_closer_to_what_users_have_seen(split: Split, recommender: Recommender) -> None:
    users = np.arange(split.train.n_users, dtype=np.int32)
    plain, _ = recommender.recommend(users, 20)
    lists = {s: calibrated_lists(recommender, users, 20, s) for s in (0.0, 0.5, 1.0)}
    assert np.array_equal(lists[0.0], plain)
    far = {strength: distance_from_profiles(found, split) for strength, found in lists.items()}
    assert far[0.0] > far[0.5] > far[1.0] and far[1.0] < 0.5 * far[0.0]
    seen = np.zeros((split.train.n_users, split.train.n_items), dtype=bool)
    seen[split.train.user_ix, split.train.item_ix] = True
    for found in lists.values():
        assert not seen[users[:, None], found].any()
        assert all(len(set(row)) == 20 for row in found.tolist())


def test_each_item_is_the_best_choice_so_far(split: Split, recommender: Recommender) -> None:
    """Compared with a plain loop over candidates, for a few users."""
    users, strength = np.arange(4, dtype=np.int32), 0.4
    items, scores = recommender.recommend(users, 30)
    groups = popularity_groups(split.train.item_counts)
    found = calibrated_lists(recommender, users, 8, strength, pool=30)
    for u in users:
        rows = split.train.item_ix[split.train.user_ix == u]
        own = np.bincount(groups[rows], minlength=5) / len(rows)
        worth = (scores[u] - scores[u].min()) / (scores[u].max() - scores[u].min())
        chosen: list[int] = []
        for _ in range(8):
            values = {}
            for n in range(30):
                if n in chosen:
                    continue
                share = np.bincount(groups[items[u, [*chosen, n]]], minlength=5) / (len(chosen) + 1)
                middle = (own + share) / 2
                terms = [x * np.log(x / m) for q in (own, share) for x, m in zip(q, middle, strict=True) if x]
                values[n] = (1 - strength) * worth[n] - strength * sum(terms) / 2
            chosen.append(max(values, key=values.get))
        assert found[u].tolist() == items[u, chosen].tolist()


def test_calibration_is_chosen_on_validation(split: Split, recommender: Recommender) -> None:
    known = split.development
    best = choose_calibration(recommender, known, strengths=(0.0, 0.3, 0.9))
    users = np.flatnonzero(known.valid.user_counts).astype(np.int32)
    recall = {
        strength: measure(
            calibrated_lists(recommender, users, 20, strength), users, known.train, known.valid, resamples=0
        ).recall
        for strength in (0.0, 0.3, 0.9)
    }
    assert recall[best] == max(recall.values())
    with pytest.raises(InputError, match="strength must be from 0 to 1, got 2"):
        calibrated_lists(recommender, users, 20, 2)
