"""The triples of an epoch, drawn on the device without rejections."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from counterpop.training.backbones.contract import Start
from counterpop.training.methods.contract import Contrast

KEYS = 1 << 62  # what users x mass must stay below: whole numbers, so that draws are exact
MASS = 1 << 40  # of all items together where negatives are drawn by popularity, at most


class DeviceSampler:
    """Draws the triples of an epoch.

    A negative is drawn by its place among the items that its user has not touched. Each item has a mass (1
    where negatives are uniform); a whole number below the mass that the user has left is drawn, and a binary
    search over the user's items finds how much of their mass lies before it.
    """

    def __init__(self, start: Start, device: torch.device) -> None:
        train, settings = start.train, start.settings
        mass = np.ones(train.n_items, dtype=np.int64)
        if settings.negative_power:
            law = train.item_counts.astype(np.float64) ** settings.negative_power
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
        self._by_user = settings.sampling == "users"
        self.triples = len(self._rows) * settings.negatives
        self.generator = torch.Generator(device).manual_seed(int(settings.generator("sampling").integers(1 << 62)))
        self._treated = None if start.treated is None else resident(start.treated)
        self._popularity = resident(train.item_counts)

    def epoch(self, contrast: Contrast | None = None) -> Tensor:
        """(3, n) users, seen items and negatives, shuffled. The same number for every user, or every row once.

        Both items of a treated row are counted from the number of items on.
        """
        shuffled = torch.randperm(self.triples, generator=self.generator, device=self._keys.device)
        if self._by_user:
            users = self._users[shuffled % len(self._users)]
            rows = self._starts[users] + self._below(self._counts[users])
        else:
            rows = self._rows[shuffled % len(self._rows)]
            users = self._user_of[rows]
        items = self._item_of[rows]
        negatives = self._negatives(users) if contrast is None else self._beyond(users, items, contrast)
        if self._treated is not None:
            shift = self._treated[rows] * len(self._ends)
            items, negatives = items + shift, negatives + shift
        return torch.stack([users, items, negatives])

    def _beyond(self, users: Tensor, items: Tensor, contrast: Contrast) -> Tensor:
        """Negatives of clearly different popularity; if a user has touched all of a side, any negative."""
        margin, pool = contrast
        falling, order, keys, untouched_keys = self._by_popularity
        n = len(order)
        above = torch.searchsorted(-falling, -(self._popularity + margin))[items]
        below = torch.searchsorted(-falling, -(self._popularity / 2), right=True)[items]
        more, less = above >= max(1, pool), n - below >= max(1, pool)
        units = torch.rand(len(items), generator=self.generator, device=items.device)
        popular = more & (~less | (units < 0.5))
        # ranks from 0 to the edge, or from the edge to n, of which the user has touched some
        edge = torch.where(popular, above, torch.where(less, below, 0))
        starts, all_untouched = self._starts[users], n - self._counts[users]
        before = edge - (torch.searchsorted(keys, users * n + edge) - starts)  # untouched ones before it
        popular &= before > 0
        low = torch.where(popular | (before == all_untouched), 0, before)
        high = torch.where(popular, before, all_untouched)
        drawn = low + self._below(high - low)
        touched = torch.searchsorted(untouched_keys, users * (n + 1) + drawn, right=True) - starts
        return order[drawn + touched]

    @cached_property
    def _by_popularity(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Items in falling popularity, and where each user's items stand there.

        (I,) popularity and item by rank; (N,) of every row, users in order and their items by rank: user and
        rank as one number, and user and how many untouched items rank before it as one number.
        """
        falling, order = torch.sort(self._popularity, descending=True, stable=True)
        n, ranks = len(order), torch.argsort(order)
        keys = torch.sort(self._user_of * n + ranks[self._item_of]).values
        nth = torch.arange(len(keys), device=keys.device) - self._starts[self._user_of]
        return falling, order, keys, self._user_of * (n + 1) + keys % n - nth

    def _negatives(self, users: Tensor) -> Tensor:
        drawn = self._below(self._left[users])
        before = torch.searchsorted(self._keys, users * self._width + drawn, right=True)
        drawn += self._seen[before] - self._seen[self._starts[users]]
        return torch.searchsorted(self._ends, drawn, right=True)

    def _below(self, limits: Tensor) -> Tensor:
        """A whole number from 0 up to below each limit."""
        units = torch.rand(len(limits), generator=self.generator, device=limits.device, dtype=torch.float64)
        return (units * limits).long().clamp_(max=limits - 1)
