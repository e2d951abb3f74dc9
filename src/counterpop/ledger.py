"""What training did to each item and user, as a positive and as a negative separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.presentation import Shown

Weighting = Literal["slope", "count"]
PULL, PUSH, PULL_SLOPE, PUSH_SLOPE = range(4)  # the four sums of a row, in every engine


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(Shown):
    """Sums over the training triples (u, i seen, j not seen), for every item and every user.

    An item adds up the user vector p (normalised where training normalised it): its *pull* over the triples
    in which it was the seen item, its *push* over those in which it was the negative. A user adds up the item
    vectors: pull over Q_i, push over Q_j. Each sum is kept twice: every triple counting one ("count"), and
    weighted by the loss's own slope ("slope"), which is the gradient itself.

    The sums are taken over every `every`-th triple and scaled to all of them: an estimate of the whole sum,
    exact for `every=1`.
    """

    items: FloatArray
    """(I, 4, D): pull and push by count, pull and push by slope."""
    users: FloatArray
    """(U, 4, D)"""
    every: int
    triples: int
    """How many triples training went through."""
    scale: float = 1.0
    """What turns the recorded sums into an estimate of the whole: triples over records."""

    def __repr__(self) -> str:
        return f"Ledger({self.triples:,} triples, one in {self.every} recorded)"

    def item_pull(self, weighting: Weighting = "slope") -> FloatArray:
        """(I, D) what lifted each item."""
        return self._sum(self.items, PULL_SLOPE if weighting == "slope" else PULL)

    def item_push(self, weighting: Weighting = "slope") -> FloatArray:
        """(I, D) what lowered each item; the whole is pull - push."""
        return self._sum(self.items, PUSH_SLOPE if weighting == "slope" else PUSH)

    def user_pull(self, weighting: Weighting = "slope") -> FloatArray:
        """(U, D) what attracted each user: the seen items' vectors."""
        return self._sum(self.users, PULL_SLOPE if weighting == "slope" else PULL)

    def user_push(self, weighting: Weighting = "slope") -> FloatArray:
        """(U, D) what repelled each user: the negatives' vectors."""
        return self._sum(self.users, PUSH_SLOPE if weighting == "slope" else PUSH)

    def _sum(self, sums: FloatArray, which: int) -> FloatArray:
        return sums[:, which] if self.scale == 1 else sums[:, which] * np.float32(self.scale)


@dataclass(frozen=True, eq=False, repr=False)
class GradientPicture(Shown):
    """The paper's Figure 1: for every item, how its pull and push lie to their sum, and how long they are."""

    cosine_pull: NDArray[np.float64]
    cosine_push: NDArray[np.float64]
    norm_pull: NDArray[np.float64]
    norm_push: NDArray[np.float64]


def gradient_picture(ledger: Ledger, weighting: Weighting = "slope") -> GradientPicture:
    """Cosine of each item's pull and of its push with the whole (pull - push), and both norms, all (I,).

    An item without records has norm 0 and cosine NaN.
    """
    pull = ledger.item_pull(weighting).astype(np.float64)
    push = -ledger.item_push(weighting).astype(np.float64)
    whole = pull + push
    norms = [np.linalg.norm(part, axis=1) for part in (pull, push, whole)]
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine_pull = (pull * whole).sum(axis=1) / (norms[0] * norms[2])
        cosine_push = (push * whole).sum(axis=1) / (norms[1] * norms[2])
    return GradientPicture(cosine_pull, cosine_push, norms[0], norms[1])
