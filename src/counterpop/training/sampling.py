"""Which triples an epoch goes through: the shares of threads, the blocks of items, the law of negatives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.kernels.alias import alias_table
from counterpop.kernels.mf import draw_triples
from counterpop.kernels.threads import core_count, in_parallel
from counterpop.training.settings import SAMPLING_STREAM, Sampling, Settings

LEAST_BLOCK = 16  # items in a block, at least


@dataclass(frozen=True, eq=False)
class Triples:
    """The triples of one thread in one epoch, and their shuffled order, item block after item block."""

    users: IntArray
    items: IntArray
    negatives: IntArray
    order: IntArray
    block_starts: NDArray[np.int64]

    def block(self, number: int) -> IntArray:
        """The order within one item block."""
        return self.order[self.block_starts[number] : self.block_starts[number + 1]]


class TripleSampler:
    """Draws the triples of an epoch, each thread its own, into memory that is taken once.

    They come shuffled, or only within windows of so many triples of neighbouring users. Both items of a
    triple whose row is `treated` are counted on from the number of items.
    """

    def __init__(
        self,
        train: Interactions,
        *,
        sampling: Sampling,
        negatives: int,
        negative_power: float,
        threads: int,
        generator: np.random.Generator,
        window: int = 1 << 62,
        treated: BoolArray | None = None,
    ) -> None:
        self._train, self._generator, self._negatives, self._window = train, generator, negatives, window
        has_rows = train.user_counts > 0
        self._draws = len(train) / has_rows.sum() if sampling == "users" else 0.0
        expected = np.ceil(self._draws) * has_rows if self._draws else train.user_counts
        reached = np.concatenate([[0], np.cumsum(expected)])
        self._cuts = np.searchsorted(reached, np.linspace(0, reached[-1], threads + 1))
        self._cuts[-1] = train.n_users
        self._space = []
        for first, last in zip(self._cuts, self._cuts[1:], strict=False):
            size = int(reached[last] - reached[first]) * negatives
            users, items, others, order = np.empty((4, size), dtype=np.int32)
            self._space.append(Triples(users, items, others, order, np.zeros(threads + 1, dtype=np.int64)))
        self._by_popularity = np.argsort(-train.item_counts, kind="stable")
        law = train.item_counts.astype(np.float64) ** negative_power if negative_power else np.empty(0)
        self._accept, self._alias = alias_table(law)
        self._treated = np.empty(0, dtype=bool) if treated is None else treated

    def epoch(self, margin: float | None = None, pool: float = 0.0) -> list[Triples]:
        """Fresh triples of every thread; they overwrite those of the epoch before.

        With a margin, negatives are DICE's: more popular than the seen item by more than it, or less than
        half as popular, each where at least `pool` items are.
        """
        threads = len(self._space)
        block_of = self._blocks(threads)
        members = np.argsort(block_of, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(block_of, minlength=threads))])
        above = below = np.empty(0, dtype=np.int64)
        if margin is not None:
            members, above, below = self._beyond(block_of, starts, margin)
        if len(self._treated):
            block_of = np.tile(block_of, 2)
        # a thread's state on a cache line of its own: they are written with every draw
        states = self._generator.integers(0, 2**64, size=(threads, 16), dtype=np.uint64)

        def draw(part: int) -> None:
            space = self._space[part]
            draw_triples(
                self._cuts[part],
                self._cuts[part + 1],
                self._train.user_starts,
                self._train.item_ix,
                self._window,
                self._draws,
                self._negatives,
                self._accept,
                self._alias,
                block_of,
                members,
                starts,
                above,
                below,
                max(1.0, pool / threads),
                self._treated,
                states[part],
                space.users,
                space.items,
                space.negatives,
                space.order,
                space.block_starts,
            )

        in_parallel(draw, threads)
        return self._space

    def _beyond(
        self, block_of: IntArray, starts: NDArray[np.int64], margin: float
    ) -> tuple[IntArray, NDArray[np.int64], NDArray[np.int64]]:
        """The members of the blocks by falling popularity; for each item where the popular enough end among
        them, and where the unpopular enough begin."""
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


def sampler_of(
    train: Interactions, settings: Settings, threads: int, treated: BoolArray | None, window: int = 1 << 62
) -> TripleSampler:
    """The sampler that the settings ask for."""
    return TripleSampler(
        train,
        sampling=settings.sampling,
        negatives=settings.negatives,
        negative_power=settings.negative_power,
        threads=threads,
        generator=np.random.default_rng([settings.seed, SAMPLING_STREAM]),
        window=window,
        treated=treated,
    )
