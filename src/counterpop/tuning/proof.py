"""Points of the frontier of gain against price, each tested on users on whom it was not chosen.

The winner of a grid flatters itself. So validation users are dealt into folds, strengths for each fold are chosen on
the other folds, and each user is measured at the strengths of their fold. All users together then give a paired test of
the whole procedure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from counterpop.directions import ItemDirection, UserDirection
from counterpop.embeddings import FloatArray
from counterpop.evaluation import Measures, contrast, measure
from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.metrics.resampling import PER_USER, RESAMPLES
from counterpop.ranking import rank
from counterpop.recommender import Recommender
from counterpop.tuning.search import LOWER_IS_BETTER, Grid, Target, above_floor, choose_strengths

Which = Literal["gain", "balanced", "free"]
WHICH: tuple[Which, ...] = get_args(Which)
Pair = tuple[float, float]
Values = NDArray[np.float64]
Effect = Mapping[str, Mapping[str, float]]  # as `compare` gives it
Kinds = tuple[ItemDirection | None, UserDirection | None]

FOLDS = 10
EVERYBODY = np.ones(FOLDS, dtype=bool)
SIGNIFICANT = 0.05
NOTICEABLE = 1.645  # standard errors of a loss that is significant at 5 %, one-sided
FOLD_STREAM = 600


@dataclass(frozen=True)
class Proof:
    """A point of the frontier: its strengths, and what choosing them this way is worth to users not chosen on."""

    item_strength: float
    user_strength: float
    proven: bool
    """Whether the gain is significant and the price is kept."""
    gain: float
    """Improvement of the target over strength 0, above 0 if better; `low` and `high` are its 95 % interval."""
    low: float
    high: float
    p_value: float | None
    """Of a paired test over users; None for coverage and Gini, which are proven if the interval is above 0."""
    price: float | None = None
    """Share of recall on the ordinary part that is lost, with its 95 % interval; None without such a part."""
    price_low: float | None = None
    price_high: float | None = None
    lean: float = 0.0
    """What is added to a user's item strength for each standard deviation of lean: see `Adjustment`."""


@dataclass(frozen=True, eq=False)
class Folded:
    """A metric at every pair of strengths, for each fold of users; higher is better."""

    values: Values  # (F, A, B), 0 for a fold without users
    weight: Values  # (F,) of all users of the fold

    @classmethod
    def of(cls, grid: Grid, name: str) -> Folded:
        """The folds of a grid; for a property of all lists together, the grid itself as every fold."""
        sign, folds = -1 if name in LOWER_IS_BETTER else 1, grid.user_groups
        tables = [sign * np.nan_to_num((fold if name in PER_USER else grid).values[name]) for fold in folds]
        return cls(np.stack(tables), np.array([fold.weight or fold.users for fold in folds], float))

    def mean(self, among: BoolArray) -> Values:
        """(A, B) over the users of these folds."""
        return np.asarray(np.tensordot(self._shares(among), self.values, 1))

    def loss(self, best: tuple[int, int], among: BoolArray) -> tuple[Values, Values]:
        """(A, B) by how much each point is below `best`, and the standard error of that by the spread over folds."""
        shares = self._shares(among)
        below = self.values[:, best[0], best[1], None, None] - self.values
        mean = np.tensordot(shares, below, 1)
        number = max(2, int(np.count_nonzero(shares)))
        return mean, np.sqrt(number / (number - 1) * np.tensordot(shares**2, (below - mean) ** 2, 1))

    def _shares(self, among: BoolArray) -> Values:
        return self.weight * among / max(1e-12, float((self.weight * among).sum()))


@dataclass(frozen=True, eq=False)
class Frontier:
    """What points are chosen by: the grids of both validation parts with a grid for each fold, and the limits."""

    grid: Grid
    ordinary: Grid | None
    target: Target
    floor: Mapping[str, float]
    price: float | None
    """Largest share of ordinary recall that the balanced and the free point may cost; None for any."""
    spare: float = 1.0
    """Standard errors by which a point must be below that limit."""

    def choose(self, which: Which, among: BoolArray = EVERYBODY) -> Pair:
        """The strengths of a point, by the users of these folds.

        "gain" is the maximum of the target. "balanced" allows only points that cost at most the price, with some
        standard errors to spare, and "free" of these only points whose loss is not significant. Of all allowed points
        that are within one standard error (paired, by folds) of the best one, both take the smallest total strength.
        """
        a, b = self.grid.item_strengths, self.grid.user_strengths
        allowed = above_floor(self.floor, self.ordinary, (len(a), len(b)))
        if which != "gain" and self.ordinary is not None:
            recall, zero = Folded.of(self.ordinary, "recall"), (a.index(0.0), b.index(0.0))
            lost, error = recall.loss(zero, among)
            if self.price is not None:
                allowed &= lost + self.spare * error <= self.price * recall.mean(among)[zero] + 1e-12
            if which == "free":
                allowed &= lost <= NOTICEABLE * error + 1e-12
        measured = Folded.of(self.grid, self.target)
        value = np.where(allowed, measured.mean(among), -np.inf)
        below, error = measured.loss(divmod(int(value.argmax()), len(b)), among)
        near = allowed & (below <= 1e-12 + (0.0 if which == "gain" else error))
        total = np.where(near, np.add.outer(np.abs(a), np.abs(b)).round(9), np.inf)
        item, user = max(np.argwhere(total == total.min()), key=lambda at: value[tuple(at)])
        return a[item], b[user]


