"""A few users, chosen by plain definitions, before and after the adjustment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.evaluation import Evaluation
from counterpop.interactions import IntArray, Interactions
from counterpop.recommender import Explained, Recommender

MOST_HISTORY = 12  # items of a history that are shown
OUTER = 0.1  # a niche history is less popular than those of all but this share of users


@dataclass(frozen=True, eq=False)
class Case:
    """One user's history and both lists."""

    kind: str
    why: str
    """Why this user was chosen, in a sentence."""
    user: Any
    history: tuple[int, ...]
    """Items, the latest first, or the most popular first if the log has no times; at most 12."""
    length: int
    """Of the whole history."""
    dated: bool
    plain: tuple[Explained, ...]
    adjusted: tuple[Explained, ...]
    later: frozenset[int] = frozenset()
    """Held-out items: what the user chose, unknown to the model."""


def typical_users(
    model: Recommender, found: Evaluation, counts: NDArray[np.int64], held: Interactions | None = None
) -> tuple[Case, ...]:
    """A niche user, a mainstream one, one who gains and one who loses, all different.

    They are chosen among the measured users whose history is at least as long as the median. `counts` is the popularity
    of every item, and `held` are the held-out pairs, if the lists of `model` are those that were measured.
    """
    users = found.plain.users
    lengths = model.seen.user_counts[users]
    able = lengths >= max(1.0, float(np.median(lengths)))
    cases: list[Case] = []
    taken: set[int] = set()
    for kind, why, order in _choices(model, found, counts, able):
        user = next((int(users[n]) for n in order.tolist() if int(users[n]) not in taken), None)
        if user is not None:
            taken.add(user)
            cases.append(_case(kind, why(user), model, user, found.k, counts, held))
    return tuple(cases)


def _choices(
    model: Recommender, found: Evaluation, counts: NDArray[np.int64], able: NDArray[np.bool_]
) -> Iterator[tuple[str, Any, NDArray[np.int64]]]:
    """Kinds of users: a name, a function that gives the reason for a user, and whom to take, best first."""
    users, seen = found.plain.users, model.seen
    total = np.bincount(seen.user_ix, weights=counts[seen.item_ix], minlength=seen.n_users)
    taste = total / np.maximum(1, seen.user_counts)
    place = np.flatnonzero(able)[np.argsort(taste[users[able]], kind="stable")]
    outer = int(OUTER * len(place))

    def history(more: str) -> Any:
        return lambda user: (
            f"An item of their history has {taste[user]:,.0f} interactions on average; nine in ten users have a {more} "
            "popular history."
        )

    yield "A niche user", history("more"), place[outer:]
    yield "A mainstream user", history("less"), place[::-1][outer:]
    before, after = (side.per_user.get("recall") for side in (found.plain, found.adjusted))
    if before is None or after is None:
        return
    at = {int(user): n for n, user in enumerate(users)}

    def change(user: int) -> str:
        b, a = (f"{100 * side[at[user]]:.0f} %" for side in (before, after))
        return f"The plain list finds {b} of their held-out items, the adjusted list {a}."

    change_of = np.where(able, after - before, 0.0)
    yield "A user who gains", change, np.argsort(-change_of, kind="stable")[: int((change_of > 0).sum())]
    yield "A user who loses", change, np.argsort(change_of, kind="stable")[: int((change_of < 0).sum())]


def history_of(log: Interactions, user: int, counts: NDArray[np.int64]) -> IntArray:
    """A user's items, the latest first if the log has times, otherwise the most popular first."""
    rows = slice(log.user_starts[user], log.user_starts[user + 1])
    items = log.item_ix[rows]
    return items[np.argsort(-(counts[items] if log.time is None else log.time[rows]), kind="stable")]


def _case(
    kind: str, why: str, model: Recommender, user: int, k: int, counts: NDArray[np.int64], held: Interactions | None
) -> Case:
    items = history_of(model.seen, user, counts).tolist()
    plain, adjusted = model.explain(user, k)
    later = [] if held is None else held.item_ix[held.user_starts[user] : held.user_starts[user + 1]].tolist()
    return Case(
        kind,
        why,
        model.seen.user_ids[user : user + 1].tolist()[0],
        tuple(items[:MOST_HISTORY]),
        len(items),
        model.seen.time is not None,
        tuple(plain),
        tuple(adjusted),
        frozenset(later),
    )
