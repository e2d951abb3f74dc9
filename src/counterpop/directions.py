"""Popular direction, conformity direction: the axis of the vectors along which popularity lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray, check_same_ids
from counterpop.errors import InputError
from counterpop.interactions import Interactions, head
from counterpop.runs import Model

ItemDirection = Literal["ledger", "ledger-pull", "head-mean", "popularity-mean", "head-minus-tail"]
UserDirection = Literal["ledger", "mean", "active-mean"]


@dataclass(frozen=True, eq=False)
class Directions:
    """Two unit vectors (D,): of items the popular direction, of users the conformity direction."""

    item: FloatArray
    user: FloatArray


def find_directions(
    model: Model, train: Interactions, item: ItemDirection | None = None, user: UserDirection | None = None
) -> Directions:
    """The popular and the conformity direction of a model.

    Items: "ledger" the mean over popular items of pull - push, "ledger-pull" of only the pull, "head-mean"
    the mean vector of popular items, "popularity-mean" the mean of all item vectors weighted by count,
    "head-minus-tail" the mean vector of popular items less that of the rest. Users: "ledger" the mean of
    pull - push over active users, "mean" the mean vector, "active-mean" that of active users. By default the
    ledger where the model has one, else "head-mean" and "mean"; a model with a dial of its own has that for
    users.

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
    popular, active = head(train.item_counts), head(train.user_counts)
    items, users = model.embeddings.item_vectors, model.embeddings.user_vectors
    if item == "ledger-pull" and ledger:
        along_items = _mean(ledger.item_pull()[popular])
    elif item == "ledger" and ledger:
        along_items = _mean(ledger.item_pull()[popular]) - _mean(ledger.item_push()[popular])
    elif item == "popularity-mean":
        along_items = train.item_counts.astype(np.float64) @ items
    elif item == "head-minus-tail":
        along_items = _mean(items[popular]) - _mean(items[~popular])
    else:
        along_items = _mean(items[popular])
    if user == "ledger" and ledger:
        along_users = _mean(ledger.user_pull()[active]) - _mean(ledger.user_push()[active])
    elif own is not None:
        along_users = own.astype(np.float64)
    elif user == "active-mean":
        along_users = _mean(users[active])
    else:
        along_users = _mean(users)
    return Directions(unit(along_items, "popular"), unit(along_users, "conformity"))


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
