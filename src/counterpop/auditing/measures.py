"""The figures of an audit, measured on lists of item positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing.definitions import CLASSES, DEFINITIONS, NOTES, SEGMENTS
from counterpop.auditing.result import Audit
from counterpop.auditing.tallies import BLOCK, OF_USERS, Counted, Tally, count_lists, total_of
from counterpop.errors import InputError
from counterpop.interactions import BoolArray, IntArray, Interactions, gini, head, pair_keys
from counterpop.ledger import Ledger, gradient_picture
from counterpop.metrics import popularity
from counterpop.panels import Sample, Users, choose_users
from counterpop.readers import Category, Labels
from counterpop.recommender import Recommender

SEGMENT_SHARE = 0.2  # of the users at either end: 20 / 60 / 20, as published
REPEATS = 0.01  # share of places: from here on a system is taken to show items that users already have
MOST_RECOMMENDED = 0.01  # of the items, in `most_recommended_share`
OF_THE_LOG = ("log_gini", "log_top_share", "log_disparity")  # the same whoever the users are


class AuditOptions(TypedDict, total=False):
    """The keywords of `audit`, which `audit_model` passes on."""

    held: Interactions | None
    ledger: Ledger | None
    notes: Mapping[str, int] | None
    labels: Labels | None
    attributes: Mapping[str, Category] | None
    sample: Sample | None


def audit(
    lists: IntArray,
    users: IntArray,
    log: Interactions,
    *,
    held: Interactions | None = None,
    ledger: Ledger | None = None,
    notes: Mapping[str, int] | None = None,
    labels: Labels | None = None,
    attributes: Mapping[str, Category] | None = None,
    sample: Sample | None = None,
) -> Audit:
    """The bias of lists (B, K) of item positions, one for each of `users`; -1 is an empty place.

    Popularity and profiles are those of `log`. `held` (in the positions of the log) holds what users liked later, for
    equal opportunity; pairs that are also in the log are left out of it. `notes` adds numbers by the names of `NOTES`.
    `labels` are the names and categories of items, `attributes` categories of users, in the log's positions. `sample`
    says that the users are one. Each user must have one list, and each item must be in it once.

    >>> from counterpop.worlds import make_world
    >>> log = make_world(300, 200, seed=0).log
    >>> everybody = np.arange(log.n_users, dtype=np.int32)
    >>> hits = np.argsort(-log.item_counts)[:10].astype(np.int32)       # the same ten for everybody
    >>> audit(np.tile(hits, (log.n_users, 1)), everybody, log).verdict.leaning
    'popular'
    """
    _check(lists, users, log, held)
    again = 0
    if held is not None:
        known = np.isin(pair_keys(held), pair_keys(log))
        again, held = int(known.sum()), held.rows(~known)
    counted = count_lists(lists, users, log, held, repeats=REPEATS)
    total, popular = total_of(counted.tallies), head(log.item_counts)
    fixed = _measure_log(log.item_counts)
    measures = _measure(total, log.item_counts, popular) | fixed
    without = [_measure(total - fold, log.item_counts, popular) for fold in counted.tallies]
    all_notes = _count_notes(lists, users, log, counted) | {"known_held_out": again, **(notes or {})}
    masks = _segment_masks(counted)
    return Audit(
        k=lists.shape[1],
        users=len(users),
        items=log.n_items,
        head_items=int(popular.sum()),
        measures={name: measures[name] for name in DEFINITIONS},
        without={name: np.array([one[name] for one in without]) for name in DEFINITIONS if name not in fixed},
        groups=_groups(log.item_counts, total.exposure),
        segments=tuple(_describe(name, those, counted) for name, those in masks.items()),
        attributes={
            name: tuple(
                _describe(value, counted.compared & (category.of[users] == n), counted)
                for n, value in enumerate(category.values)
            )
            for name, category in (attributes or {}).items()
        },
        notes={name: all_notes[name] for name in NOTES if all_notes.get(name)},
        user_ix=users,
        per_user=counted.per_user,
        exposure=total.exposure,
        attention=total.attention,
        item_counts=log.item_counts,
        item_ids=log.item_ids,
        user_ids=log.user_ids,
        labels=labels,
        picture=None if ledger is None else gradient_picture(ledger),
        sample=sample,
    )


def audit_model(
    recommender: Recommender,
    log: Interactions,
    k: int = 20,
    *,
    users: Users = None,
    seed: int = 0,
    threads: int | None = None,
    **more: Unpack[AuditOptions],
) -> Audit:
    """The bias of a model's lists for users who have a row in the log; what they leave out is up to the model.

    `users` is "all", a number, or None for all unless there are too many (see `panels`); `seed` is that of the sample.
    `more` is passed on to `audit`.
    """
    able = np.flatnonzero(log.user_counts).astype(np.int32)
    chosen, sample = choose_users(able, log.user_counts, log.n_items, users, seed)
    lists, _ = recommender.recommend(chosen, k, threads=threads)
    if sample is not None:  # the others were not asked for one
        more |= {"sample": sample, "notes": {**(more.get("notes") or {}), "users_without_list": 0}}
    return audit(lists, chosen, log, **more)


def _check(lists: IntArray, users: IntArray, log: Interactions, held: Interactions | None) -> None:
    if lists.ndim != 2 or not np.issubdtype(lists.dtype, np.integer) or len(lists) != len(users):
        raise InputError(
            f"lists must be a matrix of item positions with a row for each of the {len(users)} users, got "
            f"{lists.dtype} of shape {lists.shape}"
        )
    if not len(log):
        raise InputError("an audit needs the log behind the lists, but it holds no rows; pass another")
    if not lists.size or lists.max() < 0:
        raise InputError("nothing to audit: no list holds an item")
    if lists.min() < -1 or lists.max() >= log.n_items or users.min() < 0 or users.max() >= log.n_users:
        raise InputError(
            f"lists must hold positions among the log's {log.n_items} items (or -1) and {log.n_users} users; "
            "see Interactions.item_positions"
        )
    if np.bincount(users).max() > 1:
        raise InputError("each user must have one list, but one has several; merge them")
    again = np.concatenate([start + _repeating(lists[start : start + BLOCK]) for start in range(0, len(lists), BLOCK)])
    if len(again):
        raise InputError(
            f"an item must be in a list once, but {len(again)} lists repeat one (first: the list of user "
            f"{log.user_ids[users[again[:1]]].tolist()[0]!r}); keep its first place"
        )
    for side in ("user", "item"):
        if held is not None and not np.array_equal(getattr(held, f"{side}_ids"), getattr(log, f"{side}_ids")):
            raise InputError(f"log and held-out pairs must hold the same {side}s in the same order")


def _repeating(lists: IntArray) -> NDArray[np.intp]:
    """Rows that hold an item twice."""
    placed = np.sort(lists, axis=1)
    return np.flatnonzero(((placed[:, 1:] == placed[:, :-1]) & (placed[:, 1:] >= 0)).any(axis=1))


def _measure_log(counts: NDArray[np.int64]) -> dict[str, float]:
    """Measures of the log, which the lists are compared with."""
    shares = counts / counts.sum()
    return {
        "log_gini": gini(counts),
        "log_top_share": float(np.sort(shares)[-_most(len(counts)) :].sum()),
        "log_disparity": float((shares**2).sum()),
    }


def _most(n_items: int) -> int:
    return max(1, int(np.ceil(MOST_RECOMMENDED * n_items)))


def _measure(total: Tally, counts: NDArray[np.int64], popular: BoolArray) -> dict[str, float]:
    """Every measure of some lists, from their tally."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = dict(zip(OF_USERS, (total.sums / total.known).tolist(), strict=True))
        times_log = np.divide(means["average_popularity"], means["expected_popularity"])
        times_profile = np.divide(means["average_popularity"], means["profile_popularity"])
        exposed, places, shares = total.exposure, max(1, int(total.exposure.sum())), counts / counts.sum()
        attention = total.attention / total.attention.sum()
    tail = ~popular
    candidates = int(total.lists) * np.array([tail.sum(), popular.sum()]) - total.chosen
    drawn = np.array([means["expected_tail_share"], 1 - means["expected_tail_share"]])
    return means | {
        "amplification": float(times_log) - 1,
        "popularity_lift": float(times_profile) - 1,
        "tail_items": float(exposed[tail].sum() / max(1, int(total.lists))),
        "tail_coverage": popularity.coverage(exposed[tail]) if tail.any() else float("nan"),
        "coverage": popularity.coverage(exposed),
        "expected_coverage": float(-np.expm1(places * np.log1p(-np.minimum(shares, 1 - 1e-16))).mean()),
        "gini": gini(exposed),
        "most_recommended_share": float(np.sort(exposed)[-_most(len(counts)) :].sum() / places),
        "exposure_disparity": float((attention**2).sum()),
        "exposure_loss": float(((attention - shares) ** 2).sum()),
        "pop_rsp": popularity.relative_spread(total.shown, candidates),
        "expected_pop_rsp": popularity.relative_spread(drawn, candidates),
        "pop_reo": popularity.relative_spread(total.found, total.liked),
    }


