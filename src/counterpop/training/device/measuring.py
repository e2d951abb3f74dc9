"""Directions, metrics and the grid of strengths on the device: `search_strengths` in torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot, pad

from counterpop.directions import unit
from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, gini, head, pairs_of, rows_of
from counterpop.metrics.accuracy import discounts, ideal_dcg
from counterpop.metrics.resampling import PER_USER
from counterpop.runs import STRENGTHS, Strengths
from counterpop.training.device.ledger import DeviceLedger
from counterpop.tuning import Grid

BLOCK_SCORES = 1 << 27  # scores at a time: half a gigabyte


def directions_of(
    users: Tensor, items: Tensor, ledger: DeviceLedger | None, train: Interactions
) -> tuple[Tensor, Tensor]:
    """The default directions of `find_directions`, on the device: (D,) of items and of users."""
    popular, active = (
        torch.from_numpy(head(counts)).to(users.device) for counts in (train.item_counts, train.user_counts)
    )
    if ledger is None:
        item, user = items[popular].double().mean(0), users.double().mean(0)
    else:
        item, user = ledger.net(ledger.items, popular), ledger.net(ledger.users, active)
    q, p = unit(item.cpu().numpy(), "popular"), unit(user.cpu().numpy(), "conformity")
    return torch.from_numpy(q).to(users.device), torch.from_numpy(p).to(users.device)


def search_on_device(
    vectors: tuple[Tensor, Tensor],
    directions: tuple[Tensor, Tensor],
    train: Interactions,
    held: Interactions,
    *,
    k: int = 20,
    strengths: tuple[Strengths, Strengths] = (STRENGTHS, STRENGTHS),
    users: IntArray | None = None,
    user_groups: IntArray | None = None,
) -> Grid:
    """Every metric of `held` at every pair of item and user strengths, as `search_strengths` gives it.

    With `user_groups` (U,) each group of users also gets a grid of its own, without coverage and Gini. Equal scores,
    which vectors of floats hardly ever have, are ranked in no fixed order.
    """
    (user_vectors, item_vectors), (popular, conform) = vectors, directions
    device, n_items = user_vectors.device, len(item_vectors)
    users = np.flatnonzero(held.user_counts).astype(np.int32) if users is None else users
    if not len(users):
        raise InputError("strengths are chosen on held-out pairs, but there are none")
    k = min(k, n_items)
    angle = float(popular @ conform)
    measure = _Metrics(train, k, device)
    points = [(a, b) for a in strengths[0] for b in strengths[1]]
    group_of = np.zeros(held.n_users, np.int64) if user_groups is None else user_groups.astype(np.int64)
    n_groups = int(group_of.max()) + 1
    sums = torch.zeros(len(points), n_groups, 5, dtype=torch.float64, device=device)
    shown = torch.zeros(len(points), n_items, dtype=torch.int64, device=device)
    total = torch.zeros(n_groups, dtype=torch.float64, device=device)
    width = stretch_width(n_items, k)
    item_vectors = pad(item_vectors, (0, 0, 0, -n_items % width))  # whole stretches of items
    along = torch.stack([item_vectors @ popular, item_vectors @ conform])  # (2, I)
    for block in np.array_split(users, -(-len(users) * n_items // BLOCK_SCORES)):
        P = user_vectors[torch.from_numpy(block.astype(np.int64)).to(device)]
        scores = P @ item_vectors.T
        scores[:, n_items:] = -torch.inf
        scores[_pairs(train, block, device)] = -torch.inf
        wanted, number = _wanted(held, block, n_items, device)
        member = one_hot(torch.from_numpy(group_of[block]).to(device), n_groups).double().T  # (G, B)
        share = wanted.sum(1, dtype=torch.float64) / number  # 1 if every held-out pair counts the same
        total += member @ share
        x, y = P @ popular, P @ conform
        for n, (a, b) in enumerate(points):
            shift = torch.stack([a * b * angle * y - a * x, -b * y], 1)  # (B, 2)
            best, lists = find_best(torch.addmm(scores, shift, along), k, width)
            there = best > -torch.inf
            lists = torch.where(there, lists, 0)
            sums[n] += member @ measure.each(lists, there, wanted.gather(1, lists), number, share)
            shown[n] += torch.bincount(lists[there], minlength=n_items)

    def grid(sums: Tensor, total: Tensor, users: int, more: dict[str, NDArray[np.float64]]) -> Grid:
        columns = dict(zip(PER_USER, (sums / total).cpu().numpy().T, strict=True)) | more
        values = {name: column.reshape(len(strengths[0]), len(strengths[1])) for name, column in columns.items()}
        weight = None if held.weight is None else float(total)
        return Grid(*strengths, values, users, float(n_items), weight=weight)

    whole = grid(sums.sum(1), total.sum(), len(users), _exposure(shown.cpu().numpy()))
    if user_groups is None:
        return whole
    sizes = np.bincount(group_of[users], minlength=n_groups).tolist()
    return replace(whole, user_groups=tuple(grid(sums[:, n], total[n], sizes[n], {}) for n in range(n_groups)))


def _exposure(shown: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Coverage and Gini at every point, from how many lists each item is in (points, I)."""
    return {"coverage": (shown > 0).mean(axis=1), "gini": np.array([gini(row) for row in shown])}


