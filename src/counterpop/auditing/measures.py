"""The figures of an audit, measured on lists of item positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing.definitions import CLASSES, DEFINITIONS, NOTES, SEGMENTS
from counterpop.auditing.verdict import Audit
from counterpop.errors import InputError
from counterpop.interactions import BoolArray, IntArray, Interactions, gini, head, pair_keys, places_in_groups, ranks_of
from counterpop.ledger import Ledger, gradient_picture
from counterpop.metrics import popularity
from counterpop.metrics.accuracy import find_hits
from counterpop.recommender import Recommender

PerUser = Mapping[str, NDArray[np.float64]]
SEGMENT_SHARE = 0.2  # of the users at either end: 20 / 60 / 20, as published
REPEATS = 0.01  # share of places: from here on a system is taken to show items that users already have
# means over all lists; the others are over the users who have a profile as well
OF_LISTS = ("average_popularity", "expected_popularity", "amplification", "tail_share", "expected_tail_share")
MOST_RECOMMENDED = 0.01  # of the items, in `most_recommended_share`


def audit(
    lists: IntArray,
    users: IntArray,
    log: Interactions,
    *,
    held: Interactions | None = None,
    ledger: Ledger | None = None,
    notes: Mapping[str, int] | None = None,
) -> Audit:
    """The bias of lists (B, K) of item positions, one for each of `users`; -1 is an empty place.

    Popularity and profiles are those of `log`. `held` (in the positions of the log) holds what users liked later, for
    equal opportunity; pairs that are also in the log are left out of it. `notes` adds numbers by the names of `NOTES`.
    Each user must have one list, and each item must be in it once.

    >>> from counterpop.worlds import make_world
    >>> log = make_world(300, 200, seed=0).log
    >>> everybody = np.arange(log.n_users, dtype=np.int32)
    >>> hits = np.argsort(-log.item_counts)[:10].astype(np.int32)       # the same ten for everybody
    >>> audit(np.tile(hits, (log.n_users, 1)), everybody, log).verdict.leaning
    'popular'
    """
    _check(lists, users, log, held)
    popular, class_of = head(log.item_counts), popularity.popularity_classes(log.item_counts)
    exposed = popularity.exposure(lists, log.n_items)
    fresh = (lists >= 0) & ~find_hits(lists, users, log)
    again = np.zeros(0, bool) if held is None else np.isin(pair_keys(held), pair_keys(log))
    shown = _shares(popularity.places_by_group(lists, class_of, len(CLASSES), lists >= 0))
    chosen = _shares(_rows_by_class(log, class_of)[users])
    per_user = _measure_users(lists, users, log, fresh) | {
        "profile_tail_share": chosen[:, 2],
        "miscalibration": popularity.jensen_shannon(shown, chosen),
    }
    has_both = np.isfinite(per_user["miscalibration"])  # users who have a list and a profile
    over_lists = _means(per_user, np.isfinite(per_user["average_popularity"]))
    measures = {
        **_means(per_user, has_both),
        **{name: over_lists[name] for name in OF_LISTS},
        **_measure_exposure(exposed, log.item_counts, popular),
        "tail_items": float(exposed[~popular].sum() / len(users)),
        "pop_rsp": _parity(lists[fresh], users, log, popular),
        "pop_reo": float("nan") if held is None else _opportunity(lists, users, held.rows(~again), popular),
    }
    counted = _count_notes(lists, users, log, fresh) | {"known_held_out": int(again.sum()), **(notes or {})}
    return Audit(
        k=lists.shape[1],
        users=len(users),
        items=log.n_items,
        head_items=int(popular.sum()),
        measures={name: measures[name] for name in DEFINITIONS},
        groups=_groups(log.item_counts, exposed),
        segments=_segments(per_user, shown, chosen, has_both),
        notes={name: counted[name] for name in NOTES if counted.get(name)},
        user_ix=users,
        per_user=per_user,
        exposure=exposed,
        item_counts=log.item_counts,
        picture=None if ledger is None else gradient_picture(ledger),
    )


def audit_model(
    recommender: Recommender,
    log: Interactions,
    k: int = 20,
    *,
    held: Interactions | None = None,
    ledger: Ledger | None = None,
    notes: Mapping[str, int] | None = None,
    threads: int | None = None,
) -> Audit:
    """The bias of a model's lists for all users who have a row in the log; what they leave out is up to the model."""
    users = np.flatnonzero(log.user_counts).astype(np.int32)
    lists, _ = recommender.recommend(users, k, threads=threads)
    return audit(lists, users, log, held=held, ledger=ledger, notes=notes)


