"""The bias of a model, or of anybody's lists of recommendations, against the log they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, gini, head, pair_keys
from counterpop.ledger import GradientPicture, Ledger, gradient_picture
from counterpop.metrics.accuracy import find_hits
from counterpop.metrics.popularity import (
    HEAD_GROUPS,
    average_popularity,
    coverage,
    exposure,
    exposure_gini,
    jensen_shannon,
    mean_by_rank,
    places_by_group,
    popularity_classes,
    popularity_groups,
    relative_spread,
    tail_share,
)
from counterpop.recommender import Recommender

Kind = Literal["count", "share", "lift", "number"]
Leaning = Literal["popular", "even", "tail", "middle", "ends", "unknown"]
CLASSES = ("top", "middle", "tail")
SEGMENTS = ("niche", "mixed", "mainstream")
SEGMENT_SHARE = 0.2  # of the users at either end: 20 / 60 / 20, as published
EVEN, EVEN_TAIL = 0.1, 0.2  # so far from the log, popularity and tail share are still called as in the log
STRONG = 0.5  # "strongly": half as popular as the log, or half of the way to the most popular items
REPEATS = 0.01  # of the places: from here on a system is taken to show what users have already
# means over all lists; the others are over the users who have a profile as well
OF_LISTS = ("average_popularity", "expected_popularity", "amplification", "tail_share", "expected_tail_share")
MOST_RECOMMENDED = 0.01  # of the items, in `most_recommended_share`


@dataclass(frozen=True)
class Definition:
    """What a figure is, in words; every table and page prints it from here."""

    label: str
    kind: Kind
    text: str
    source: str = ""
    published: str = ""
    """The short name under which it was published."""

    @property
    def title(self) -> str:
        return f"{self.label} ({self.published})" if self.published else self.label


_ABDOLLAHPOURI_2019 = "Abdollahpouri, Burke and Mobasher, FLAIRS 2019"
_ZHU_2020 = "Zhu, Wang and Caverlee, SIGIR 2020"
DEFINITIONS: Mapping[str, Definition] = {
    "average_popularity": Definition(
        "Average popularity",
        "count",
        "Interactions in the log of a recommended item: mean over each list, then over the lists.",
        _ABDOLLAHPOURI_2019,
        "ARP",
    ),
    "expected_popularity": Definition(
        "Popularity of the log",
        "count",
        "Interactions in the log of an item that is drawn from it in proportion to its interactions, out of "
        "the items that are not in the user's profile, mean over the lists. Where 1 % of the places or more "
        "hold items of the profile, the system evidently repeats, and the draw is out of all items.",
    ),
    "amplification": Definition(
        "Amplification",
        "lift",
        "(average popularity - popularity of the log) / popularity of the log. 0: recommendations are as "
        "popular as the log they come from; +100 %: twice as popular. The verdict rests on it and on the "
        "tail share: up to 10 % (20 % of the log's tail share) either way counts as the log.",
    ),
    "profile_popularity": Definition(
        "Popularity of profiles",
        "count",
        "Interactions in the log of an item in a user's profile (their rows in the log): mean over each "
        "profile, then over the users who have a list and a profile.",
        "Abdollahpouri et al., RMSE workshop at RecSys 2019, as GAP",
    ),
    "highest_popularity": Definition(
        "Highest popularity",
        "count",
        "Interactions in the log of the k most popular items, out of those that the popularity of the log is "
        "drawn from (all, or those not in a user's profile): mean over these, then over the users who have a "
        "list and a profile.",
    ),
    "popularity_lift": Definition(
        "Popularity lift",
        "lift",
        "(popularity of lists - popularity of profiles) / popularity of profiles, both over the users who "
        "have a list and a profile. 0: what is shown is as popular as what was chosen; +100 %: twice as "
        "popular.",
        "Abdollahpouri et al., RecSys 2020",
    ),
    "tail_share": Definition(
        "Tail share",
        "share",
        "Share of a list that lies in the tail, mean over the lists. Sorted by falling interactions, the "
        "head is the first items whose running sum stays within 80 % of all interactions; the tail is every "
        "other item.",
        _ABDOLLAHPOURI_2019,
        "APLT",
    ),
    "expected_tail_share": Definition(
        "Tail share of the log",
        "share",
        "Share of the tail in items that are drawn from the log as for its popularity, mean over the lists.",
    ),
    "profile_tail_share": Definition(
        "Tail share of profiles",
        "share",
        "Share of a profile that lies in the tail, mean over the users who have a list and a profile.",
    ),
    "tail_items": Definition(
        "Tail items in a list",
        "number",
        "Number of tail items in a list, mean over the lists. This is the published formula; its name, "
        "average coverage of the tail, would rather fit the coverage below.",
        _ABDOLLAHPOURI_2019,
        "ACLT",
    ),
    "tail_coverage": Definition(
        "Coverage of the tail", "share", "Tail items that stand in at least one list / all tail items."
    ),
    "coverage": Definition("Coverage", "share", "Items that stand in at least one list / all items."),
    "gini": Definition(
        "Gini of exposure",
        "number",
        "How unevenly recommendations are spread over items: sum over all pairs of items |c_i - c_j| / "
        "(2 n sum c), where c counts the lists an item stands in and n is the number of items. 0: all alike; "
        "towards 1: few items get everything.",
    ),
    "log_gini": Definition(
        "Gini of the log", "number", "The Gini, as of exposure, of the items' interactions in the log."
    ),
    "most_recommended_share": Definition(
        "Places of the top 1 %",
        "share",
        "Share of all places in lists that goes to the 1 % of items (rounded up) that stand in most lists.",
    ),
    "miscalibration": Definition(
        "Miscalibration",
        "number",
        "Jensen-Shannon divergence in bits between the shares of top, middle and tail items in a user's "
        "profile and in their list, mean over the users who have both. Top items hold the first 20 % of the "
        "interactions, tail items what is beyond 80 %. 0: the same mix; 1: nothing in common.",
        "Abdollahpouri et al., UMAP 2021, as UPD, there averaged over groups of users",
    ),
    "pop_rsp": Definition(
        "Statistical parity of head and tail",
        "number",
        "Standard deviation / mean of two rates, of head and of tail: recommended pairs of user and item / "
        "all pairs of a user with a list and an item that is not in their profile. 0: an item of either has "
        "the same chance to be shown; 1: only one of them is shown.",
        _ZHU_2020,
        "PopRSP",
    ),
    "pop_reo": Definition(
        "Equal opportunity of head and tail",
        "number",
        "Standard deviation / mean of two rates, of head and of tail: held-out pairs that the lists find / "
        "all held-out pairs of users with a list. 0: what users like is found as often in either; 1: only "
        "in one. Without held-out pairs it cannot be known.",
        _ZHU_2020,
        "PopREO",
    ),
}
SEGMENT_RULE = (
    "Users by the share of head items in their profile: niche up to the 20th percentile, mainstream from "
    "the 80th, mixed between; users of equal share stand together, so the segments are near 20, 60 and 20 % "
    "of the users (the cuts of Abdollahpouri et al., RMSE workshop at RecSys 2019)."
)
GROUP_RULE = "Items by falling interactions: four groups of 5 % of the items each, then the remaining 80 %."
NOTES: Mapping[str, str] = {
    "short_lists": "Lists of fewer than {k} items",
    "empty_lists": "Empty lists",
    "users_without_list": "Users of the log without a list",
    "users_without_profile": "Lists of users without a profile, who are in no segment",
    "already_chosen": "Recommended items that are already in their user's profile",
    "unknown_users": "Users with a list whom the log lacks",
    "unknown_items": "Recommended items that the log lacks, counted as items without interactions",
    "repeated": "Rows that repeat an item of their list, of which the first place was kept",
    "beyond_k": "Rows beyond place {k} of their list, which were not audited",
    "without_vector": "Rows of the log left out, as their user or item has no vector",
    "unknown_held_out": "Held-out pairs left out, as the log lacks their user or item",
    "known_held_out": "Held-out pairs left out, as the log holds them as well",
}
"""What a reader must know of the input, each with its number."""


@dataclass(frozen=True)
class Verdict:
    """What the figures amount to, in a few words, and the numbers it rests on."""

    leaning: Leaning
    headline: str
    reasons: str

    @property
    def text(self) -> str:
        """One paragraph with both."""
        return f"{self.headline}. {self.reasons}"


@dataclass(frozen=True, eq=False)
class Audit:
    """What lists expose, beside what their users chose. Figures are of all the lists, not of a sample."""

    k: int
    users: int
    """Number of lists."""
    items: int
    head_items: int
    measures: Mapping[str, float]
    """By the names of `DEFINITIONS`; NaN where a figure cannot be known."""
    groups: tuple[Mapping[str, Any], ...]
    """For each popularity group: items, and its share of interactions and of recommendations."""
    segments: tuple[Mapping[str, Any], ...]
    """Niche, mixed, mainstream: how many, and their profiles beside their lists."""
    notes: Mapping[str, int]
    """Numbers that are not 0, by the names of `NOTES`."""
    user_ix: IntArray
    """(B,) positions of the users."""
    per_user: Mapping[str, NDArray[np.float64]]
    """(B,) each figure that is a mean over users; NaN where a list or a profile is empty."""
    exposure: NDArray[np.int64]
    """(I,) in how many lists each item stands."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of each item in the log."""
    picture: GradientPicture | None = None
    """Where training kept a ledger: how it pulled and pushed each item."""

    @property
    def published(self) -> dict[str, float]:
        """The figures under their published names."""
        return {d.published: self.measures[name] for name, d in DEFINITIONS.items() if d.published}

    @property
    def sentences(self) -> list[str]:
        """The notes in words."""
        return [f"{NOTES[name].format(k=self.k)}: {n:,}." for name, n in self.notes.items()]

    @cached_property
    def verdict(self) -> Verdict:
        """What the figures amount to."""
        return _judge(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON: items together in bins of popularity ranks, None for what cannot be known."""
        rank, lists = mean_by_rank(self.exposure / max(1, self.users), self.item_counts)
        found: dict[str, Any] = {
            "k": self.k,
            "users": self.users,
            "items": self.items,
            "head_items": self.head_items,
            "verdict": {"leaning": self.verdict.leaning, "headline": self.verdict.headline, "text": self.verdict.text},
            **self.measures,
            "published": self.published,
            "groups": [dict(group) for group in self.groups],
            "segments": [dict(segment) for segment in self.segments],
            "frequency_by_rank": {"rank": rank.tolist(), "share_of_users": lists.tolist()},
            "notes": dict(self.notes),
            "definitions": {
                name: {"label": d.label, "definition": d.text, "source": d.source, "published": d.published}
                for name, d in DEFINITIONS.items()
            },
            "segment_rule": SEGMENT_RULE,
            "group_rule": GROUP_RULE,
        }
        if self.picture is not None:
            parts = ("cosine_pull", "cosine_push", "norm_pull", "norm_push")
            found["gradient"] = {"rank": rank.tolist()} | {
                name: mean_by_rank(getattr(self.picture, name), self.item_counts)[1].tolist() for name in parts
            }
        return {name: _without_nan(value) for name, value in found.items()}


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

    Popularity and profiles are those of `log`. `held` (in the positions of the log) holds what users liked
    later, for equal opportunity; pairs that the log holds as well are left out of it. `notes` are numbers to
    state with the others, by the names of `NOTES`. Each user has one list, each item stands in it once.

    >>> from counterpop.worlds import make_world
    >>> log = make_world(300, 200, seed=0).log
    >>> everybody = np.arange(log.n_users, dtype=np.int32)
    >>> hits = np.argsort(-log.item_counts)[:10].astype(np.int32)       # the same ten for all
    >>> audit(np.tile(hits, (log.n_users, 1)), everybody, log).verdict.leaning
    'popular'
    """
    _check(lists, users, log, held)
    filled = (lists >= 0).sum(axis=1)
    counts, popular = log.item_counts, head(log.item_counts)
    exposed = exposure(lists, log.n_items)
    shown = _shares(places_by_group(lists, popularity_classes(counts), len(CLASSES), lists >= 0))
    chosen = _shares(_rows_by_class(log, popularity_classes(counts))[users])
    fresh = (lists >= 0) & ~find_hits(lists, users, log)
    again = int((lists >= 0).sum() - fresh.sum())
    without_profile = again < REPEATS * (lists >= 0).sum()
    expected = _drawn_from(log, popular, without_profile=without_profile)[:, users]
    per_user = {
        "average_popularity": average_popularity(lists, counts),
        "expected_popularity": expected[0],
        "profile_popularity": _profile_popularity(log)[users],
        "highest_popularity": _highest_popularity(log, lists.shape[1], without_profile=without_profile)[users],
        "tail_share": tail_share(lists, popular),
        "expected_tail_share": expected[1],
        "profile_tail_share": chosen[:, 2],
        "miscalibration": jensen_shannon(shown, chosen),
    }
    both = np.isfinite(per_user["miscalibration"])  # users who have a list and a profile
    most = max(1, int(np.ceil(MOST_RECOMMENDED * log.n_items)))
    later = None if held is None else held.rows(~np.isin(pair_keys(held), pair_keys(log)))
    of_lists = _means(per_user, filled > 0)
    measures = {
        **_means(per_user, both),
        **{name: of_lists[name] for name in OF_LISTS},
        "tail_items": float(exposed[~popular].sum() / len(users)),
        "tail_coverage": coverage(exposed[~popular]) if not popular.all() else float("nan"),
        "coverage": coverage(exposed),
        "gini": exposure_gini(exposed),
        "log_gini": gini(counts),
        "most_recommended_share": float(np.sort(exposed)[-most:].sum() / max(1, exposed.sum())),
        "pop_rsp": _parity(lists, users, log, popular, fresh),
        "pop_reo": float("nan") if later is None else _opportunity(lists, users, later, popular),
    }
    has_list = np.zeros(log.n_users, dtype=bool)
    has_list[users] = True
    stated = {
        "short_lists": int(((filled < lists.shape[1]) & (filled > 0)).sum()),
        "empty_lists": int((filled == 0).sum()),
        "users_without_list": int(((log.user_counts > 0) & ~has_list).sum()),
        "users_without_profile": int((log.user_counts[users] == 0).sum()),
        "already_chosen": again,
        "known_held_out": 0 if held is None or later is None else len(held) - len(later),
        **(notes or {}),
    }
    return Audit(
        lists.shape[1],
        len(users),
        log.n_items,
        int(popular.sum()),
        {name: measures[name] for name in DEFINITIONS},
        _groups(counts, exposed),
        _segments(per_user, shown, chosen, both),
        {name: stated[name] for name in NOTES if stated.get(name)},
        users,
        per_user,
        exposed,
        counts,
        None if ledger is None else gradient_picture(ledger),
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
    """The bias of a model's lists for all users who have a row in the log; what they have is not ranked."""
    users = np.flatnonzero(log.user_counts).astype(np.int32)
    lists, _ = replace(recommender, seen=log).recommend(users, k, threads=threads)
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
        raise InputError("each user must have one list, but one has several; put them together")
    placed = np.sort(lists, axis=1)
    again = np.flatnonzero(((placed[:, 1:] == placed[:, :-1]) & (placed[:, 1:] >= 0)).any(axis=1))
    if len(again):
        raise InputError(
            f"an item must stand in a list once, but {len(again)} lists repeat one (first: that of user "
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
    """The mean of what is known; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _means(per_user: Mapping[str, NDArray[np.float64]], those: NDArray[np.bool_]) -> dict[str, float]:
    """Means over some users, and how far their lists lie above the log and above their profiles."""
    means = {name: _mean(values[those]) for name, values in per_user.items()}
    return means | {
        "amplification": means["average_popularity"] / means["expected_popularity"] - 1,
        "popularity_lift": means["average_popularity"] / means["profile_popularity"] - 1,
    }


def _profile_popularity(log: Interactions) -> NDArray[np.float64]:
    """(U,) mean interactions of the items in each profile; NaN without any."""
    total = np.bincount(log.user_ix, weights=log.item_counts[log.item_ix], minlength=log.n_users)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / log.user_counts)


def _drawn_from(log: Interactions, popular: NDArray[np.bool_], *, without_profile: bool) -> NDArray[np.float64]:
    """(2, U) popularity, and share of the tail, of items drawn in proportion to their interactions."""
    counts = log.item_counts.astype(np.float64)
    parts = np.stack([counts, counts**2, counts * ~popular])
    left = np.repeat(parts.sum(axis=1)[:, None], log.n_users, axis=1)
    if without_profile:
        left -= [np.bincount(log.user_ix, part[log.item_ix], log.n_users) for part in parts]
    with np.errstate(invalid="ignore"):
        return np.asarray(left[1:] / left[0])


def _highest_popularity(log: Interactions, k: int, *, without_profile: bool) -> NDArray[np.float64]:
    """(U,) mean interactions of the k most popular items, or of those that are not in each profile."""
    order = np.argsort(-log.item_counts, kind="stable")
    if not without_profile:
        return np.full(log.n_users, log.item_counts[order[:k]].mean())
    rank = np.empty(log.n_items, dtype=np.int64)
    rank[order] = np.arange(log.n_items)
    ranks = rank[log.item_ix]
    ranks = ranks[np.lexsort((ranks, log.user_ix))]  # rows are sorted by user: only the ranks move
    # as many items before a row's own are not in the profile; where these are fewer than k, it is passed by
    others_before = ranks - (np.arange(len(log)) - log.user_starts[log.user_ix])
    passed = (others_before < k).astype(np.float64)
    n_passed = np.bincount(log.user_ix, passed, log.n_users).astype(np.int64)
    of_passed = np.bincount(log.user_ix, passed * log.item_counts[order][ranks], log.n_users)
    running = np.concatenate([[0], np.cumsum(log.item_counts[order])])
    end = np.minimum(k + n_passed, log.n_items)
    with np.errstate(invalid="ignore"):
        return np.asarray((running[end] - of_passed) / (end - n_passed))


def _rows_by_class(log: Interactions, class_of: NDArray[np.int64]) -> NDArray[np.float64]:
    """(U, classes) how many rows of each user hold an item of each class."""
    cell = log.user_ix.astype(np.int64) * len(CLASSES) + class_of[log.item_ix]
    return np.bincount(cell, minlength=log.n_users * len(CLASSES)).reshape(-1, len(CLASSES)).astype(np.float64)


def _parity(
    lists: IntArray, users: IntArray, log: Interactions, popular: NDArray[np.bool_], fresh: NDArray[np.bool_]
) -> float:
    """PopRSP: how far the chance to be shown differs between head and tail items."""
    mine = np.isin(log.user_ix, users)
    in_profile = np.bincount(popular[log.item_ix[mine]], minlength=2)
    candidates = len(users) * np.bincount(popular, minlength=2) - in_profile
    shown = np.bincount(popular[lists[fresh]], minlength=2)
    with np.errstate(invalid="ignore"):
        return relative_spread(shown / candidates)


def _opportunity(lists: IntArray, users: IntArray, held: Interactions, popular: NDArray[np.bool_]) -> float:
    """PopREO: how far the chance of a liked item to be shown differs between head and tail."""
    found = np.bincount(popular[lists[find_hits(lists, users, held)]], minlength=2)
    wanted = np.bincount(popular[held.item_ix[np.isin(held.user_ix, users)]], minlength=2)
    with np.errstate(invalid="ignore"):
        return relative_spread(found / wanted)


def _groups(counts: NDArray[np.int64], exposed: NDArray[np.int64]) -> tuple[Mapping[str, Any], ...]:
    """Each popularity group's items, and its shares of the interactions and of the recommendations."""
    group_of = popularity_groups(counts)
    return tuple(
        {
            "items": int((group_of == g).sum()),
            "interactions": float(counts[group_of == g].sum() / counts.sum()),
            "frequency": float(exposed[group_of == g].sum() / exposed.sum()),
        }
        for g in range(HEAD_GROUPS + 1)
    )


def _segments(
    per_user: Mapping[str, NDArray[np.float64]],
    shown: NDArray[np.float64],
    chosen: NDArray[np.float64],
    both: NDArray[np.bool_],
) -> tuple[Mapping[str, Any], ...]:
    """Niche, mixed and mainstream users: see `SEGMENT_RULE`."""
    mainstream = 1 - per_user["profile_tail_share"]
    low, high = np.quantile(mainstream[both], [SEGMENT_SHARE, 1 - SEGMENT_SHARE]) if both.any() else (np.nan, np.nan)
    niche = both & (mainstream <= low) & (mainstream < high)
    main = both & (mainstream >= high) & (mainstream > low)
    found = []
    for name, those in zip(SEGMENTS, (niche, both & ~niche & ~main, main), strict=True):
        segment: dict[str, Any] = {"name": name, "users": int(those.sum())}
        segment["head_share"] = _mean(mainstream[those])
        segment |= _means(per_user, those)
        for what, shares in (("profile", chosen), ("lists", shown)):
            segment[what] = {c: _mean(shares[those, n]) for n, c in enumerate(CLASSES)}
        found.append(segment)
    return tuple(found)


def _judge(found: Audit) -> Verdict:
    """The verdict. Its direction rests on popularity and tail share against the log; the rest stands beside.

    Nothing can be drawn from a log whose every item is in the profiles: then nothing can be compared.
    """
    m = found.measures
    more, highest = m["amplification"], m["highest_popularity"] / m["expected_popularity"] - 1
    tail_ratio = m["tail_share"] / m["expected_tail_share"] if m["expected_tail_share"] else 1.0
    leaning: Leaning = "unknown"
    if np.isfinite(more):
        leaning = _LEANINGS[_sign(more, EVEN), _sign(tail_ratio - 1, EVEN_TAIL)]
    strongly = "strongly " if more > STRONG * highest > 0 or more < -STRONG else ""
    headline = {
        "popular": f"The recommendations lean {strongly}towards popular items",
        "tail": f"The recommendations lean {strongly}towards rarely chosen items",
        "even": "The recommendations are about as popular as the log they come from",
        "middle": "The recommendations keep to the middle: fewer hits and fewer rarely chosen items than the log",
        "ends": "The recommendations go to both ends: more hits and more rarely chosen items than the log",
        "unknown": "The recommendations cannot be compared with the log: what their users do not have yet "
        "has no interactions",
    }[leaning]
    first = f"A recommended item has {m['average_popularity']:,.1f} interactions on average"
    if np.isfinite(more):
        first += (
            f", {1 + more:.2f} times as many as an item drawn from the log in proportion to popularity "
            f"({m['expected_popularity']:,.1f})"
        )
    times = {s["name"]: 1 + s["amplification"] for s in found.segments if np.isfinite(s["amplification"])}
    if {"niche", "mainstream"} <= times.keys():
        first += f": {times['niche']:.2f} times for niche users, {times['mainstream']:.2f} times for mainstream users"
    if np.isfinite(highest):
        first += f"; nothing but the most popular items would be {1 + highest:.2f} times"
    tail = (
        f"The tail, the items beyond the first 80 % of all interactions, gets {_percent(m['tail_share'])} of "
        "the recommendations"
    )
    if np.isfinite(more):
        tail += f", against {_percent(m['expected_tail_share'])} in such a draw"
    if np.isfinite(m["profile_tail_share"]):
        and_ = "and" if np.isfinite(more) else "against"
        tail += f" {and_} {_percent(m['profile_tail_share'])} of what the users chose"
    never = int((found.exposure == 0).sum())
    uneven = "more" if m["gini"] > m["log_gini"] else "less"
    spread = (
        f"{never:,} of {found.items:,} items ({_percent(1 - m['coverage'])}) are never recommended, and the "
        f"1 % most recommended take {_percent(m['most_recommended_share'])} of all places: {uneven} "
        f"concentrated than the log (Gini {m['gini']:.3f} against {m['log_gini']:.3f})"
    )
    return Verdict(leaning, headline, f"{first}. {tail}. {spread}.")


# popularity and tail share below (-1), at (0) or above (1) those of the log
_LEANINGS: Mapping[tuple[int, int], Leaning] = {
    (1, -1): "popular",
    (1, 0): "popular",
    (0, -1): "popular",
    (-1, 1): "tail",
    (-1, 0): "tail",
    (0, 0): "even",
    (-1, -1): "middle",
    (1, 1): "ends",
    (0, 1): "ends",
}


def _sign(value: float, within: float) -> int:
    return 0 if abs(value) <= within else 1 if value > 0 else -1


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
