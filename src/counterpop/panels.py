"""The users whose lists are measured: all of them, or a sample once all would take too long.

Ranking costs users x items, which grows with the square of a service. So where that product is above `MOST_SCORES`, the
lists of a sample are measured: as many users as the limit allows, and at least `LEAST_USERS`. With n users, the 95 %
interval of any share over users, such as recall or hit rate, reaches at most 0.98 / sqrt(n) to either side, which is
.01 for 10,000 users whatever the model, and mostly a third of that.

The users are sorted by their activity and one is taken from each of n stretches of equal length. So all activities are
there in their right proportion, every user is equally likely to be drawn, and a mean over the sample estimates the mean
over all users without weights. Coverage and Gini belong to a number of lists: those of a sample describe its own lists,
and those of all users cover more items, more evenly.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, rows_of

Users = int | Literal["all"] | None
"""How many users to measure: a number, all, or None for all unless there are too many."""

MOST_SCORES = 2_000_000_000  # users x items; above, a sample is drawn: some ten seconds for a ranking on two cores
LEAST_USERS = 10_000  # of a sample: see above
PANEL_STREAM = 302


@dataclass(frozen=True)
class Sample:
    """A sample of users, stratified by activity."""

    users: int
    population: int
    """The number of users it was drawn from."""
    seed: int

    @property
    def reach(self) -> float:
        """How far the 95 % interval of a share over users reaches at most to either side."""
        return 0.98 / math.sqrt(self.users)

    @property
    def sentence(self) -> str:
        return (
            f"Measured on a sample of {self.users:,} of {self.population:,} users, stratified by activity: 95 % "
            f"intervals of shares reach at most {self.reach:.3f} to either side. Coverage and Gini are those of the "
            "sample's lists. --users all measures everybody."
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reach": self.reach, "stratified_by": "activity", "sentence": self.sentence}


def choose_users(
    able: IntArray, activity: NDArray[np.int64], n_items: int, users: Users = None, seed: int = 0
) -> tuple[IntArray, Sample | None]:
    """The users to measure among `able`, in rising order, and the sample if they are not all.

    `activity` (U,) is the number of interactions of every user.

    >>> choose_users(np.arange(6, dtype=np.int32), np.array([9, 1, 8, 2, 7, 3]), 100, 2)[1]
    Sample(users=2, population=6, seed=0)
    """
    if users is None:
        number = max(LEAST_USERS, MOST_SCORES // max(1, n_items))
    elif users == "all":
        number = len(able)
    else:
        number = int(users)
        if number < 1:
            raise InputError(f"users must be 'all' or a number of at least 1, got {users}")
    if number >= len(able):
        return able, None
    draw = np.random.default_rng([seed, PANEL_STREAM])
    by_activity = able[np.lexsort((draw.random(len(able)), activity[able]))]
    places = ((np.arange(number) + draw.random()) * (len(able) / number)).astype(np.int64)
    return np.sort(by_activity[np.minimum(places, len(able) - 1)]), Sample(number, len(able), seed)


def hold_panel(
    held: Interactions, log: Interactions, users: Users = None, seed: int = 0
) -> tuple[Interactions, Sample | None]:
    """The held-out pairs of the users to measure, and the sample if they are not all; activity is that in `log`."""
    able = np.flatnonzero(held.user_counts).astype(np.int32)
    chosen, sample = choose_users(able, log.user_counts, log.n_items, users, seed)
    return (held if sample is None else held.rows(rows_of(held, chosen))), sample
