"""The strengths of a run: proven on validation, or 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from typing import Any, Literal, TypedDict, Unpack

from counterpop.directions import ItemDirection, UserDirection, find_directions
from counterpop.errors import InputError, check_settings
from counterpop.evaluation import Measures
from counterpop.interactions import Interactions
from counterpop.metrics.resampling import PER_USER
from counterpop.panels import Sample, Users, hold_panel
from counterpop.presentation import Pictured
from counterpop.recommender import Recommender
from counterpop.runs import BOTH_SIDES, FIXED, Dials, Run, Strengths
from counterpop.splits import Development, Split
from counterpop.tuning.proof import (
    WHICH,
    CrossFit,
    Frontier,
    Kinds,
    Proof,
    Way,
    Which,
    deal_folds,
    explain_choice,
    name_point,
    worth,
)
from counterpop.tuning.search import Grid, Target, Tradeoff, search_strengths, trace_frontier

PRICE = 0.05  # of ordinary recall
COLLAPSE = 0.5  # of the head's recall
ONE_DIAL: Strengths = tuple(round(0.05 * n, 2) for n in range(41))  # as finely as one dial allows
LEANS: Strengths = (-0.4, -0.2, -0.1, 0.0, 0.1, 0.2)  # added to the item strength for each standard deviation


class PointOptions(TypedDict, total=False):
    """The fields of `PointSettings` as keywords, for type checkers."""

    target: Target
    point: Which
    price: float | None
    floor: Mapping[str, float] | None
    k: int
    user_direction: UserDirection | None
    users: Users
    seed: int


class TuneOptions(PointOptions, total=False):
    """The fields of `TuneSettings` as keywords of `tune`."""

    item_direction: ItemDirection | Literal["auto"] | None
    prove: bool
    by_user: bool
    one_dial: bool


@dataclass(frozen=True, eq=False)
class PointSettings:
    """How `tune` and `debias` choose a point of the frontier of gain against price."""

    target: Target = "recall"
    """The metric to optimise on held-out pairs that are drawn evenly over items."""
    point: Which = "balanced"
    """"gain": the most gain, at any price. "balanced": the most gain at a price of at most `price`. "free": the most
    gain without a significant loss of ordinary recall."""
    price: float | None = None
    """Largest share of ordinary recall that "balanced" and "free" may cost: 0.05, or with a floor any."""
    floor: Mapping[str, float] | None = None
    """`{"ndcg": 0.98}` keeps at least this share of the plain model's NDCG on ordinary held-out pairs."""
    k: int = 20
    """Length of the recommendation lists."""
    user_direction: UserDirection | None = None
    """How to find the directions: see `find_directions`, also for the defaults."""
    users: Users = None
    """How many users to measure: a number, "all", or None for all unless there are too many (see `panels`)."""
    seed: int = 0
    """Seed of all random draws."""

    def __post_init__(self) -> None:
        if self.point not in WHICH:
            raise InputError(f"point must be one of {', '.join(WHICH)}, got {self.point!r}")
        if self.price is not None and not 0 <= self.price < 1:
            raise InputError(f"price is a share of ordinary recall, at least 0 and below 1, got {self.price}")

    @property
    def allowed_price(self) -> float | None:
        return PRICE if self.price is None and not self.floor else self.price

    @property
    def floors(self) -> Mapping[str, float]:
        """The floor, with the limit on the price as one of recall."""
        limit = {"gain": None, "balanced": self.allowed_price, "free": 0.0}[self.point]
        return {**({} if limit is None else {"recall": 1 - limit}), **(self.floor or {})}


