"""The projection, and the same thing as a query transform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.errors import InputError

SegmentBy = Literal["activity", "head-taste"]


@dataclass(frozen=True)
class Segments:
    """Strengths that differ between users: by their number of interactions, or by how many are of the head.

    >>> Segments("activity", (10.0,), ((2.0, 0.2), (1.0, 0.0))).strengths_of([3, 10, 500])
    (array([2., 1., 1.], dtype=float32), array([0.2, 0. , 0. ], dtype=float32))
    """

    by: SegmentBy
    """"activity": interactions of the user in the log; "head-taste": the share of them in popular items."""
    bounds: tuple[float, ...]
    """A user is in the segment whose number is the number of bounds that their value reaches."""
    strengths: tuple[tuple[float, float], ...]
    """Item and user strength of each segment."""

    def strengths_of(self, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Item strengths and user strengths for users with these values; pass both to `query`."""
        segment = np.searchsorted(self.bounds, np.asarray(values), side="right")
        item, user = np.array(self.strengths, dtype=np.float32)[segment].T
        return item, user


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Two unit vectors and two strengths: all that is needed to take popularity out of a score.

    Strength 0 leaves a side as it is, 1 takes the direction out, more turns it round.
    """

    item_direction: FloatArray
    user_direction: FloatArray
    item_strength: float
    user_strength: float
    segments: Segments | None = None
    """Strengths for segments of users, where they have been proven better than one pair for all."""

    def __post_init__(self) -> None:
        for name in ("item_strength", "user_strength"):
            if not np.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number, got {getattr(self, name)!r}")

    def with_strengths(self, item_strength: float, user_strength: float) -> Self:
        """The same directions at other strengths."""
        return replace(self, item_strength=item_strength, user_strength=user_strength)

    def query(
        self,
        user_vectors: NDArray[np.floating],
        item_strength: float | FloatArray | None = None,
        user_strength: float | FloatArray | None = None,
    ) -> FloatArray:
        """The query x for which x.Q_i ranks items as the adjusted vectors do; the items stay as they are.

        x = (1 - a q q^T)(1 - b p p^T) u, for one vector (D,) or many (..., D). Strengths default to the
        tuned ones; each may also be an array with one for each vector.

        >>> east, north = np.eye(2, dtype=np.float32)
        >>> Adjustment(east, north, 1.0, 0.5).query(np.array([3.0, 4.0]))
        array([0., 2.], dtype=float32)
        """
        a = np.asarray(self.item_strength if item_strength is None else item_strength, dtype=np.float32)
        b = np.asarray(self.user_strength if user_strength is None else user_strength, dtype=np.float32)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise InputError(f"strengths must be finite numbers, got {a} and {b}")
        u = np.asarray(user_vectors, dtype=np.float32)
        if u.shape[-1:] != self.item_direction.shape:
            raise InputError(
                f"a user vector must have {len(self.item_direction)} numbers like the directions, got shape {u.shape}"
            )
        if any(strength.shape not in ((), u.shape[:-1]) for strength in (a, b)):
            raise InputError(
                f"a strength is one number or one for each of the vectors {u.shape[:-1]}, "
                f"got shapes {a.shape} and {b.shape}"
            )
        return _take_out(_take_out(u, self.user_direction, b), self.item_direction, a)


def _take_out(vectors: FloatArray, direction: FloatArray, strength: FloatArray) -> FloatArray:
    """v - strength (v . direction) direction, for each vector v."""
    along: FloatArray = strength * (vectors @ direction)
    return vectors - along[..., None] * direction


def adjust(embeddings: Embeddings, adjustment: Adjustment) -> Embeddings:
    """Both sides projected: Q' = Q - a (Q.q) q and P' = P - b (P.p) p.

    Ranking by P'.Q' equals ranking by `query(P).Q`; this form is for those who must store vectors.
    """
    a, b = (np.asarray(s, np.float32) for s in (adjustment.item_strength, adjustment.user_strength))
    return replace(
        embeddings,
        user_vectors=_take_out(embeddings.user_vectors, adjustment.user_direction, b),
        item_vectors=_take_out(embeddings.item_vectors, adjustment.item_direction, a),
    )
