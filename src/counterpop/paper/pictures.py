"""What training left behind, in a few numbers: accumulated gradients, lengths and angles of vectors, directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import counterpop as cp
from counterpop.paper.cache import Record

Values = NDArray[np.float64]
SIDES = ("popular", "other")
KNOTS = np.linspace(0.0, 2.0, 11)  # of a line through recall as a function of c


def picture_gradients(ledger: cp.Ledger, train: cp.Interactions) -> Record:
    """Figure 1 by count (Eq. 8 and Algorithm 1) and by slope, in bins of popularity ranks and as means of both groups.

    By count every triple adds the user's vector once; by slope it is weighted by the slope of the loss, which is the
    gradient itself. "cosine_gap" and "norm_gap" are pull less push.
    """
    counts = train.item_counts
    record: Record = {}
    weightings: tuple[Literal["count", "slope"], ...] = ("count", "slope")
    for weighting in weightings:
        values = dict(vars(cp.gradient_picture(ledger, weighting)))
        shown = {}
        for name, numbers in values.items():
            rank, mean = cp.mean_by_rank(numbers, counts)
            shown[name] = [float(f"{m:.5g}") if np.isfinite(m) else None for m in mean]
            shown["rank"] = np.round(rank, 1).tolist()
        values |= {f"{kind}_gap": values[f"{kind}_pull"] - values[f"{kind}_push"] for kind in ("cosine", "norm")}
        means = {name: _by_side(numbers, cp.head(counts)) for name, numbers in values.items()}
        record[weighting] = shown | {"means": means}
    pulls = ledger.item_pull("count")
    return record | {"alike": _by_side_alike(pulls, cp.head(counts))}


def measure_vectors(vectors: cp.Embeddings, train: cp.Interactions) -> Record:
    """Whether popular items and active users have longer vectors, and popular items similar ones."""
    from scipy.stats import spearmanr

    record: Record = {}
    for side, rows, counts in (
        ("item", vectors.item_vectors, train.item_counts),
        ("user", vectors.user_vectors, train.user_counts),
    ):
        known = counts > 0
        rho = float(spearmanr(np.linalg.norm(rows[known], axis=1), counts[known]).statistic)
        error = float(np.sqrt((1 + rho**2 / 2) / max(1, known.sum() - 3))) * (1 - rho**2)  # by Fisher's z
        record[f"{side}_length"] = {"mean": rho, "error": error, "number": int(known.sum())}
    return record | {"alike": _by_side_alike(vectors.item_vectors, cp.head(train.item_counts))}


def _by_side(values: Values, popular: NDArray[np.bool_]) -> dict[str, Any]:
    """Mean and standard error over popular and over other items; None where no item has a value."""
    found: dict[str, Any] = {}
    for side, rows in zip(SIDES, (popular, ~popular), strict=True):
        known = values[rows & np.isfinite(values)]
        error = float(known.std() / np.sqrt(len(known))) if len(known) else 0.0
        found[side] = {"mean": float(known.mean()), "error": error} if len(known) else None
    return found


def _by_side_alike(rows: Any, popular: NDArray[np.bool_]) -> dict[str, Any]:
    """The mean cosine of two popular items, and of two others, with standard errors."""
    found: dict[str, Any] = {}
    for side, members in zip(SIDES, (popular, ~popular), strict=True):
        lengths = np.linalg.norm(rows[members].astype(np.float64), axis=1, keepdims=True)
        units = (rows[members] / np.where(lengths > 0, lengths, 1))[lengths[:, 0] > 0]
        number = len(units)
        if number < 3:
            found[side] = None
            continue
        cosines = (units @ units.sum(axis=0) - 1) / (number - 1)  # each with all others
        error = 2 * float(cosines.std()) / np.sqrt(number)  # of a mean over pairs
        found[side] = {"mean": float(cosines.mean()), "error": error}
    return found


def cancelling(ledger: cp.Ledger, train: cp.Interactions) -> float:
    """The mean of pull - push over all items, as Algorithm 1 has it, over that of popular items: lengths."""
    whole = ledger.item_pull("count").astype(np.float64) - ledger.item_push("count")
    popular = np.linalg.norm(whole[cp.head(train.item_counts)].mean(axis=0))
    return float(np.linalg.norm(whole.mean(axis=0)) / popular) if popular else 0.0


def explained_by_one_dial(grid: Mapping[str, Any]) -> float | None:
    """The share of a grid's variance that c = a + b - ab explains: R2 of a line with knots every 0.2 of c.

    If both directions were the same vector, the scores would depend on the strengths a and b through c only. None if
    the grid is flat.
    """
    recall = np.asarray(grid["recall"], dtype=np.float64).ravel()
    a, b = np.meshgrid(grid["item_strengths"], grid["user_strengths"], indexing="ij")
    c = (a + b - a * b).ravel()
    hats = np.maximum(0, 1 - np.abs(c[:, None] - KNOTS) / (KNOTS[1] - KNOTS[0]))
    hats = hats[:, hats.any(axis=0)]
    fitted = hats @ np.linalg.lstsq(hats, recall, rcond=None)[0]
    total = float(((recall - recall.mean()) ** 2).sum())
    return 1 - float(((recall - fitted) ** 2).sum()) / total if total > 0 else None
