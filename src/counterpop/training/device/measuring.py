"""Directions, metrics and the grid of strengths on the device: `search_strengths` in torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

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
) -> Grid:
    """Every metric of `held` at every pair of item and user strengths, as `search_strengths` gives it.

    Equal scores, which vectors of floats hardly ever have, are ranked in no fixed order.
    """
    (user_vectors, item_vectors), (popular, conform) = vectors, directions
    device, n_items = user_vectors.device, len(item_vectors)
    users = np.flatnonzero(held.user_counts).astype(np.int32) if users is None else users
    if not len(users):
        raise InputError("strengths are chosen on held-out pairs, but there are none")
    k = min(k, n_items)
    along = torch.stack([item_vectors @ popular, item_vectors @ conform])  # (2, I)
    angle = float(popular @ conform)
    measure = _Metrics(train, k, device)
    points = [(a, b) for a in strengths[0] for b in strengths[1]]
    sums = torch.zeros(len(points), 5, dtype=torch.float64, device=device)
    shown = torch.zeros(len(points), n_items, dtype=torch.int64, device=device)
    weights = np.ones(len(held), np.float32) if held.weight is None else held.weight
    total = 0.0
    for block in np.array_split(users, -(-len(users) * n_items // BLOCK_SCORES)):
        P = user_vectors[torch.from_numpy(block.astype(np.int64)).to(device)]
        scores = P @ item_vectors.T
        scores[_pairs(train, block, device)] = -torch.inf
        wanted = torch.zeros(scores.shape, dtype=torch.float32, device=device)
        wanted[_pairs(held, block, device)] = torch.from_numpy(weights[rows_of(held, block)]).to(device)
        number = torch.from_numpy(held.user_counts[block].astype(np.float64)).to(device)
        total += float((wanted.double().sum(1) / number).sum())
        x, y = P @ popular, P @ conform
        for n, (a, b) in enumerate(points):
            shift = torch.stack([a * b * angle * y - a * x, -b * y], 1)  # (B, 2)
            best = torch.topk(torch.addmm(scores, shift, along), k)
            there = best.values > -torch.inf
            sums[n] += measure.sums(best.indices, there, wanted, number)
            shown[n] += torch.bincount(best.indices[there], minlength=n_items)
    means, exposed = (sums / total).cpu().numpy(), shown.cpu().numpy()
    columns = dict(zip(PER_USER, means.T, strict=True))
    columns["coverage"] = (exposed > 0).mean(axis=1)
    columns["gini"] = np.array([gini(row) for row in exposed])
    values = {name: column.reshape(len(strengths[0]), len(strengths[1])) for name, column in columns.items()}
    return Grid(*strengths, values, len(users), float(n_items))


class _Metrics:
    """Sums over users of the metrics that are means over users, in the order of PER_USER."""

    def __init__(self, train: Interactions, k: int, device: torch.device) -> None:
        tail = ~head(train.item_counts)
        self._counts, self._tail, self._gain, self._ideal = (
            torch.from_numpy(values.astype(np.float64)).to(device)
            for values in (train.item_counts, tail, discounts(k), ideal_dcg(k))
        )

    def sums(self, lists: Tensor, there: Tensor, wanted: Tensor, number: Tensor) -> Tensor:
        """(5,) of lists (B, K) of items.

        `there` are the places that are filled, `wanted` (B, I) the weights of held-out items, `number` (B,) how many.
        """
        hits = (wanted.gather(1, lists) * there).double()
        share = wanted.double().sum(1) / number  # 1 if every held-out pair counts the same
        listed = there.sum(1).clamp(min=1)
        found = number.clamp(max=lists.shape[1]).long()
        each = (
            hits.sum(1) / number,
            hits.any(1) * share,
            (hits * self._gain).sum(1) / self._ideal[found],
            (self._counts[lists] * there).sum(1) / listed * share,
            (self._tail[lists] * there).sum(1) / listed * share,
        )
        return torch.stack([values.sum() for values in each])


def _pairs(log: Interactions, users: IntArray, device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(at.astype(np.int64)).to(device) for at in pairs_of(log, users))
