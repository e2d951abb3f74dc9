"""Metrics of a model's lists, per user and per popularity group, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import check_same_ids
from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, gini, head, pair_keys, pairs_of, rows_of
from counterpop.metrics import popularity
from counterpop.metrics.accuracy import find_hits, hit_rate, ndcg, recall, weigh_hits
from counterpop.metrics.popularity import HEAD_GROUPS, places_by_group, popularity_groups
from counterpop.metrics.resampling import PER_USER, RESAMPLES, Interval, batches, intervals_of, quantiles, resamples_of
from counterpop.panels import Sample, Users, hold_panel
from counterpop.presentation import Pictured, Shown
from counterpop.recommender import Recommender
from counterpop.splits import Split

On = Literal["valid", "test", "ordinary"]
TEST_STREAM = 301


@dataclass(frozen=True, eq=False, repr=False)
class Measures(Shown):
    """The metrics of a set of lists: means over users, metrics of all lists together, 95 % bootstrap intervals."""

    recall: float
    hit_rate: float
    ndcg: float
    average_popularity: float
    tail_share: float
    coverage: float
    gini: float
    groups: tuple[Mapping[str, Any], ...]
    """For each popularity group: number of items, share of all recommendations, recall of its held-out pairs."""
    intervals: Mapping[str, Interval]
    per_user: Mapping[str, NDArray[np.float64]]
    """(B,) for each of the five metrics that are means over users."""
    exposure: NDArray[np.int64]
    """(I,) number of lists that hold each item."""
    users: IntArray
    """(B,) positions of the users: those with at least one held-out item."""
    weights: NDArray[np.float64]
    """(B,) how much each user counts: 1, unless the held-out pairs have weights (see `weigh_hits`)."""
    held: str = field(repr=False)
    """A fingerprint of the held-out pairs and the length of the lists; only equal ones can be compared."""

    def to_json(self) -> dict[str, Any]:
        """The metrics without the arrays."""
        figures: dict[str, Any] = {name: getattr(self, name) for name in (*PER_USER, "coverage", "gini")}
        return figures | {"groups": [dict(g) for g in self.groups], "intervals": dict(self.intervals)}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Pictured):
    """One model, plain and adjusted, on the same users."""

    k: int
    on: On
    item_strength: float
    user_strength: float
    plain: Measures
    adjusted: Measures
    comparison: Mapping[str, Mapping[str, float]]
    """Adjusted minus plain: see `contrast`."""
    gain: Mapping[str, float] | None = None
    """How much recall changes, relative to plain: see `relative_change`."""
    even: bool = False
    """Whether the pairs were drawn as if every item were shown equally often (see `SplitManifest.even`)."""
    before_refit: bool = False
    """Whether this was measured on the model before a refit, because the refit was trained on these pairs."""
    ordinary: Evaluation | None = None
    """The same on ordinary pairs, drawn as traffic is today; None if the split has none."""
    sample: Sample | None = None
    """Which users were measured, if not all who have held-out pairs."""

    @property
    def price(self) -> Mapping[str, float] | None:
        """The share of recall on ordinary pairs that is "lost", with its interval ("low", "high"); None if unknown.

        Like every price, it is above 0 if the adjustment costs something and below 0 if recall rises.
        """
        if self.ordinary is None or self.ordinary.gain is None:
            return None
        change = self.ordinary.gain
        return {"lost": 0.0 - change["change"], "low": 0.0 - change["high"], "high": 0.0 - change["low"]}

    def to_json(self) -> dict[str, Any]:
        """What `counterpop evaluate --json` prints."""
        return {
            "k": self.k,
            "on": self.on,
            "users": len(self.plain.users),
            "item_strength": self.item_strength,
            "user_strength": self.user_strength,
            "adjusted": self.adjusted.to_json(),
            "plain": self.plain.to_json(),
            "comparison": {name: dict(row) for name, row in self.comparison.items()},
            "gain": self.gain,
            "even": self.even,
            "before_refit": self.before_refit,
            "sample": self.sample and self.sample.to_json(),
        } | (
            {}
            if self.on == "ordinary"
            else {"ordinary": self.ordinary and self.ordinary.to_json(), "price": self.price}
        )


def evaluate(
    recommender: Recommender,
    split: Split,
    on: On = "test",
    k: int = 20,
    *,
    users: Users = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> Evaluation:
    """A model, plain and adjusted, measured on a held-out part.

    Lists are those of `recommender.recommend`: on test they leave out `recommender.seen`, which `tune` and `load`
    set to all that users are known to have touched (train, validation and the ordinary part), with or without a
    refit. Means are over the users who have at least one held-out item; popularity is counted in what the model was
    trained on.

    Validation and ordinary pairs are measured on the model that was not trained on them (after a refit,
    `recommender.trial` at the same strengths), and those lists leave out train only. Test and validation come with the
    same for ordinary pairs, if the split has some: `Evaluation.ordinary`.

    `users` is "all", a number, or None for all unless there are too many (see `panels`); the users drawn depend on the
    split and the seed only, so that models can be compared.
    """
    if not isinstance(recommender, Recommender):
        raise InputError(f"evaluate takes what tune(run, split) or load returns, got {type(recommender).__name__}")
    known = split.development
    parts = {"test": split.test, "valid": known.valid, "ordinary": known.ordinary}
    held = parts.get(on)
    if held is None:
        there = " or ".join(repr(name) for name, part in parts.items() if part is not None)
        raise InputError(f"on must be {there} for this split, got {on!r}; `split --ordinary 0.05` adds 'ordinary'")
    if not len(held):
        raise InputError(
            f"there are no {on} pairs to measure on, because debias was given no later log; pass one as holdout "
            "(--holdout FILE)"
        )
    strengths = recommender.item_strength, recommender.user_strength
    adjusted, log = recommender, known.refit_train() if recommender.refit else known.train
    if on != "test":
        if recommender.refit and recommender.trial is None:
            raise InputError(f"this model was trained on the {on} pairs and has no `trial`; evaluate it on test")
        first = recommender.trial or recommender
        first = replace(first.with_strengths(*strengths), lean=recommender.lean)
        adjusted, log = replace(first, seen=known.train), known.train
    held, sample = hold_panel(held, known.train, users, seed)
    how: dict[str, Any] = {"resamples": resamples, "seed": seed, "threads": threads}
    before, after = (
        measure_model(model, held, k, log=log, **how) for model in (adjusted.with_strengths(0.0, 0.0), adjusted)
    )
    can_price = on != "ordinary" and known.ordinary is not None and (recommender.trial or not recommender.refit)
    figures = before, after, contrast(after, before, seed=seed)
    return Evaluation(
        *(k, on, *strengths, *figures),
        gain=relative_change(after, before, seed=seed),
        even=on != "ordinary" and split.manifest.even,
        before_refit=recommender.refit and on != "test",
        ordinary=evaluate(recommender, split, "ordinary", k, users=users, **how) if can_price else None,
        sample=sample,
    )


def measure_model(
    recommender: Recommender,
    held: Interactions,
    k: int = 20,
    *,
    log: Interactions | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> Measures:
    """The metrics of a model's lists for the users of `held`.

    Popularity is counted in `log`, by default what the lists leave out. No held-out pair may be left out of them.
    """
    check_same_ids(recommender.embeddings, held)
    users, seen = np.flatnonzero(held.user_counts).astype(np.int32), recommender.seen
    mine = seen.rows(rows_of(seen, users))
    hidden = np.intersect1d(pair_keys(held), pair_keys(mine), assume_unique=True)
    if len(hidden):
        raise InputError(
            f"held-out pairs must not be among the items that lists leave out, but {len(hidden)} of {len(held)} are; "
            "use a model whose `seen` has only train and validation pairs of this split"
        )
    lists, _ = recommender.recommend(users, k, threads=threads)
    return measure(lists, users, seen if log is None else log, held, resamples=resamples, seed=seed)


def measure(
    lists: IntArray,
    users: IntArray,
    train: Interactions,
    held: Interactions,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Measures:
    """The metrics of any lists (B, K) of item positions, one for each of `users`; -1 is an empty place.

    Held-out pairs count by their weights, if they have some, in all means over users; groups, coverage and Gini count
    lists and pairs as they are. `resamples=0` skips the intervals.
    """
    if not len(users):
        raise InputError("nothing to measure: no user has a held-out item")
    hits = find_hits(lists, users, held)
    worth, weights = weigh_hits(hits, lists, users, held)
    n_held = held.user_counts[users]
    counts = train.item_counts
    per_user = {
        "recall": recall(worth, n_held),
        "hit_rate": hit_rate(hits),
        "ndcg": ndcg(worth, n_held),
        "average_popularity": popularity.average_popularity(lists, counts),
        "tail_share": popularity.tail_share(lists, head(counts)),
    }
    group_of = popularity_groups(counts)
    shown = places_by_group(lists, group_of, HEAD_GROUPS + 1, lists >= 0)
    found = places_by_group(lists, group_of, HEAD_GROUPS + 1, hits)
    row, item = pairs_of(held, users)
    wanted = np.zeros((len(users), HEAD_GROUPS + 1))
    np.add.at(wanted, (row, group_of[item]), 1)
    exposed = popularity.exposure(lists, held.n_items)
    groups = tuple(
        {
            "items": int((group_of == g).sum()),
            "frequency": float(shown[:, g].sum() / shown.sum()),
            "recall": float(found[:, g].sum() / wanted[:, g].sum()) if wanted[:, g].any() else None,
        }
        for g in range(HEAD_GROUPS + 1)
    )
    values = np.column_stack([*per_user.values()])
    known = weights[:, None] * np.isfinite(values)  # an empty list has no popularity
    columns = np.column_stack([weights[:, None] * np.nan_to_num(values), known, shown, found, wanted])
    intervals = intervals_of(columns.astype(np.float32), lists, exposed, resamples, seed) if resamples else {}
    means = {name: float(columns[:, n].copy().sum() / known[:, n].sum()) for n, name in enumerate(per_user)}
    return Measures(
        **means,
        coverage=popularity.coverage(exposed),
        gini=gini(exposed),
        groups=groups,
        intervals=intervals,
        per_user=per_user,
        exposure=exposed,
        users=users,
        weights=weights,
        held=blake2b(
            pair_keys(held).tobytes() + str((lists.shape, weights.sum())).encode(), digest_size=16
        ).hexdigest(),
    )


def contrast(first: Measures, second: Measures, *, rounds: int = 2000, seed: int = 0) -> dict[str, dict[str, float]]:
    """For each metric that is a mean over users: first - second, its 95 % interval, and a paired p-value.

    The interval is a bootstrap over users. The p-value is from a paired randomisation test: how often differences
    with random signs have a mean at least as far from zero. Both must have the same users.
    """
    if first.held != second.held or not np.array_equal(first.users, second.users):
        raise InputError("only measures of the same users, held-out pairs and k can be compared; use one split")
    difference = np.column_stack([first.per_user[name] - second.per_user[name] for name in PER_USER])
    known = first.weights[:, None] * np.isfinite(difference)  # an empty list has no popularity
    difference = np.where(known > 0, difference * first.weights[:, None], 0)
    users = np.maximum(1e-12, known.sum(axis=0))
    mean = difference.sum(axis=0) / users
    drawn = resamples_of(len(difference), RESAMPLES, seed)
    resampled = np.concatenate([(weights @ difference) / np.maximum(1e-12, weights @ known) for weights in drawn])
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    generator = np.random.default_rng([seed, TEST_STREAM])
    beyond = np.zeros(len(PER_USER))
    for batch in batches(rounds, len(difference)):
        signs = generator.integers(0, 2, (batch, len(difference)), dtype=np.int8) * 2 - 1
        flipped = signs.astype(np.float32) @ difference.astype(np.float32) / users
        beyond += (np.abs(flipped) >= np.abs(mean) * (1 - 1e-6)).sum(axis=0)
    columns = {"difference": mean, "low": low, "high": high, "p_value": (1 + beyond) / (1 + rounds)}
    return {name: {key: float(column[n]) for key, column in columns.items()} for n, name in enumerate(PER_USER)}


def relative_change(first: Measures, second: Measures, *, seed: int = 0) -> dict[str, float] | None:
    """first / second - 1 for their recall ("change"), with a 95 % interval ("low", "high"); None if the second is 0.

    The interval is a bootstrap over users, who are the same in both.
    """
    sides = np.column_stack([one.per_user["recall"] * one.weights for one in (first, second)])
    if not sides[:, 1].any():
        return None
    sums = np.concatenate([weights @ sides for weights in resamples_of(len(sides), RESAMPLES, seed)])
    sums = sums[sums[:, 1] > 0]  # a resample may have no hit to compare with
    low, high = quantiles(sums[:, 0] / sums[:, 1] - 1)
    return {"change": float(sides[:, 0].sum() / sides[:, 1].sum() - 1), "low": low, "high": high}
