"""Which triples an epoch goes through on the CPU: each thread's share, the blocks of items, the negatives."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.alias import alias_table
from counterpop.kernels.drawing import Blocks, Law, Rows, Triples, draw_triples
from counterpop.kernels.threads import core_count, in_parallel
from counterpop.training.backbones.contract import Start
from counterpop.training.settings import Settings

NAMES = "users", "items", "negatives"
LEAST_BLOCK = 16  # items in a block, at least


class TripleSampler:
    """Draws the triples of an epoch, each thread its own, into memory that is allocated once.

    They come shuffled, or only within windows of this many triples of neighbouring users. Epochs of more than `most`
    triples come in several helpings of users. Both items of a triple whose row is treated are counted from the number
    of items on.
    """

    def __init__(self, start: Start, threads: int, window: int = 1 << 62, most: int = 1 << 62) -> None:
        train, settings = start.train, start.settings
        self._train, self._settings, self._window = train, settings, window
        self._generator = settings.generator("sampling")
        has_rows = train.user_counts > 0
        self._draws = len(train) / has_rows.sum() if settings.sampling == "users" else 0.0
        expected = np.ceil(self._draws) * has_rows if self._draws else train.user_counts
        reached = np.concatenate([[0], np.cumsum(expected)])
        self.helpings = max(1, math.ceil(reached[-1] * settings.negatives / most))
        cuts = np.searchsorted(reached, np.linspace(0, reached[-1], threads * self.helpings + 1))
        cuts[-1] = train.n_users
        self._cuts = cuts
        self._space = []
        for part in range(threads):
            own = reached[cuts[part * self.helpings : (part + 1) * self.helpings + 1]]
            size = int(np.diff(own).max()) * settings.negatives
            users, items, others, order = np.empty((4, size), dtype=np.int32)
            self._space.append(Triples(users, items, others, order, np.zeros(threads + 1, dtype=np.int64)))
        self._by_popularity = np.argsort(-train.item_counts, kind="stable")
        power = settings.negative_power
        self._alias = alias_table(train.item_counts.astype(np.float64) ** power if power else np.empty(0))
        treated = np.empty(0, dtype=bool) if start.treated is None else start.treated
        self._rows = Rows(train.user_starts, train.item_ix, treated)

    def epoch(self, epoch: int, helping: int = 0) -> list[Triples]:
        """Fresh triples of every thread for a helping of this epoch, both counted from 0; they overwrite the last."""
        threads = len(self._space)
        block_of = self._blocks(threads)
        members = np.argsort(block_of, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(block_of, minlength=threads))])
        above = below = np.empty(0, dtype=np.int64)
        pool = 0.0
        contrast = self._settings.method.negatives(epoch)
        if contrast is not None:
            pool = contrast.pool
            members, above, below = self._beyond(block_of, starts, contrast.margin)
        blocks = Blocks(np.tile(block_of, 2) if len(self._rows.treated) else block_of, members, starts)
        law = Law(*self._alias, above, below, max(1.0, pool / threads))
        # a thread's state on a cache line of its own: it is written with every draw
        states = self._generator.integers(0, 2**64, size=(threads, 16), dtype=np.uint64)

        def draw(part: int) -> None:
            at = part * self.helpings + helping
            users = self._cuts[at], self._cuts[at + 1]
            shape = self._draws, self._settings.negatives, self._window
            draw_triples(*users, self._rows, blocks, law, *shape, states[part], self._space[part])

        in_parallel(draw, threads)
        return self._space

    def shuffled(self, drawn: list[Triples]) -> IntArray:
        """(3, n) the users, seen items and negatives of all threads together, in random order."""
        numbers = [int(triples.block_starts[-1]) for triples in drawn]
        order = self._generator.permutation(sum(numbers))
        columns = ([getattr(triples, name)[:n] for triples, n in zip(drawn, numbers, strict=True)] for name in NAMES)
        return np.stack([np.concatenate(column)[order] for column in columns])

    def _beyond(
        self, block_of: IntArray, starts: NDArray[np.int64], margin: float
    ) -> tuple[IntArray, NDArray[np.int64], NDArray[np.int64]]:
        """Block members by falling popularity; for each item, where the clearly more popular end among them, and
        where the clearly less popular begin."""
        in_order = self._by_popularity
        members = in_order[np.argsort(block_of[in_order], kind="stable")].astype(np.int32)
        counts = self._train.item_counts
        above, below = np.empty((2, len(counts)), dtype=np.int64)
        for first, last in pairwise(starts):
            mine = members[first:last]
            rising = -counts[mine]
            above[mine] = first + np.searchsorted(rising, -(counts[mine] + margin), side="left")
            below[mine] = first + np.searchsorted(rising, -(counts[mine] / 2), side="right")
        return members, above, below

    def _blocks(self, threads: int) -> IntArray:
        """A random block for each item, so that every block holds as much popularity as the next.

        Runs of `threads` items of neighbouring popularity are dealt one to each block; where the runs begin
        changes from epoch to epoch, so that any two items meet in a block now and then.
        """
        n = len(self._by_popularity)
        deal = np.tile(np.arange(threads, dtype=np.int32), (-(-n // threads) + 1, 1))
        self._generator.permuted(deal, axis=1, out=deal)
        first = int(self._generator.integers(threads))
        block_of = np.empty(n, dtype=np.int32)
        block_of[self._by_popularity] = deal.ravel()[first : first + n]
        return block_of


def thread_count(train: Interactions, settings: Settings) -> int:
    """How many threads a model is trained with."""
    threads = settings.threads or core_count()
    # small blocks of items would leave busy users without a negative in theirs
    return min(threads, max(1, train.n_items // LEAST_BLOCK), train.n_users)
