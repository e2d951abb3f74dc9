"""Directions, metrics and the grid of strengths on the device: `search_strengths` in torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from counterpop.directions import unit
from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, gini, head
from counterpop.metrics.accuracy import discounts, ideal_dcg
from counterpop.runs import STRENGTHS
from counterpop.training.device.triples import DeviceLedger
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
        item, user = (
            (sums[rows, 2].double() - sums[rows, 3].double()).mean(0)
            for sums, rows in ((ledger.items, popular), (ledger.users, active))
        )
    found = unit(item.cpu().numpy(), "popular"), unit(user.cpu().numpy(), "conformity")
    return torch.from_numpy(found[0]).to(users.device), torch.from_numpy(found[1]).to(users.device)


def search_on_device(
    user_vectors: Tensor,
    item_vectors: Tensor,
    directions: tuple[Tensor, Tensor],
    train: Interactions,
    held: Interactions,
    *,
    k: int = 20,
    item_strengths: tuple[float, ...] = STRENGTHS,
    user_strengths: tuple[float, ...] = STRENGTHS,
    users: IntArray | None = None,
) -> Grid:
    """Every metric of `held` at every pair of strengths, as `search_strengths` gives it.

    Equal scores, which vectors of floats hardly ever have, are ranked in no fixed order.
    """
    device = user_vectors.device
    users = np.flatnonzero(held.user_counts).astype(np.int32) if users is None else users
    if not len(users):
        raise InputError("strengths are chosen on held-out pairs, but there are none")
    n_items = len(item_vectors)
    k = min(k, n_items)
    popular, conform = directions
    along = torch.stack([item_vectors @ popular, item_vectors @ conform])  # (2, I)
    angle = float(popular @ conform)
    counts = torch.from_numpy(train.item_counts.astype(np.float64)).to(device)
    tail = torch.from_numpy((~head(train.item_counts)).astype(np.float64)).to(device)
    gain, ideal = (torch.from_numpy(values).to(device) for values in (discounts(k), ideal_dcg(k)))
    points = [(a, b) for a in item_strengths for b in user_strengths]
    sums = torch.zeros(len(points), 5, dtype=torch.float64, device=device)
    shown = torch.zeros(len(points), n_items, dtype=torch.int64, device=device)
    for block in np.array_split(users, -(-len(users) * n_items // BLOCK_SCORES)):
        mine = torch.from_numpy(block.astype(np.int64)).to(device)
        P = user_vectors[mine]
        scores = P @ item_vectors.T
        scores[_pairs(train, block, device)] = -torch.inf
        wanted = torch.zeros(scores.shape, dtype=torch.bool, device=device)
        wanted[_pairs(held, block, device)] = True
        number = torch.from_numpy(held.user_counts[block].astype(np.float64)).to(device)
        x, y = P @ popular, P @ conform
        for n, (a, b) in enumerate(points):
            shift = torch.stack([a * b * angle * y - a * x, -b * y], 1)  # (B, 2)
            best = torch.topk(torch.addmm(scores, shift, along), k)
            there = best.values > -torch.inf
            hits = (wanted.gather(1, best.indices) & there).double()
            listed = there.sum(1).clamp(min=1)
            sums[n] += torch.stack(
                [
                    (hits.sum(1) / number).sum(),
                    hits.any(1).double().sum(),
                    ((hits * gain).sum(1) / ideal[number.clamp(max=k).long()]).sum(),
                    ((counts[best.indices] * there).sum(1) / listed).sum(),
                    ((tail[best.indices] * there).sum(1) / listed).sum(),
                ]
            )
            shown[n] += torch.bincount(best.indices[there], minlength=n_items)
    means, exposed = (sums / len(users)).cpu().numpy(), shown.cpu().numpy()
    columns = dict(zip(("recall", "hit_rate", "ndcg", "average_popularity", "tail_share"), means.T, strict=True))
    columns["coverage"] = (exposed > 0).mean(axis=1)
    columns["gini"] = np.array([gini(row) for row in exposed])
    shape = len(item_strengths), len(user_strengths)
    values = {name: column.reshape(shape) for name, column in columns.items()}
    return Grid(item_strengths, user_strengths, values, len(users), float(n_items))


def _pairs(log: Interactions, users: IntArray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row (within `users`) and item of every pair that these users have in the log."""
    starts, counts = log.user_starts[users], log.user_counts[users]
    rows = np.repeat(np.arange(len(users)), counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    at = np.arange(counts.sum()) - np.repeat(first - starts, counts)
    return torch.from_numpy(rows).to(device), torch.from_numpy(log.item_ix[at].astype(np.int64)).to(device)
