"""The projection, and the same thing as a query transform."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.errors import InputError


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Two unit vectors and two strengths: all that is needed to take popularity out of a score.

    Strength 0 leaves a side as it is, 1 takes the direction out, more turns it round.
    """

    item_direction: FloatArray
    user_direction: FloatArray
    item_strength: float
    user_strength: float
    embeddings: Embeddings | None = None
    """The vectors it was made for, where they are at hand."""
    refit: bool = False
    """Whether those were trained on train + validation, so that a test leaves both out of its lists."""

    def __post_init__(self) -> None:
        for name in ("item_strength", "user_strength"):
            if not np.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number, got {getattr(self, name)!r}")

    def with_strengths(self, item_strength: float, user_strength: float) -> Adjustment:
        """The same directions at other strengths."""
        return replace(self, item_strength=item_strength, user_strength=user_strength)

    def query(
        self,
        user_vectors: NDArray[np.floating],
        item_strength: float | None = None,
        user_strength: float | None = None,
    ) -> FloatArray:
        """The query x for which x.Q_i ranks items as the adjusted vectors do; the items stay as they are.

        x = (1 - a q q^T)(1 - b p p^T) u, for one vector (D,) or many (..., D). Strengths default to the
        tuned ones.

        >>> east, north = np.eye(2, dtype=np.float32)
        >>> Adjustment(east, north, 1.0, 0.5).query(np.array([3.0, 4.0]))
        array([0., 2.], dtype=float32)
        """
        a = np.float32(self.item_strength if item_strength is None else item_strength)
        b = np.float32(self.user_strength if user_strength is None else user_strength)
        if not (np.isfinite(a) and np.isfinite(b)):
            raise InputError(f"strengths must be finite numbers, got {a} and {b}")
        u = np.asarray(user_vectors, dtype=np.float32)
        if u.shape[-1:] != self.item_direction.shape:
            raise InputError(
                f"a user vector must have {len(self.item_direction)} numbers like the directions, "
                f"got shape {u.shape}"
            )
        u = u - b * (u @ self.user_direction)[..., None] * self.user_direction
        return u - a * (u @ self.item_direction)[..., None] * self.item_direction


def adjust(embeddings: Embeddings, adjustment: Adjustment) -> Embeddings:
    """Both sides projected: Q' = Q - a (Q.q) q and P' = P - b (P.p) p.

    Ranking by P'.Q' equals ranking by `query(P).Q`; this form is for those who must store vectors.
    """
    P, Q = embeddings.user_vectors, embeddings.item_vectors
    p, q = adjustment.user_direction, adjustment.item_direction
    a, b = np.float32(adjustment.item_strength), np.float32(adjustment.user_strength)
    return replace(
        embeddings,
        user_vectors=P - b * (P @ p)[:, None] * p,
        item_vectors=Q - a * (Q @ q)[:, None] * q,
    )
