"""Popular direction, conformity direction: the axis of the vectors along which popularity lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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
    if item not in get_args(ItemDirection) or user not in get_args(UserDirection):
        raise InputError(
            f"item direction must be one of {', '.join(get_args(ItemDirection))} and user direction one of "
            f"{', '.join(get_args(UserDirection))}, got {item!r} and {user!r}"
        )
    if ledger is None and (item.startswith("ledger") or user == "ledger"):
        raise InputError("this model has no ledger; take a direction from mean vectors, or train with a ledger")
    along_users = _of_users(model, train, user) if own is None else own.astype(np.float64)
    return Directions(unit(_of_items(model, train, item), "popular"), unit(along_users, "conformity"))


def _of_items(model: Model, train: Interactions, kind: ItemDirection) -> NDArray[np.float64]:
    vectors, ledger, popular = model.embeddings.item_vectors, model.ledger, head(train.item_counts)
    if ledger and kind.startswith("ledger"):
        pull = _mean(ledger.item_pull()[popular])
        return pull if kind == "ledger-pull" else pull - _mean(ledger.item_push()[popular])
    match kind:
        case "mean":
            return _mean(vectors)
        case "popularity-mean":
            return np.asarray(train.item_counts.astype(np.float64) @ vectors)
        case "head-minus-tail":
            return _mean(vectors[popular]) - _mean(vectors[~popular])
        case "svd":
            return _first_singular(vectors)
        case "ridge":
            fame = np.log1p(train.item_counts)
            return _regress(fame - fame.mean(), vectors - _mean(vectors))
        case _:
            return _mean(vectors[popular])


def _of_users(model: Model, train: Interactions, kind: UserDirection) -> NDArray[np.float64]:
    vectors, ledger, active = model.embeddings.user_vectors, model.ledger, head(train.user_counts)
    if ledger and kind == "ledger":
        return _mean(ledger.user_pull()[active]) - _mean(ledger.user_push()[active])
    match kind:
        case "active-mean":
            return _mean(vectors[active])
        case "svd":
            return _first_singular(vectors)
        case "ridge":
            known = train.user_counts > 0
            return _regress(mean_fame(train)[known], vectors[known].astype(np.float64))
        case _:
            return _mean(vectors)


def mean_fame(log: Interactions) -> NDArray[np.float64]:
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


def _regress(target: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ridge regression of the target on the vectors, without intercept; the penalty does not depend on their scale."""
    gram = vectors.T @ vectors
    penalty = RIDGE * np.trace(gram) / max(1, len(vectors))
    return np.asarray(np.linalg.solve(gram + max(penalty, TINY) * np.eye(len(gram)), vectors.T @ target))


def _first_singular(vectors: FloatArray) -> NDArray[np.float64]:
    """The direction of the vectors' largest second moment, on the side of their mean; zero if they are all zero."""
    wide = vectors.astype(np.float64)
    values, directions = np.linalg.eigh(wide.T @ wide)
    first = directions[:, -1] * (values[-1] > 0)
    return np.asarray(-first if first @ _mean(vectors) < 0 else first)


def _mean(vectors: FloatArray) -> NDArray[np.float64]:
    return np.asarray(vectors.mean(axis=0, dtype=np.float64))


def unit(vector: NDArray[np.float64], what: str) -> FloatArray:
    """The vector at length 1; says so where there is none."""
    length = np.linalg.norm(vector)
    if not np.isfinite(length) or length == 0:
        raise InputError(
            f"the {what} direction is zero: what it is taken from cancels or is all zero; with a ledger, "
            "record more triples (lower ledger_every) or look at validation later (raise check_every)"
        )
    return (vector / length).astype(np.float32)
