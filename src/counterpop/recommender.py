"""What ranks, as one value: vectors, their adjustment, and the log whose items are left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.directions import lean_of
from counterpop.embeddings import Embeddings, FloatArray, check_same_ids
from counterpop.interactions import IntArray, Interactions
from counterpop.ranking import rank, score_blocks, tie_order


class Explained(NamedTuple):
    """One item of a list and what moved it: plain score = popular part + conformity part + adjusted score."""

    item: int
    plain_rank: int
    adjusted_rank: int
    plain_score: float
    popular_part: float
    conformity_part: float
    adjusted_score: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Recommender(Adjustment):
    """An adjustment together with the vectors it is for and what their users have already seen.

    >>> from counterpop.worlds import make_world
    >>> log, draw = make_world(60, 40, mean_activity=8).log, np.random.default_rng(0)
    >>> P, Q = (draw.normal(size=(n, 4)).astype(np.float32) for n in (60, 40))
    >>> q, p = np.eye(2, 4, dtype=np.float32)
    >>> model = Recommender(q, p, 0.6, 0.2, embeddings=Embeddings(P, Q, log.user_ids, log.item_ids), seen=log)
    >>> lists, scores = model.recommend(log.user_positions([3, 17]), k=10)
    >>> lists.shape, scores.shape
    ((2, 10), (2, 10))
    """

    embeddings: Embeddings
    seen: Interactions
    """Items of a user's rows in this log are left out of their lists, by every command and function.

    Of a run it is all that users are known to have touched: train, validation and the ordinary part, refit or not.
    """
    refit: bool = False
    """Whether the vectors were trained on train + validation."""
    trial: Recommender | None = None
    """After a refit, the model before it: what the refit was trained on is measured on this one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_same_ids(self.embeddings, self.seen)

    @cached_property
    def ties(self) -> NDArray[np.int64]:
        """(I,) the order among items of equal score: see `tie_order`."""
        return tie_order(self.embeddings.item_ids)

    @cached_property
    def leans(self) -> FloatArray:
        """(U,) how far each user's history leans to popular items: see `lean_of`."""
        return lean_of(self.seen)

    def item_strengths_of(self, users: IntArray) -> float | FloatArray:
        """The tuned item strength of users at these positions: one for all, or one for each if they differ."""
        return self.item_strength + np.float32(self.lean) * self.leans[users] if self.lean else self.item_strength

    def recommend(
        self,
        users: IntArray,
        k: int = 20,
        item_strength: float | None = None,
        user_strength: float | None = None,
        *,
        threads: int | None = None,
    ) -> tuple[IntArray, FloatArray]:
        """The best k items for users at these positions and their scores, both (B, K), best first.

        Strengths default to the tuned ones. If fewer than k items are left for a user, -1 fills the list.
        """
        of_items = self.item_strengths_of(users) if item_strength is None else item_strength
        queries = self.query(self.embeddings.user_vectors[users], of_items, user_strength)
        items = self.embeddings.item_vectors
        return rank(queries, items, k, users=users, seen=[self.seen], ties=self.ties, threads=threads)

    def explain(
        self, user: int, k: int = 20, item_strength: float | None = None, user_strength: float | None = None
    ) -> tuple[list[Explained], list[Explained]]:
        """The plain and the adjusted list of a user, with each item's rank in both and the parts of its score.

        With u the user's vector and u' = u - b (u.p) p, the plain score u.Q_i is the sum of what the
        conformity direction gives, b (u.p)(p.Q_i), what the popular direction gives, a (u'.q)(q.Q_i), and
        the adjusted score. Ranks start at 1 and count only items that the user has not seen.
        """
        own = self.item_strengths_of(np.array([user], dtype=np.int32)) if item_strength is None else item_strength
        a = float(np.ravel(own)[0])
        b = self.user_strength if user_strength is None else user_strength
        vectors = self.embeddings
        orders = [self._order(user, *strengths) for strengths in ((0.0, 0.0), (a, b))]
        ranks = np.zeros((2, self.seen.n_items), dtype=np.int64)
        for side, order in enumerate(orders):
            ranks[side, order] = np.arange(1, len(order) + 1)
        u, p, q = (v.astype(np.float64) for v in (vectors.user_vectors[user], self.user_direction, self.item_direction))
        moved = u - b * (u @ p) * p

        def row(item: int) -> Explained:
            vector = vectors.item_vectors[item].astype(np.float64)
            plain = float(u @ vector)
            conformity = float(b * (u @ p) * (p @ vector))
            popular = float(a * (moved @ q) * (q @ vector))
            places = int(ranks[0, item]), int(ranks[1, item])
            return Explained(item, *places, plain, popular, conformity, plain - popular - conformity)

        plain, adjusted = ([row(item) for item in order[:k].tolist()] for order in orders)
        return plain, adjusted

    def _order(self, user: int, item_strength: float, user_strength: float) -> NDArray[np.intp]:
        """All items that the user has not seen, best first."""
        from counterpop.kernels.topk import LEFT_OUT

        at = np.array([user], dtype=np.int32)
        query = self.query(self.embeddings.user_vectors[at], item_strength, user_strength)
        seen = [(self.seen.user_starts, self.seen.item_ix)]
        _, scores = next(score_blocks(query, self.embeddings.item_vectors, at, seen))
        unseen = np.flatnonzero(scores[0] > LEFT_OUT)
        return unseen[np.lexsort((self.ties[unseen], -scores[0, unseen]))]