def _count_notes(lists: IntArray, users: IntArray, log: Interactions, counted: Counted) -> dict[str, int]:
    filled = (lists >= 0).sum(axis=1)
    has_list = np.zeros(log.n_users, dtype=bool)
    has_list[users] = True
    return {
        "short_lists": int(((filled < lists.shape[1]) & (filled > 0)).sum()),
        "empty_lists": int((filled == 0).sum()),
        "users_without_list": int(((log.user_counts > 0) & ~has_list).sum()),
        "users_without_profile": int((log.user_counts[users] == 0).sum()),
        "already_chosen": int(filled.sum() - counted.fresh.sum()),
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


def _segment_masks(counted: Counted) -> dict[str, BoolArray]:
    """Niche, mixed and mainstream users: see `SEGMENT_RULE`."""
    mainstream = 1 - counted.per_user["profile_tail_share"]
    both = np.isfinite(counted.per_user["miscalibration"])  # users who have a list and a profile
    low, high = np.quantile(mainstream[both], [SEGMENT_SHARE, 1 - SEGMENT_SHARE]) if both.any() else (np.nan, np.nan)
    niche = both & (mainstream <= low) & (mainstream < high)
    main = both & (mainstream >= high) & (mainstream > low)
    return dict(zip(SEGMENTS, (niche, both & ~niche & ~main, main), strict=True))


def _describe(name: str, those: BoolArray, counted: Counted) -> dict[str, Any]:
    """Some of the users: how many, what they chose, and what they are shown."""
    means = {figure: _mean(values[those]) for figure, values in counted.per_user.items()}
    described: dict[str, Any] = {
        "name": name,
        "users": int(those.sum()),
        "head_share": 1 - means["profile_tail_share"],
        **means,
        "amplification": means["average_popularity"] / means["expected_popularity"] - 1,
        "popularity_lift": means["average_popularity"] / means["profile_popularity"] - 1,
    }
    for what, shares in (("profile", counted.chosen), ("lists", counted.shown)):
        described[what] = {c: _mean(shares[those, n]) for n, c in enumerate(CLASSES)}
    return described


def _mean(values: NDArray[np.float64]) -> float:
    """The mean of the finite values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