def _check(lists: IntArray, users: IntArray, log: Interactions, held: Interactions | None) -> None:
    if lists.ndim != 2 or not np.issubdtype(lists.dtype, np.integer) or len(lists) != len(users):
        raise InputError(
            f"lists must be a matrix of item positions with a row for each of the {len(users)} users, got "
            f"{lists.dtype} of shape {lists.shape}"
        )
    if not len(log):
        raise InputError("an audit needs the log behind the lists, but it holds no rows; pass another")
    if not (lists >= 0).any():
        raise InputError("nothing to audit: no list holds an item")
    if lists.min() < -1 or lists.max() >= log.n_items or users.min() < 0 or users.max() >= log.n_users:
        raise InputError(
            f"lists must hold positions among the log's {log.n_items} items (or -1) and {log.n_users} users; "
            "see Interactions.item_positions"
        )
    if len(np.unique(users)) < len(users):
        raise InputError("each user must have one list, but one has several; merge them")
    placed = np.sort(lists, axis=1)
    again = np.flatnonzero(((placed[:, 1:] == placed[:, :-1]) & (placed[:, 1:] >= 0)).any(axis=1))
    if len(again):
        raise InputError(
            f"an item must be in a list once, but {len(again)} lists repeat one (first: the list of user "
            f"{log.user_ids[users[again[:1]]].tolist()[0]!r}); keep its first place"
        )
    for side in ("user", "item"):
        if held is not None and not np.array_equal(getattr(held, f"{side}_ids"), getattr(log, f"{side}_ids")):
            raise InputError(f"log and held-out pairs must hold the same {side}s in the same order")


