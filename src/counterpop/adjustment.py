"""The projection that removes popularity, and the same as a transform of the query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.errors import InputError
from counterpop.presentation import Shown

SegmentBy = Literal["activity", "head-taste"]


@dataclass(frozen=True)
class Segments:
    """Different strengths for different users, by their number of interactions or their share of popular items.

    >>> Segments("activity", (10.0,), ((2.0, 0.2), (1.0, 0.0))).strengths_of([3, 10, 500])
    (array([2., 1., 1.], dtype=float32), array([0.2, 0. , 0. ], dtype=float32))
    """

    by: SegmentBy
    """"activity": the user's interactions in the log; "head-taste": the share of them with popular items."""
    bounds: tuple[float, ...]
    """A user is in segment n if their value reaches n of the bounds."""
    strengths: tuple[tuple[float, float], ...]
    """Item and user strength of each segment."""

    def strengths_of(self, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Item and user strengths for users with these values, to pass to `query`."""
        segment = np.searchsorted(self.bounds, np.asarray(values), side="right")
        item, user = np.array(self.strengths, dtype=np.float32)[segment].T
        return item, user


@dataclass(frozen=True, eq=False, repr=False)
class Adjustment(Shown):
    """Two unit vectors and two strengths: all that is needed to remove popularity from a score.

    Strength 0 changes nothing, 1 removes the direction, and above 1 it changes sign.
    """

    item_direction: FloatArray
    user_direction: FloatArray
    item_strength: float
    user_strength: float
    segments: Segments | None = None
    """Strengths by segment of users, if they were proven better than one pair for all."""
    lean: float = 0.0
    """What a `Recommender` adds to a user's item strength for each standard deviation by which their history leans to
    popular items (see `lean_of`), if that was proven better than one strength for all. `query` does not use it."""

    def __post_init__(self) -> None:
        for name in ("item_strength", "user_strength", "lean"):
            if not np.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number, got {getattr(self, name)!r}")

    def with_strengths(self, item_strength: float, user_strength: float) -> Self:
        """The same directions at other strengths, the same for all users."""
        return replace(self, item_strength=item_strength, user_strength=user_strength, lean=0.0)

    def stored_at(self, strength: float) -> Adjustment:
        """The adjustment that gives the same scores on item vectors stored at an item strength of `strength`, below 1.

        An HNSW graph built on inner products leads to long, popular vectors and misses others. Built on items that have
        most of the popular direction removed, it finds more, and every strength can still be asked for: with
        Q' = Q - c (Q.q) q in the index, item strength 1 - (1 - a) / (1 - c) ranks as a does on Q.

        >>> fix = Adjustment(*np.eye(2, dtype=np.float32), item_strength=0.7, user_strength=0.5)
        >>> items, u = np.array([[3, 4], [5, 1]], dtype=np.float32), np.array([1.0, 2.0])
        >>> stored = items - 0.75 * (items @ fix.item_direction)[:, None] * fix.item_direction
        >>> np.allclose(stored @ fix.stored_at(0.75).query(u), items @ fix.query(u))
        True
        """
        if not 0 <= strength < 1:
            raise InputError(f"the strength that items are stored at must be from 0 to below 1, got {strength}")

        def convert(item_strength: float) -> float:
            return 1 - (1 - item_strength) / (1 - strength)

        segments = self.segments and replace(
            self.segments, strengths=tuple((convert(a), b) for a, b in self.segments.strengths)
        )
        directions = self.item_direction, self.user_direction
        lean = self.lean / (1 - strength)
        return Adjustment(*directions, convert(self.item_strength), self.user_strength, segments, lean)

    def query(
        self,
        user_vectors: NDArray[np.floating],
        item_strength: float | FloatArray | None = None,
        user_strength: float | FloatArray | None = None,
    ) -> FloatArray:
        """The query x for which x.Q_i ranks items as the adjusted vectors do, with the items unchanged.

        x = (1 - a q q^T)(1 - b p p^T) u, for one vector (D,) or many (..., D). Strengths default to the tuned ones;
        each may also be an array with one strength per vector.

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
                f"a user vector must have {len(self.item_direction)} numbers, like the directions, got shape {u.shape}"
            )
        if any(strength.shape not in ((), u.shape[:-1]) for strength in (a, b)):
            raise InputError(
                f"a strength must be one number, or one for each of the vectors {u.shape[:-1]}, "
                f"got shapes {a.shape} and {b.shape}"
            )
        return _remove(_remove(u, self.user_direction, b), self.item_direction, a)


def _remove(vectors: FloatArray, direction: FloatArray, strength: FloatArray) -> FloatArray:
    """v - strength (v . direction) direction, for each vector v."""
    along: FloatArray = strength * (vectors @ direction)
    return vectors - along[..., None] * direction


def adjust(embeddings: Embeddings, adjustment: Adjustment) -> Embeddings:
    """Vectors with both sides projected: Q' = Q - a (Q.q) q and P' = P - b (P.p) p.

    P'.Q' ranks exactly like `query(P).Q`; use this form if you have to store vectors.
    """
    if adjustment.lean:
        raise InputError("item vectors cannot hold strengths that differ by user; store the queries of users instead")
    a, b = (np.asarray(s, np.float32) for s in (adjustment.item_strength, adjustment.user_strength))
    return replace(
        embeddings,
        user_vectors=_remove(embeddings.user_vectors, adjustment.user_direction, b),
        item_vectors=_remove(embeddings.item_vectors, adjustment.item_direction, a),
    )
