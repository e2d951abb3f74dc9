"""The triples of an epoch, drawn on the device without a single rejected try."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from counterpop.interactions import BoolArray, Interactions, pair_keys
from counterpop.training.settings import Sampling

TRIES = 16  # to draw one of DICE's negatives that the user has not touched
KEYS = 1 << 62  # what users x mass must stay below: whole numbers, so that draws are exact
MASS = 1 << 40  # of all items together where negatives are drawn by popularity, at most


class DeviceSampler:
    """Draws the triples of an epoch.

    A negative is drawn by its place among the items that its user has not touched. Each item has a mass (1
    where negatives are uniform); a whole number below the mass that the user has left is drawn, and a binary
    search over the user's items finds how much of their mass lies before it.
    """

    def __init__(
        self,
        train: Interactions,
        *,
        sampling: Sampling,
        negatives: int,
        negative_power: float,
        device: torch.device,
        seed: int,
        treated: BoolArray | None = None,
    ) -> None:
        mass = np.ones(train.n_items, dtype=np.int64)
        if negative_power:
            law = train.item_counts.astype(np.float64) ** negative_power
            whole = min(MASS, KEYS // train.n_users - train.n_items)
            mass = np.ceil(law * (whole / law.sum())).astype(np.int64)
        ends = np.cumsum(mass)
        seen = np.concatenate([[0], np.cumsum(mass[train.item_ix])])  # (N + 1,) mass of the rows before
        seen_before = seen[:-1] - seen[train.user_starts[train.user_ix]]  # (N,) of the same user
        place = (ends - mass)[train.item_ix] - seen_before  # (N,) untouched mass before each row's item
        left = ends[-1] - np.diff(seen[train.user_starts])  # (U,) mass that each user has not touched
        can_learn = (train.user_counts > 0) & (left > 0)

        def resident(values: object) -> Tensor:
            return torch.as_tensor(np.asarray(values, dtype=np.int64), device=device)

        self._width = int(ends[-1]) + 1
        self._keys = resident(train.user_ix.astype(np.int64) * self._width + place)
        self._ends, self._seen, self._left = resident(ends), resident(seen), resident(left)
        self._starts, self._counts = resident(train.user_starts[:-1]), resident(train.user_counts)
        self._user_of, self._item_of = resident(train.user_ix), resident(train.item_ix)
        self._rows = resident(np.flatnonzero(can_learn[train.user_ix]))
        self._users = resident(np.flatnonzero(can_learn))
        self._by_user = sampling == "users"
        self.triples = len(self._rows) * negatives
        self._generator = torch.Generator(device).manual_seed(seed)
        self._treated = None if treated is None else resident(treated)
        self._popularity = resident(train.item_counts)
        self._pairs = resident(pair_keys(train))

    def epoch(self, margin: float | None = None, pool: float = 0.0) -> Tensor:
        """(3, n) users, seen items and negatives, shuffled. Equally many of every user, or every row once.

        With a margin, negatives are DICE's; see `training.sampling.TripleSampler`, also for treated rows.
        """
        shuffled = torch.randperm(self.triples, generator=self._generator, device=self._keys.device)
        if self._by_user:
            users = self._users[shuffled % len(self._users)]
            rows = self._starts[users] + self._below(self._counts[users])
        else:
            rows = self._rows[shuffled % len(self._rows)]
            users = self._user_of[rows]
        items, negatives = self._item_of[rows], self._negatives(users)
        if margin is not None:
            negatives = self._beyond(users, items, negatives, margin, pool)
        if self._treated is not None:
            shift = self._treated[rows] * len(self._ends)
            items, negatives = items + shift, negatives + shift
        return torch.stack([users, items, negatives])

    def _beyond(self, users: Tensor, items: Tensor, spare: Tensor, margin: float, pool: float) -> Tensor:
        """DICE's negatives; where none is found in TRIES draws, the spare one."""
        falling, order = torch.sort(self._popularity, descending=True, stable=True)
        own, n = self._popularity[items], len(order)
        above = torch.searchsorted(-falling, -(own + margin))
        below = torch.searchsorted(-falling, -(own / 2), right=True)
        units = torch.rand(len(items), generator=self._generator, device=items.device)
        more, less = above >= max(1, pool), n - below >= max(1, pool)
        popular = more & (~less | (units < 0.5))
        low = torch.where(popular | ~less, 0, below)
        high = torch.where(popular, above, n)
        found = torch.full_like(items, -1)
        for _ in range(TRIES):
            drawn = order[low + self._below(high - low)]
            keys = users * n + drawn
            place = torch.searchsorted(self._pairs, keys).clamp(max=len(self._pairs) - 1)
            found = torch.where((found < 0) & (self._pairs[place] != keys), drawn, found)
        return torch.where(found < 0, spare, found)

    def _negatives(self, users: Tensor) -> Tensor:
        drawn = self._below(self._left[users])
        before = torch.searchsorted(self._keys, users * self._width + drawn, right=True)
        drawn += self._seen[before] - self._seen[self._starts[users]]
        return torch.searchsorted(self._ends, drawn, right=True)

    def _below(self, limits: Tensor) -> Tensor:
        """A whole number from 0 up to below each limit."""
        units = torch.rand(len(limits), generator=self._generator, device=limits.device, dtype=torch.float64)
        return (units * limits).long().clamp_(max=limits - 1)
