"""Popular direction, conformity direction: the axis of the vectors along which popularity lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray, check_same_ids
from counterpop.errors import InputError
from counterpop.interactions import Interactions, head
from counterpop.presentation import Shown
from counterpop.runs import Model

ItemDirection = Literal[
    "ledger", "ledger-pull", "mean", "head-mean", "popularity-mean", "head-minus-tail", "svd", "ridge"
]
UserDirection = Literal["ledger", "mean", "active-mean", "svd", "ridge"]
Rows = Literal["all", "head", "tail"]
Wide = NDArray[np.float64]

RIDGE = 10.0  # in mean squared lengths of the vectors; chosen on validation, see experiments/directions.md
TINY = 1e-300  # a penalty for vectors that are all zero, whose regression is then zero


@dataclass(frozen=True, eq=False, repr=False)
class Directions(Shown):
    """Two unit vectors (D,): of items the popular direction, of users the conformity direction."""

    item: FloatArray
    user: FloatArray


def find_directions(
    model: Model, train: Interactions, item: ItemDirection | None = None, user: UserDirection | None = None
) -> Directions:
    """The popular and the conformity direction of a model.

    By default the ledger if the model has one, else "head-mean" for items and "mean" for users; a model with a dial of
    its own has that for users. Which does best on which data: see experiments/directions.md.

    Items:
    "ledger" the mean of pull - push over popular items; "ledger-pull" of only the pull;
    "mean" the mean vector; "head-mean" that of popular items; "popularity-mean" the mean weighted by count;
    "head-minus-tail" the mean vector of popular items less that of the rest;
    "svd" the first singular vector; "ridge" the ridge regression of log(1 + count) on the vectors.

    Users:
    "ledger" the mean of pull - push over active users; "mean" the mean vector; "active-mean" that of active users;
    "svd" the first singular vector; "ridge" the ridge regression, on the vectors, of the mean log(1 + count) of the
    user's items. It has no intercept: what all users have in common is conformity too.

    The mean of pull - push over *all* items is useless: every triple adds p to one item and takes it from
    another, so it cancels. Hence popular items only: see `interactions.head`.
    """
    check_same_ids(model.embeddings, train)
    ledger = model.ledger
    own = model.dials.user_direction if model.dials and user is None else None
    item = item or ("ledger" if ledger else "head-mean")
    user = user or ("ledger" if ledger else "mean")
    check_kinds(item, user)
    if ledger is None and (item.startswith("ledger") or user == "ledger"):
        raise InputError("this model has no ledger; take a direction from mean vectors, or train with a ledger")
    along_users = _of_users(model, train, user) if own is None else own.astype(np.float64)
    return Directions(unit(_of_items(model, train, item), "popular"), unit(along_users, "conformity"))


def check_kinds(item: str, user: str) -> None:
    """Raises `InputError` unless these are kinds of directions."""
    if item not in get_args(ItemDirection) or user not in get_args(UserDirection):
        raise InputError(
            f"item direction must be one of {', '.join(get_args(ItemDirection))} and user direction one of "
            f"{', '.join(get_args(UserDirection))}, got {item!r} and {user!r}"
        )


class Side(Protocol):
    """The vectors of all users or of all items with their counts, wherever they are: in arrays or in a cluster."""

    def mean(self, rows: Rows = "all") -> Wide:
        """(D,) the mean vector: of all rows, of those in the `head` of the counts, or of the rest."""

    def weighted_sum(self) -> Wide:
        """(D,) the sum of the vectors, each times its count."""

    def second_moment(self) -> Wide:
        """(D, D) the sum of the products of each vector with itself."""

    def regression(self, centred: bool) -> tuple[Wide, Wide, int]:
        """For a regression of fame on the vectors: (D, D) and (D,) sums of products, and the number of rows.

        Centred, both are deviations from their means over all rows; else only rows with a count take part.
        """


@dataclass(frozen=True, eq=False)
class Arrays:
    """A `Side` in memory."""

    vectors: FloatArray
    counts: NDArray[np.int64]
    fame: Callable[[], Wide]

    def mean(self, rows: Rows = "all") -> Wide:
        if rows == "all":
            return _mean(self.vectors)
        popular = head(self.counts)
        return _mean(self.vectors[popular if rows == "head" else ~popular])

    def weighted_sum(self) -> Wide:
        return np.asarray(self.counts.astype(np.float64) @ self.vectors)

    def second_moment(self) -> Wide:
        wide = self.vectors.astype(np.float64)
        return np.asarray(wide.T @ wide)

    def regression(self, centred: bool) -> tuple[Wide, Wide, int]:
        fame = self.fame()
        if centred:
            target, wide = fame - fame.mean(), self.vectors - _mean(self.vectors)
        else:
            known = self.counts > 0
            target, wide = fame[known], self.vectors[known].astype(np.float64)
        return wide.T @ wide, wide.T @ target, len(wide)


def direction_of_items(kind: ItemDirection, items: Side) -> Wide:
    """A direction of items that takes no ledger, of any length."""
    match kind:
        case "mean":
            return items.mean()
        case "popularity-mean":
            return items.weighted_sum()
        case "head-minus-tail":
            return items.mean("head") - items.mean("tail")
        case "svd":
            return _first_singular(items)
        case "ridge":
            return _regress(*items.regression(centred=True))
        case _:
            return items.mean("head")


def direction_of_users(kind: UserDirection, users: Side) -> Wide:
    """A direction of users that takes no ledger, of any length."""
    match kind:
        case "active-mean":
            return users.mean("head")
        case "svd":
            return _first_singular(users)
        case "ridge":
            return _regress(*users.regression(centred=False))
        case _:
            return users.mean()


def _of_items(model: Model, train: Interactions, kind: ItemDirection) -> Wide:
    if model.ledger and kind.startswith("ledger"):
        popular = head(train.item_counts)
        pull = _mean(model.ledger.item_pull()[popular])
        return pull if kind == "ledger-pull" else pull - _mean(model.ledger.item_push()[popular])
    counts = train.item_counts
    return direction_of_items(kind, Arrays(model.embeddings.item_vectors, counts, lambda: np.log1p(counts)))


def _of_users(model: Model, train: Interactions, kind: UserDirection) -> Wide:
    if model.ledger and kind == "ledger":
        active = head(train.user_counts)
        return _mean(model.ledger.user_pull()[active]) - _mean(model.ledger.user_push()[active])
    return direction_of_users(kind, Arrays(model.embeddings.user_vectors, train.user_counts, lambda: mean_fame(train)))


def mean_fame(log: Interactions) -> Wide:
    """(U,) how far each user's history leans to the head: the mean log(1 + count) of their items; 0 without items."""
    fame = np.log1p(log.item_counts)[log.item_ix]
    return np.bincount(log.user_ix, fame, log.n_users) / np.maximum(1, log.user_counts)


