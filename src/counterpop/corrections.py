"""Popularity corrections in common use, for comparison; their strengths are chosen on validation.

Each correction turns `Embeddings` into others whose inner product is the corrected score, so they rank, evaluate,
report and serve like every model. Calibrated popularity chooses whole lists instead. (Drawing negatives by
popularity, another common practice, is `train(..., negative_power=1)`.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np

from counterpop.directions import Directions, find_directions
from counterpop.embeddings import Embeddings, check_same_ids
from counterpop.errors import InputError
from counterpop.evaluation import measure
from counterpop.interactions import IntArray, Interactions
from counterpop.metrics.popularity import HEAD_GROUPS, jensen_shannon, popularity_groups
from counterpop.recommender import Recommender
from counterpop.runs import FIXED, STRENGTHS, Model, Run, Strengths
from counterpop.splits import Development, Split
from counterpop.tuning import LOWER_IS_BETTER, Target, search_strengths

Correction = Literal["pc", "tten", "head-minus-tail"]
CALIBRATIONS = tuple(round(0.1 * n, 1) for n in range(10))
POOL = 100  # items from which a calibrated list is chosen


def discount_popularity(vectors: Embeddings, train: Interactions, strength: float, mix: float) -> Embeddings:
    """PC: s + strength x scale_u x (1/pop_i)(mix s + 1 - mix), as vectors of width 2D + 1.

    scale_u gives both parts the same length over all items. An item without interactions counts as having one.
    Source: Zhu et al., Popularity-opportunity bias in collaborative filtering, 2021.
    Limit: 1/pop is nearly 0 for all but the rarest items, so only those move.
    """
    P, Q = (side.astype(np.float64) for side in (vectors.user_vectors, vectors.item_vectors))
    rare = 1 / np.maximum(train.item_counts, 1)
    # |s_u| and the length of the correction over all items, from (D, D) sums instead of all scores
    own = np.einsum("ud,de,ue->u", P, Q.T @ Q, P)
    weighted = Q * rare[:, None]
    correction = (
        mix**2 * np.einsum("ud,de,ue->u", P, weighted.T @ weighted, P)
        + 2 * mix * (1 - mix) * (P @ (weighted.T @ rare))
        + (1 - mix) ** 2 * (rare @ rare)
    )
    scale = strength * np.sqrt(own / np.maximum(correction, 1e-30))[:, None]
    users, items = np.hstack([P, mix * scale * P, (1 - mix) * scale]), np.hstack([Q, weighted, rare[:, None]])
    return replace(vectors, user_vectors=users.astype(np.float32), item_vectors=items.astype(np.float32))


def shorten_items(vectors: Embeddings, train: Interactions, strength: float) -> Embeddings:
    """TTEN: u.i / |i| ** strength; 1 ranks by the cosine. A zero vector stays zero.

    Source: Kim et al., Test-time embedding normalization for popularity bias mitigation, 2023.
    Limit: removes only the effect of popularity on lengths. If popular items do not have longer vectors, as in
    some BPR models, it does harm, and validation chooses 0.
    """
    lengths = np.linalg.norm(vectors.item_vectors, axis=1, keepdims=True)
    power = np.where(lengths > 0, lengths, 1) ** np.float32(strength)
    return replace(vectors, item_vectors=vectors.item_vectors / power)


def subtract_head(vectors: Embeddings, train: Interactions, strength: float) -> Embeddings:
    """Item vectors less `strength` x their part along the mean popular item minus the mean other item.

    Limit: a difference of means contains everything else that popular items have in common, such as their genre.
    """
    q = find_directions(Model(vectors), train, item="head-minus-tail", user="mean").item
    along = (vectors.item_vectors @ q)[:, None] * q
    return replace(vectors, item_vectors=vectors.item_vectors - np.float32(strength) * along)


# each with the strengths to try: every combination, the weakest first
CORRECTIONS: dict[Correction, tuple[Callable[..., Embeddings], tuple[Strengths, ...]]] = {
    "pc": (discount_popularity, (tuple(round(0.1 * n, 1) for n in range(11)), (0.0, 0.5, 1.0))),
    "tten": (shorten_items, (tuple(round(0.1 * n, 1) for n in range(16)),)),
    "head-minus-tail": (subtract_head, (STRENGTHS,)),
}


def correct(run: Run, split: Split | Development, by: Correction, *, target: Target = "recall", k: int = 20) -> Run:
    """A run with corrected vectors, at the strengths that are best on validation (the weakest if several are).

    Strengths are chosen on the model trained without the validation part; if the run was refit, they are used to
    correct the second model. `settings["correction"]` records the choice. The test part is never used.

    >>> from counterpop.splits import split_uniform
    >>> from counterpop.worlds import make_world
    >>> split = split_uniform(make_world(60, 40, mean_activity=8).log, test=1, valid=1)
    >>> draw = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    >>> vectors = Embeddings(draw[:60], draw[60:], split.train.user_ids, split.train.item_ids)
    >>> correct(Run(Model(vectors)), split, "tten").settings["correction"]["by"]
    'tten'
    """
    if by not in CORRECTIONS:
        raise InputError(f"by must be one of {', '.join(CORRECTIONS)}, got {by!r}")
    known = split.development if isinstance(split, Split) else split
    vectors, (apply, grids) = run.model.embeddings, CORRECTIONS[by]
    check_same_ids(vectors, known.train, known.valid)
    sign = -1.0 if target in LOWER_IS_BETTER else 1.0
    tried = [
        (strengths, _measure(apply(vectors, known.train, *strengths), known, target, k))
        for strengths in product(*grids)
    ]
    best, value = max(tried, key=lambda trial: sign * trial[1])
    refit = None
    if run.refit is not None:
        refit = Model(apply(run.refit.embeddings, known.refit_train(), *best))
    chosen = {"by": by, "strengths": list(best), "target": target, "k": k, "valid": value, "plain": tried[0][1]}
    named = {"method": f"{run.settings.get('method', 'plain')}+{by}", "correction": chosen}
    return Run(Model(apply(vectors, known.train, *best)), refit, run.settings | named, run.history)


def _measure(vectors: Embeddings, known: Development, target: Target, k: int) -> float:
    still = np.zeros(vectors.dim, np.float32)
    case = vectors, Directions(still, still), known.train, known.valid
    exposure = target in ("coverage", "gini")
    grid = search_strengths(*case, k=k, item_strengths=FIXED, user_strengths=FIXED, exposure=exposure)
    if target not in grid.values:
        raise InputError(f"target must be one of {', '.join(grid.values)}, got {target!r}")
    return grid.at(0.0, 0.0)[target]


def calibrated_lists(recommender: Recommender, users: IntArray, k: int, strength: float, pool: int = POOL) -> IntArray:
    """(B, K) lists whose popularity resembles what their user has seen, chosen from the best `pool` items.

    Items are added one at a time: the one with the largest (1 - strength) x its relevance - strength x the
    Jensen-Shannon divergence (in nats) between the shares of the five popularity groups in the list with it and in
    the user's seen items. Relevance is the score, scaled from 0 for the worst of the pool to 1 for the best. -1
    fills a list that runs out of items.
    Source: Abdollahpouri et al., User-centered evaluation of popularity bias, 2021.
    Limit: a user who saw mostly popular items keeps getting them; this calibrates the bias but does not remove it.
    """
    if not 0 <= strength <= 1:
        raise InputError(f"strength must be from 0 to 1, got {strength}")
    items, scores = recommender.recommend(users, max(pool, k))
    seen = recommender.seen
    group_of = popularity_groups(seen.item_counts)
    profile = np.zeros((seen.n_users, HEAD_GROUPS + 1))
    np.add.at(profile, (seen.user_ix, group_of[seen.item_ix]), 1)
    profile = profile[users] / np.maximum(1, seen.user_counts[users])[:, None]
    filled = items >= 0
    low = np.where(filled, scores, np.inf).min(axis=1, keepdims=True)
    spread = scores[:, :1] - low
    relevance = np.where(filled, scores - low, 0) / np.where(spread > 0, spread, 1)
    groups, rows = group_of[items], np.arange(len(users))
    left, shares = filled.copy(), np.zeros_like(profile)
    lists = np.full((len(users), min(k, items.shape[1])), -1, dtype=np.int32)
    for place in range(lists.shape[1]):
        nexts = (place * shares[:, None] + np.eye(HEAD_GROUPS + 1)) / (place + 1)  # (B, groups, groups)
        cost = np.log(2) * jensen_shannon(profile[:, None], nexts)
        value = (1 - strength) * relevance - strength * np.take_along_axis(cost, groups, axis=1)
        best = np.where(left, value, -np.inf).argmax(axis=1)
        there = left[rows, best]
        lists[:, place] = np.where(there, items[rows, best], -1)
        shares = np.where(there[:, None], nexts[rows, groups[rows, best]], shares)
        left[rows, best] = False
    return lists


def choose_calibration(
    recommender: Recommender, known: Development, *, k: int = 20, strengths: Sequence[float] = CALIBRATIONS
) -> float:
    """The strength of `calibrated_lists` with the best recall on validation; the first of equally good ones."""
    users = np.flatnonzero(known.valid.user_counts).astype(np.int32)
    recommender = replace(recommender, seen=known.train)
    recall = {}
    for strength in strengths:
        lists = calibrated_lists(recommender, users, k, strength)
        recall[strength] = measure(lists, users, known.train, known.valid, resamples=0).recall
    return max(recall, key=lambda strength: recall[strength])