@dataclass(frozen=True, eq=False)
class Way:
    """A way to adjust a model: its directions, and the frontier of the grid along them."""

    model: Recommender
    frontier: Frontier
    kinds: Kinds = (None, None)
    """How the directions of items and users were found: see `find_directions`."""
    by_user: bool = False
    """Whether the second axis of the grid is `lean`, so that item strengths differ by user."""

    def queries(self, users: IntArray, first: FloatArray, second: FloatArray) -> FloatArray:
        """The adjusted vectors of users (B,), each at its own point (B,), (B,) of the grid."""
        vectors = self.model.embeddings.user_vectors[users]
        if self.by_user:
            return self.model.query(vectors, first + second * self.model.leans[users], 0.0)
        return self.model.query(vectors, first, second)

    @property
    def maximum(self) -> Pair:
        """The strengths with the best target."""
        grid, ordinary = self.frontier.grid, self.frontier.ordinary
        return choose_strengths(grid, self.frontier.target, self.frontier.floor, ordinary)

    def folded(self, strengths: Pair) -> Values:
        """(F,) the target of each fold at these strengths, higher is better."""
        grid = self.frontier.grid
        at = grid.item_strengths.index(strengths[0]), grid.user_strengths.index(strengths[1])
        return Folded.of(grid, self.frontier.target).values[:, at[0], at[1]]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Ways to adjust and held-out pairs, to measure a choice of way and strengths on users on whom it was not made."""

    ways: tuple[Way, ...]
    """The first is taken unless another is better."""
    held: tuple[Interactions, ...]
    """The validation part and, if there is one, the ordinary part."""
    fold: IntArray
    """(U,) the fold of every user."""
    k: int
    seed: int
    known: dict[tuple[tuple[int, Pair], ...], tuple[list[Measures], list[Effect]]] = field(default_factory=dict)
    """Measures and effects that were computed already, by the choices of the folds."""

    @cached_property
    def plain(self) -> list[Measures]:
        """The measures of each part at strengths 0."""
        return self.measure([(0, (0.0, 0.0))] * FOLDS)

    def choose(self, which: Which, among: BoolArray = EVERYBODY) -> tuple[int, Pair]:
        """A way and its strengths, by the users of these folds.

        For "gain" it is the way with the best target; for the other points the first one, unless a later one is better
        by more than one standard error (paired, by folds).
        """
        best, strengths = 0, self.ways[0].frontier.choose(which, among)
        for number, way in enumerate(self.ways[1:], start=1):
            other = way.frontier.choose(which, among)
            values = np.stack([way.folded(other), self.ways[best].folded(strengths)], axis=-1)[:, None]
            weight = Folded.of(way.frontier.grid, way.frontier.target).weight
            better, error = (table[0, 1] for table in Folded(values, weight).loss((0, 0), among))
            if better > (0.0 if which == "gain" else error):
                best, strengths = number, other
        return best, strengths

    def measure(self, choices: Sequence[tuple[int, Pair]]) -> list[Measures]:
        """The measures of each part with every user adjusted as chosen for their fold."""
        way_of = np.array([way for way, _ in choices])[self.fold]
        points = np.array([pair for _, pair in choices], dtype=np.float32)[self.fold].T
        first = self.ways[0]
        resamples = 0 if first.frontier.target in PER_USER else RESAMPLES
        vectors, measures = first.model.embeddings, []
        for held in self.held:
            users = np.flatnonzero(held.user_counts).astype(np.int32)
            queries = np.empty((len(users), vectors.dim), dtype=np.float32)
            for number, way in enumerate(self.ways):
                mine = way_of[users] == number
                who = users[mine]
                queries[mine] = way.queries(who, points[0, who], points[1, who])
            seen = first.model.seen
            lists, _ = rank(queries, vectors.item_vectors, self.k, users=users, seen=[seen], ties=first.model.ties)
            measures.append(measure(lists, users, seen, held, resamples=resamples, seed=self.seed))
        return measures

    def prove(self, which: Which) -> tuple[Proof, list[Measures]]:
        """A point of the frontier, and the measures of each part with everything chosen on the other folds."""
        folds = np.arange(FOLDS)
        way, strengths = self.choose(which)
        choices = tuple(self.choose(which, folds != fold) for fold in folds)
        if choices not in self.known:  # points often agree
            adjusted = self.measure(choices)
            pairs = zip(adjusted, self.plain, strict=True)
            self.known[choices] = adjusted, [contrast(after, before, seed=self.seed) for after, before in pairs]
        adjusted, effects = self.known[choices]
        proof = prove_point(which, strengths, self.ways[way].frontier, self.plain, adjusted, effects)
        if self.ways[way].by_user:
            proof = replace(proof, user_strength=0.0, lean=strengths[1])
        return proof, adjusted

    def if_better(self, which: Which, simple: CrossFit) -> CrossFit:
        """This one, if its point is significantly better than that of a simpler one for the same users, else that."""
        target = self.ways[0].frontier.target
        row = contrast(self.prove(which)[1][0], simple.prove(which)[1][0], seed=self.seed)[target]
        gain = -row["difference"] if target in LOWER_IS_BETTER else row["difference"]
        return self if gain > 0 and row["p_value"] < SIGNIFICANT else simple


def prove_point(
    which: Which,
    strengths: Pair,
    frontier: Frontier,
    plain: Sequence[Measures],
    adjusted: Sequence[Measures],
    effects: Sequence[Effect],
    level: float = SIGNIFICANT,
) -> Proof:
    """A point by its measures on users not chosen on: those of the validation part, and of the ordinary part if any."""
    gain, low, high, p_value = _gain(frontier.target, plain[0], adjusted[0], effects[0])
    price: tuple[float | None, float | None, float | None] = (None, None, None)
    keeps = True
    if len(effects) == 2:
        whole, lost = plain[1].recall or 1.0, effects[1]["recall"]
        price = -lost["difference"] / whole + 0.0, -lost["high"] / whole + 0.0, -lost["low"] / whole + 0.0
        limit = np.inf if frontier.price is None or which == "gain" else frontier.price
        keeps = -lost["difference"] <= limit * whole and (which != "free" or lost["high"] >= 0)
    significant = gain > 0 and (low > 0 if p_value is None else p_value < level)
    return Proof(*strengths, keeps and significant and strengths != (0.0, 0.0), gain, low, high, p_value, *price)


def _gain(
    target: Target, before: Measures, after: Measures, effect: Effect
) -> tuple[float, float, float, float | None]:
    """The improvement of the target, its interval, and the p-value if there is one."""
    if target in PER_USER:
        row = effect[target]
        difference, low, high, p_value = (row[name] for name in ("difference", "low", "high", "p_value"))
    else:  # no test for the same users: the difference is beyond 0 only if the two intervals are apart
        difference, p_value = getattr(after, target) - getattr(before, target), None
        low = after.intervals[target][0] - before.intervals[target][1]
        high = after.intervals[target][1] - before.intervals[target][0]
    if target in LOWER_IS_BETTER:
        difference, low, high = -difference, -high, -low
    return difference, low, high, p_value


def explain_choice(points: Mapping[Which, Proof], which: Which, target: Target, limit: float | None) -> str:
    """Which point was taken and what it is worth, or why strengths stay 0; `limit` is the allowed price."""
    tried, most = points[which], points["gain"]
    if tried.proven:
        return f"Took the {which} point, {name_point(tried)}: {worth(tried, target)}."
    if most.proven and most.price is not None and which != "gain":
        allowed = "at no significant loss" if which == "free" else "at the allowed price"
        if which == "balanced" and limit is not None:
            allowed = f"at a price of at most {100 * limit:g} % of ordinary recall"
        return (
            f"NO PROVEN POINT KEEPS THE PRICE, so strengths stay 0: no gain {allowed} is proven. "
            f"The most gain, {name_point(most)}: {worth(most, target)}; --point gain or a higher --price takes it."
        )
    return f"Strengths stay 0, because no gain is proven. The best try, {name_point(tried)}: {worth(tried, target)}."


def name_point(point: Proof | Recommender) -> str:
    by = f" {point.lean:+g} for each standard deviation of lean to popular items" if point.lean else ""
    return f"item strength {point.item_strength}{by}, user strength {point.user_strength}"


def worth(point: Proof, target: Target) -> str:
    """Gain and price in words."""
    by = "" if point.p_value is None else f", {'p < 0.001' if point.p_value < 0.001 else f'p = {point.p_value:.3f}'}"
    gain = f"{target.replace('_', ' ')} improves by {point.gain:.4f} ({point.low:.4f} to {point.high:.4f}{by})"
    if point.price is None or point.price_low is None or point.price_high is None:
        return f"{gain} on users not chosen on; the price is unknown, as the split has no ordinary part"
    price, low, high = (f"{100 * share:.1f}" for share in (point.price, point.price_low, point.price_high))
    return f"{gain} on users not chosen on, at a price of {price} % of ordinary recall ({low} to {high})"


def deal_folds(n_users: int, seed: int) -> IntArray:
    """(U,) the fold of every user, by a random stream of its own."""
    return (np.random.default_rng([seed, FOLD_STREAM]).permutation(n_users) % FOLDS).astype(np.int32)