def lean_of(log: Interactions) -> FloatArray:
    """(U,) `mean_fame` in standard deviations from its mean over users, at most 3; 0 for users without items."""
    fame, known = mean_fame(log), log.user_counts > 0
    if not known.any():
        return np.zeros(log.n_users, dtype=np.float32)
    spread = max(float(fame[known].std()), 1e-12)
    return np.where(known, np.clip((fame - fame[known].mean()) / spread, -3, 3), 0).astype(np.float32)


def _regress(gram: Wide, cross: Wide, n: int) -> Wide:
    """Ridge regression on vectors, without intercept; the penalty does not depend on their scale."""
    penalty = RIDGE * np.trace(gram) / max(1, n)
    return np.asarray(np.linalg.solve(gram + max(penalty, TINY) * np.eye(len(gram)), cross))


def _first_singular(side: Side) -> Wide:
    """The direction of the vectors' largest second moment, on the side of their mean; zero if they are all zero."""
    values, directions = np.linalg.eigh(side.second_moment())
    first = directions[:, -1] * (values[-1] > 0)
    return np.asarray(-first if first @ side.mean() < 0 else first)


def _mean(vectors: FloatArray) -> Wide:
    return np.asarray(vectors.mean(axis=0, dtype=np.float64))


def unit(vector: Wide, what: str) -> FloatArray:
    """The vector at length 1; says so where there is none."""
    length = np.linalg.norm(vector)
    if not np.isfinite(length) or length == 0:
        raise InputError(
            f"the {what} direction is zero: what it is taken from cancels or is all zero; with a ledger, "
            "record more triples (lower ledger_every) or look at validation later (raise check_every)"
        )
    return (vector / length).astype(np.float32)