@dataclass(frozen=True, eq=False)
class TuneSettings(PointSettings):
    """The settings of `tune`, which takes them as keywords. The point "gain" needs no proof here, as in the paper."""

    item_direction: ItemDirection | Literal["auto"] | None = None
    """"auto" takes the default or "ridge", whichever is better; that choice is part of what is proven."""
    prove: bool = True
    """False takes the maximum of the paper's grid and proves nothing, in half the time; only with point="gain"."""

    by_user: bool = False
    """Also try item strengths that depend on how far a user's history leans to popular items (see `lean_of`). They are
    taken only if they are significantly better than one strength for all."""
    one_dial: bool = False
    """Search only the item strength, in steps of .05. Where both directions are nearly parallel, a pair (a, b) does
    what a single strength a + b - ab does, so nothing is lost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_user and (self.target not in PER_USER or not self.prove):
            raise InputError("by_user must be proven on a metric of single users, not on coverage, gini or prove=False")
        if not self.prove and self.point != "gain":
            raise InputError(f"prove=False goes only with point='gain', which takes a maximum, got {self.point!r}")
        if not self.prove and self.item_direction == "auto":
            raise InputError("item_direction='auto' is a choice that needs proof; leave out prove=False")

    @property
    def kinds(self) -> tuple[Kinds, ...]:
        """The ways to find directions that are compared, the default first."""
        if self.item_direction == "auto":
            return (None, self.user_direction), ("ridge", self.user_direction or "ridge")
        return ((self.item_direction, self.user_direction),)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Tuned(Recommender, Pictured):
    """A recommender with the grid that its strengths were chosen from, and why these were chosen."""

    grid: Grid
    ordinary: Grid | None
    """The same on the ordinary validation part, if there is one."""
    settings: TuneSettings = field(default_factory=TuneSettings)
    drawn: str = "unknown"
    """How the validation part was drawn."""
    kinds: Kinds = (None, None)
    """How the directions were found: see `find_directions`."""
    by_lean: Grid | None = None
    """The grid of item strengths (first) and leans (second), if item strengths differ by user."""
    points: Mapping[Which, Proof] = field(default_factory=dict)
    """What each point of the frontier would choose and is worth; empty if the model has no strengths."""
    warnings: tuple[str, ...] = ()
    sample: Sample | None = None
    """Which users of the validation part were measured, if not all."""

    @property
    def proven(self) -> bool:
        """Whether the gain of the point that was asked for is proven."""
        return bool(self.points) and self.points[self.settings.point].proven

    @property
    def measured(self) -> dict[str, float]:
        """All metrics of the validation part at the chosen strengths."""
        if self.by_lean is not None:
            return self.by_lean.at(self.item_strength, self.lean)
        return self.grid.at(self.item_strength, self.user_strength)

    @property
    def frontier(self) -> tuple[Tradeoff, ...]:
        """The efficient pairs of strengths: see `trace_frontier`. Empty without an ordinary part, so without prices."""
        return () if self.ordinary is None else trace_frontier(self.grid, self.ordinary, self.settings.target)

    @property
    def sentence(self) -> str:
        """What was done, and why."""
        how = self.settings
        if not how.prove:
            return f"Took the grid's maximum, {name_point(self)}, without looking for proof."
        if not self.points:
            return "There are no strengths to tune, so they are 0."
        if how.point != "gain":
            return explain_choice(self.points, how.point, how.target, how.allowed_price)
        tried = self.points["gain"]
        proof = "which is proven" if tried.proven else "which is not proven"
        taken = f"Took the grid's maximum, {name_point(self)}, without requiring proof"
        return f"{taken}: {worth(tried, how.target)}, {proof}."

    def to_json(self) -> dict[str, Any]:
        """What was chosen and why, without the grids."""
        chosen = self.points.get(self.settings.point)
        return {
            "item_strength": self.item_strength,
            "user_strength": self.user_strength,
            "item_direction": self.kinds[0],
            "user_direction": self.kinds[1],
            **({name: value for name, value in asdict(chosen).items() if "strength" not in name} if chosen else {}),
            "lean": self.lean,
            "proven": self.proven,
            "points": {name: asdict(point) for name, point in self.points.items()},
            "frontier": [asdict(point) for point in self.frontier],
            "sentence": self.sentence,
            "warnings": list(self.warnings),
            "validation": self.drawn,
            "sample": self.sample and self.sample.to_json(),
        }


def tune(run: Run, split: Split | Development, **settings: Unpack[TuneOptions]) -> Tuned:
    """The model at strengths proven on the validation part, or at 0; the test part is never used.

    The settings are those of `TuneSettings`. A gain is proven if a paired test is significant (p < 0.05) on validation
    users, each measured at strengths that were chosen on other users. The price is what recall loses on the ordinary
    validation part; without one it is unknown and not limited. Of strengths that cannot be told from the best, the
    smallest are taken: see `Frontier.choose`. `point="gain"` takes the grid's maximum instead. Near 0, where a little
    strength gains most for its price, the grid is finer than the paper's.

    Strengths are chosen on the model trained without the validation part. If the run was refit on train +
    validation, the result is the second model at the strengths of the first. The grid is that of the model's own
    dials; a model without dials (plain, IPS, CausE, DICE, corrected vectors) keeps strengths 0. Naming a direction
    applies the paper's adjustment to any model. `item_direction="auto"` also tries the ridge directions.
    """
    check_settings(settings, [one.name for one in fields(TuneSettings)])
    how = TuneSettings(**settings)
    named = how.item_direction is not None or how.user_direction is not None
    dials = BOTH_SIDES if named else run.model.dials or Dials()
    _check_dials(dials, how)
    known = split.development if isinstance(split, Split) else split
    if known.ordinary is None and how.price is not None:
        raise InputError(
            "a price is measured on an ordinary validation part, but this split has none; "
            "make the split with one (split --ordinary 0.05)"
        )
    panels = [
        hold_panel(part, known.train, how.users, how.seed) for part in (known.valid, known.ordinary) if part is not None
    ]
    fit = _search(run, known, tuple(held for held, _ in panels), dials, how)
    way = base = fit.ways[0]
    pair = way.maximum  # the only one, if there is nothing to tune
    points: dict[Which, Proof] = {}
    warnings: list[str] = []
    if how.prove and max(map(len, (dials.item_strengths, dials.user_strengths))) > 1:
        simple = replace(fit, ways=tuple(way for way in fit.ways if not way.by_user), known={})
        if len(simple.ways) < len(fit.ways):
            fit = fit.if_better(how.point, simple)
        proofs = {which: fit.prove(which) for which in WHICH}
        points = {which: point for which, (point, _) in proofs.items()}
        point, measures = proofs[how.point]
        number, pair = fit.choose(how.point)
        way = fit.ways[number]
        base = next(one for one in fit.ways if one.kinds == way.kinds)  # the same directions, one strength for all
        if how.point == "gain":
            pair = way.maximum
        elif not point.proven:
            pair = (0.0, 0.0)
        warnings = warn_of(base.frontier.grid, (pair[0], 0.0) if way.by_user else pair, fit.plain[-1], measures[-1])
    strengths, lean = ((pair[0], 0.0), pair[1]) if way.by_user else (pair, 0.0)
    directions = way.model.item_direction, way.model.user_direction
    trial = None
    if run.refit is not None:
        trial = replace(way.model.with_strengths(*strengths), lean=lean)
        found = find_directions(run.refit, known.refit_train(), *way.kinds)
        directions = found.item, found.user
    return Tuned(
        *directions,
        *strengths,
        lean=lean,
        embeddings=run.embeddings,
        seen=known.refit_train(),
        refit=trial is not None,
        trial=trial,
        grid=base.frontier.grid,
        ordinary=base.frontier.ordinary,
        by_lean=way.frontier.grid if way.by_user and lean else None,
        settings=how,
        drawn=known.drawn,
        kinds=way.kinds,
        points=points,
        warnings=tuple(warnings),
        sample=panels[0][1],
    )


def _check_dials(dials: Dials, how: TuneSettings) -> None:
    """Raises `InputError` if a setting about item strengths would be ignored; a model without any dials is reported."""
    name = "by_user" if how.by_user else "one_dial"
    if (how.by_user or how.one_dial) and len(dials.item_strengths) == 1 < len(dials.user_strengths):
        raise InputError(
            f"{name}=True is about the item strength, but this model has only a user strength; leave it out"
        )


def _search(run: Run, known: Development, held: tuple[Interactions, ...], dials: Dials, how: TuneSettings) -> CrossFit:
    """The grids of the held-out parts along each pair of directions that is to be compared, ready to be proven."""
    axes = dials.item_strengths, dials.user_strengths
    if how.one_dial and min(map(len, axes)) > 1:
        axes = ONE_DIAL, FIXED
    options: dict[str, Any] = {"k": how.k}
    fold = deal_folds(known.train.n_users, how.seed)
    if how.prove and max(map(len, axes)) > 1:
        axes = refine(axes[0]), refine(axes[1])
        options |= {"user_groups": fold}
    options |= {"item_strengths": axes[0], "user_strengths": axes[1]}
    ways = []
    for by_user, kinds in product((False, True) if how.by_user and len(axes[0]) > 1 else (False,), how.kinds):
        directions = find_directions(run.model, known.train, *kinds)
        sides = directions.item, directions.user
        model = Recommender(*sides, 0.0, 0.0, embeddings=run.model.embeddings, seen=known.train)
        own = options | ({"user_strengths": LEANS, "lean": model.leans} if by_user else {})
        grids = [search_strengths(run.model.embeddings, directions, known.train, part, **own) for part in held]
        ordinary = grids[1] if len(grids) == 2 else None
        frontier = Frontier(grids[0], ordinary, how.target, how.floor or {}, how.allowed_price)
        ways.append(Way(model, frontier, kinds, by_user))
    return CrossFit(tuple(ways), held, fold, how.k, how.seed)


def refine(strengths: Strengths) -> Strengths:
    """The strengths of a dial with a quarter and a half of its first step added.

    >>> refine((0.0, 0.2, 0.4)), refine((0.0,))
    ((0.0, 0.05, 0.1, 0.2, 0.4), (0.0,))
    """
    first = min((strength for strength in strengths if strength > 0), default=0.0)
    return tuple(sorted({*strengths, first / 4, first / 2}))


def warn_of(grid: Grid, strengths: tuple[float, float], plain: Measures, adjusted: Measures) -> list[str]:
    """What to know about strengths other than 0: on the edge of the grid, or the end of the head's recall."""
    warnings = []
    axes = ("item", grid.item_strengths), ("user", grid.user_strengths)
    for (side, axis), strength in zip(axes, strengths, strict=True):
        if len(axis) > 1 and strength == max(axis):
            warnings.append(f"{side} strength {strength} is the largest of its grid; a larger one may be better")
    before, after = (measures.groups[0]["recall"] for measures in (plain, adjusted))
    if strengths != (0.0, 0.0) and before and after < COLLAPSE * before:
        warnings.append(f"recall of the most popular 5 % of items collapses from {before:.3f} to {after:.3f}")
    return warnings