def _shares(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that add up to one; NaN for a row of zeros."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))


def _mean(values: NDArray[np.float64]) -> float:
    """The mean of the finite values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _means(per_user: PerUser, those: BoolArray) -> dict[str, float]:
    """Means over some users, and how far their lists are above the log and above their profiles."""
    means = {name: _mean(values[those]) for name, values in per_user.items()}
    return means | {
        "amplification": means["average_popularity"] / means["expected_popularity"] - 1,
        "popularity_lift": means["average_popularity"] / means["profile_popularity"] - 1,
    }


def _measure_users(lists: IntArray, users: IntArray, log: Interactions, fresh: BoolArray) -> dict[str, Any]:
    """(B,) popularity and tail share of each list, and what the log would give in its place."""
    popular, placed = head(log.item_counts), (lists >= 0).sum()
    without_profile = bool(placed - fresh.sum() < REPEATS * placed)
    expected = _drawn_from(log, popular, without_profile=without_profile)[:, users]
    return {
        "average_popularity": popularity.average_popularity(lists, log.item_counts),
        "expected_popularity": expected[0],
        "profile_popularity": _profile_popularity(log)[users],
        "highest_popularity": _highest_popularity(log, lists.shape[1], without_profile=without_profile)[users],
        "tail_share": popularity.tail_share(lists, popular),
        "expected_tail_share": expected[1],
    }


def _profile_popularity(log: Interactions) -> NDArray[np.float64]:
    """(U,) mean interactions of the items in each profile; NaN for an empty one."""
    total = np.bincount(log.user_ix, weights=log.item_counts[log.item_ix], minlength=log.n_users)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / log.user_counts)


def _drawn_from(log: Interactions, popular: BoolArray, *, without_profile: bool) -> NDArray[np.float64]:
    """(2, U) popularity, and share of the tail, of items drawn in proportion to their interactions."""
    counts = log.item_counts.astype(np.float64)
    parts = np.stack([counts, counts**2, counts * ~popular])
    left = np.repeat(parts.sum(axis=1)[:, None], log.n_users, axis=1)
    if without_profile:
        left -= [np.bincount(log.user_ix, part[log.item_ix], log.n_users) for part in parts]
    with np.errstate(invalid="ignore"):
        return np.asarray(left[1:] / left[0])


def _highest_popularity(log: Interactions, k: int, *, without_profile: bool) -> NDArray[np.float64]:
    """(U,) mean interactions of the k most popular items, or of the k most popular that are not in each profile."""
    order = np.argsort(-log.item_counts, kind="stable")
    if not without_profile:
        return np.full(log.n_users, log.item_counts[order[:k]].mean())
    ranks = ranks_of(order)[log.item_ix]
    ranks = ranks[np.lexsort((ranks, log.user_ix))]  # rows are sorted by user: only the ranks move
    # A row's item is skipped if fewer than k more popular items are not in the profile.
    skipped = (ranks - places_in_groups(log.user_counts) < k).astype(np.float64)
    n_skipped = np.bincount(log.user_ix, skipped, log.n_users).astype(np.int64)
    of_skipped = np.bincount(log.user_ix, skipped * log.item_counts[order][ranks], log.n_users)
    running = np.concatenate([[0], np.cumsum(log.item_counts[order])])
    end = np.minimum(k + n_skipped, log.n_items)
    with np.errstate(invalid="ignore"):
        return np.asarray((running[end] - of_skipped) / (end - n_skipped))


def _rows_by_class(log: Interactions, class_of: NDArray[np.int64]) -> NDArray[np.float64]:
    """(U, classes) how many rows of each user hold an item of each class."""
    cell = log.user_ix.astype(np.int64) * len(CLASSES) + class_of[log.item_ix]
    return np.bincount(cell, minlength=log.n_users * len(CLASSES)).reshape(-1, len(CLASSES)).astype(np.float64)


def _measure_exposure(exposed: NDArray[np.int64], counts: NDArray[np.int64], popular: BoolArray) -> dict[str, float]:
    """Coverage and concentration of the recommendations over items."""
    most = max(1, int(np.ceil(MOST_RECOMMENDED * len(counts))))
    return {
        "tail_coverage": popularity.coverage(exposed[~popular]) if not popular.all() else float("nan"),
        "coverage": popularity.coverage(exposed),
        "gini": gini(exposed),
        "log_gini": gini(counts),
        "most_recommended_share": float(np.sort(exposed)[-most:].sum() / max(1, exposed.sum())),
    }


def _parity(shown: IntArray, users: IntArray, log: Interactions, popular: BoolArray) -> float:
    """PopRSP: how much the chance of being shown differs between head and tail items."""
    in_profile = np.bincount(popular[log.item_ix[np.isin(log.user_ix, users)]], minlength=2)
    candidates = len(users) * np.bincount(popular, minlength=2) - in_profile
    return popularity.relative_spread(np.bincount(popular[shown], minlength=2), candidates)


def _opportunity(lists: IntArray, users: IntArray, held: Interactions, popular: BoolArray) -> float:
    """PopREO: how much the chance of a liked item to be shown differs between head and tail."""
    found = np.bincount(popular[lists[find_hits(lists, users, held)]], minlength=2)
    liked = np.bincount(popular[held.item_ix[np.isin(held.user_ix, users)]], minlength=2)
    return popularity.relative_spread(found, liked)


def _count_notes(lists: IntArray, users: IntArray, log: Interactions, fresh: BoolArray) -> dict[str, int]:
    filled = (lists >= 0).sum(axis=1)
    has_list = np.isin(np.arange(log.n_users), users)
    return {
        "short_lists": int(((filled < lists.shape[1]) & (filled > 0)).sum()),
        "empty_lists": int((filled == 0).sum()),
        "users_without_list": int(((log.user_counts > 0) & ~has_list).sum()),
        "users_without_profile": int((log.user_counts[users] == 0).sum()),
        "already_chosen": int(filled.sum() - fresh.sum()),
    }


def _groups(counts: NDArray[np.int64], exposed: NDArray[np.int64]) -> tuple[Mapping[str, Any], ...]:
    """The items of each popularity group, and its shares of the interactions and of the recommendations."""
    group_of = popularity.popularity_groups(counts)
    return tuple(
        {
            "items": int((group_of == g).sum()),
            "interactions": float(counts[group_of == g].sum() / counts.sum()),
            "frequency": float(exposed[group_of == g].sum() / exposed.sum()),
        }
        for g in range(popularity.HEAD_GROUPS + 1)
    )


def _segments(
    per_user: PerUser, shown: NDArray[np.float64], chosen: NDArray[np.float64], both: BoolArray
) -> tuple[Mapping[str, Any], ...]:
    """Niche, mixed and mainstream users: see `SEGMENT_RULE`."""
    mainstream = 1 - per_user["profile_tail_share"]
    low, high = np.quantile(mainstream[both], [SEGMENT_SHARE, 1 - SEGMENT_SHARE]) if both.any() else (np.nan, np.nan)
    niche = both & (mainstream <= low) & (mainstream < high)
    main = both & (mainstream >= high) & (mainstream > low)
    segments = []
    for name, those in zip(SEGMENTS, (niche, both & ~niche & ~main, main), strict=True):
        segment: dict[str, Any] = {"name": name, "users": int(those.sum()), "head_share": _mean(mainstream[those])}
        segment |= _means(per_user, those)
        for what, shares in (("profile", chosen), ("lists", shown)):
            segment[what] = {c: _mean(shares[those, n]) for n, c in enumerate(CLASSES)}
        segments.append(segment)
    return tuple(segments)