def stretch_width(n_items: int, k: int) -> int:
    """How many items in a row `find_best` takes together: what makes its two searches about equally long."""
    return int(2 ** round(np.log2(max(1.0, n_items / k)) / 2))


def find_best(scores: Tensor, k: int, width: int) -> tuple[Tensor, Tensor]:
    """(B, k) the highest scores of each row, and where they are: `torch.topk`, several times as fast on long rows.

    The k best of a row lie in the k stretches with the highest maximum. Rows are whole stretches of `width`.
    """
    n_users, n_stretches = len(scores), scores.shape[1] // width
    if width == 1 or n_stretches <= k:
        best, at = torch.topk(scores, k)
        return best, at
    stretches = scores.view(n_users, n_stretches, width)
    among = torch.topk(stretches.amax(2), k, sorted=False).indices  # (B, k) stretches
    near = stretches.gather(1, among[:, :, None].expand(-1, -1, width)).view(n_users, -1)
    best, at = torch.topk(near, k)
    return best, among.gather(1, at // width) * width + at % width


class _Metrics:
    """The metrics that are means over users, of each user, in the order of PER_USER."""

    def __init__(self, train: Interactions, k: int, device: torch.device) -> None:
        tail = ~head(train.item_counts)
        self._counts, self._tail, self._gain, self._ideal = (
            torch.from_numpy(values.astype(np.float64)).to(device)
            for values in (train.item_counts, tail, discounts(k), ideal_dcg(k))
        )

    def each(self, lists: Tensor, there: Tensor, wanted: Tensor, number: Tensor, share: Tensor) -> Tensor:
        """(B, 5) of lists (B, K) of items.

        `there` are the places that are filled, `wanted` (B, K) the weights of held-out items, 0 for others, `number`
        (B,) how many of them a user has, and `share` (B,) the mean of their weights.
        """
        hits = (wanted * there).double()
        listed = there.sum(1).clamp(min=1)
        found = number.clamp(max=lists.shape[1]).long()
        columns = (
            hits.sum(1) / number,
            hits.any(1) * share,
            (hits * self._gain).sum(1) / self._ideal[found],
            (self._counts[lists] * there).sum(1) / listed * share,
            (self._tail[lists] * there).sum(1) / listed * share,
        )
        return torch.stack(columns, 1)


def _wanted(held: Interactions, users: IntArray, n_items: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(B, I) the weights of these users' held-out items, 0 for others, and (B,) how many they have."""
    weights = np.ones(len(held), np.float32) if held.weight is None else held.weight
    wanted = torch.zeros(len(users), n_items, dtype=torch.float32, device=device)
    wanted[_pairs(held, users, device)] = torch.from_numpy(weights[rows_of(held, users)]).to(device)
    return wanted, torch.from_numpy(held.user_counts[users].astype(np.float64)).to(device)


def _pairs(log: Interactions, users: IntArray, device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(at.astype(np.int64)).to(device) for at in pairs_of(log, users))
