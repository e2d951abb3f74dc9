"""LightGCN on the CPU: vectors smoothed over the graph, one step of Adam for each batch of triples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import BoolArray, IntArray, Interactions, apart
from counterpop.kernels.graph import adam, propagate
from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import core_count, in_parallel, stretches
from counterpop.runs import Model
from counterpop.splits import Development
from counterpop.training.mf import LEAST_BLOCK, look_at
from counterpop.training.objectives import OBJECTIVES, Objective
from counterpop.training.sampling import Triples, TripleSampler
from counterpop.training.settings import DROPOUT_STREAM, INITIAL_STREAM, SAMPLING_STREAM, Settings
from counterpop.tuning import Grid


class LightGCN:
    """E = (E0 + A E0 + ... + A^L E0) / (L + 1), with A the normalised graph of users and items.

    A is symmetric, so the gradient at E goes back to E0 by the very same propagation: no autograd. With no
    layers E is E0, and this is matrix factorisation in batches.
    Memory: (U + I) x D floats six times, five times more with a ledger, and 24 bytes for each interaction.
    Limit: every step propagates all vectors, so small batches are slow.
    """

    def __init__(self, train: Interactions, settings: Settings, intervened: BoolArray | None = None) -> None:
        self._train, self._settings = train, settings
        threads = settings.threads or core_count()
        self._threads = min(threads, max(1, train.n_items // LEAST_BLOCK), train.n_users)
        self._objective = OBJECTIVES.get(settings.method, Objective)(train, settings, self._threads)
        copies = self._objective.copies  # CausE has a second graph beside the first; their rows begin alike
        self._n_users = copies * train.n_users
        shape = copies * (train.n_users + train.n_items), settings.dim
        self._tables, self._vectors, self._gradient, self._between, self._mean, self._square = (
            aligned(shape) for _ in range(6)
        )
        values = np.random.default_rng([settings.seed, INITIAL_STREAM])
        first = values.standard_normal((shape[0] // copies, settings.dim), dtype=np.float32)
        first *= np.float32(settings.initial_scale)
        self._tables[:] = np.concatenate(
            [first[: train.n_users]] * copies + [first[train.n_users :]] * copies
        )
        treated = intervened if settings.method == "cause" else None
        self._graph = graph_of(train if treated is None else apart(train, treated))
        self._cuts = self._graph.cut(self._threads)
        self._dropped = np.random.default_rng([settings.seed, DROPOUT_STREAM])
        self._kept = np.empty(0, dtype=bool)
        self._sampler = TripleSampler(
            train,
            sampling=settings.sampling,
            negatives=settings.negatives,
            negative_power=settings.negative_power,
            threads=self._threads,
            generator=np.random.default_rng([settings.seed, SAMPLING_STREAM]),
            treated=treated,
        )
        self._triples, self._recorded, self._steps, self._epochs = 0, 0, 0, 0

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the triples that were recorded."""
        drawn = self._sampler.epoch(**self._objective.sampling(self._epochs))
        number = sum(int(triples.block_starts[-1]) for triples in drawn)
        steps = self._settings.steps(number)
        total = np.zeros(2)
        for step in range(steps):
            self.encode()
            for turn in range(self._threads):  # each thread meets each item block once; nobody shares a row

                def pull(part: int, turn: int = turn, step: int = step) -> tuple[float, int]:
                    order = drawn[part].block((part + turn) % self._threads)
                    batch = order[len(order) * step // steps : len(order) * (step + 1) // steps]
                    return self.pull(drawn[part], batch, part)

                total += np.sum(in_parallel(pull, self._threads), axis=0)
            self.move(lr, number / steps)
        self._epochs += 1
        self._triples += number
        self._recorded += int(total[1])
        return float(total[0] / max(1.0, total[1]))

    def encode(self) -> None:
        """Begins a step: vectors from the tables, and no gradient yet."""
        if self._settings.edge_dropout:
            self._kept = self._dropped.random(len(self._train)) >= self._settings.edge_dropout
        self._propagate(self._tables, self._vectors, spare=self._gradient)
        self._each_thread(lambda low, high: self._gradient[low:high].fill(0))

    def pull(self, triples: Triples, order: IntArray, part: int = 0) -> tuple[float, int]:
        """Adds the gradient of these triples at the vectors, in thread `part`."""
        sides = self._sides(self._vectors), self._sides(self._gradient)
        return self._objective.pull(part, *sides[0], triples, order, *sides[1])

    def move(self, lr: float, triples: float = 1.0) -> None:
        """Ends a step of about so many triples: the gradient goes back to the tables, and Adam moves them."""
        self._steps += 1
        self._objective.after_pulls(
            *self._sides(self._vectors), *self._sides(self._gradient), triples, lr, self._steps
        )
        self._propagate(self._gradient, self._gradient, spare=self._vectors)
        if self._objective.copies > 1:  # a user is the same in both graphs: one gradient, the sum
            both = np.split(self._sides(self._gradient)[0], self._objective.copies)
            both[0] += both[1]
            both[1][:] = both[0]
        self._each_thread(
            lambda low, high: adam(
                self._tables, self._gradient, self._mean, self._square, lr, self._steps, low, high
            )
        )

    def _propagate(self, base: FloatArray, out: FloatArray, spare: FloatArray) -> None:
        """out = (X + A X + ... + A^L X) / (L + 1) of X = base, as X + A (X + A (...)).

        A = S N S, with N the neighbours and S one over the root of their number. Vectors between two layers
        are kept already scaled by S, so that an edge costs one addition.
        """
        graph, layers = self._graph, self._settings.layers
        source, target = self._between, spare
        survive = np.float32(1 - self._settings.edge_dropout) if len(self._kept) else np.float32(1)
        self._each_thread(
            lambda low, high: np.multiply(base[low:high], graph.scale[low:high, None], out=source[low:high])
        )
        for layer in range(1, layers + 1):
            last = layer == layers
            gain = np.full_like(graph.scale, 1 / (layers + 1)) if last else graph.scale

            def work(part: int, gain: FloatArray = gain, last: bool = last) -> None:
                propagate(
                    graph.starts, graph.neighbours, graph.edges, self._kept, graph.scale / survive, gain,
                    base, source, out if last else target, self._cuts[part], self._cuts[part + 1],
                )  # fmt: skip

            in_parallel(work, self._threads)
            source, target = target, source

    def _each_thread(self, work: Callable[[int, int], object]) -> None:
        """`work(low, high)` on the rows of each thread."""
        cuts = stretches(len(self._tables), self._threads)
        in_parallel(lambda part: work(*cuts[part]), self._threads)

    def _sides(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The rows of users, and those of items."""
        return rows[: self._n_users], rows[self._n_users :]

    def look(
        self,
        known: Development,
        users: IntArray,
        item_strengths: tuple[float, ...],
        user_strengths: tuple[float, ...],
    ) -> Grid:
        """How the model does on validation, at every pair of strengths."""
        return look_at(self.model(), known, users, item_strengths, user_strengths, self._settings)

    def model(self) -> Model:
        """A copy of the vectors as they are now and of the ledger so far."""
        self._kept = np.empty(0, dtype=bool)
        self._propagate(self._tables, self._vectors, spare=self._gradient)
        return self._objective.model(*self._sides(self._vectors), self._triples, self._recorded, copy=True)


@dataclass(frozen=True, eq=False)
class Graph:
    """Who touched what, both ways: users 0..U-1, then items."""

    starts: NDArray[np.int64]  # (N + 1,)
    neighbours: IntArray  # (2E,)
    edges: IntArray  # (2E,) the interaction behind each entry
    scale: FloatArray  # (N,) one over the root of the number of neighbours; 1 for none

    def cut(self, threads: int) -> NDArray[np.intp]:
        """(T + 1,) rows so that every thread has about as much to add up."""
        work = self.starts + np.arange(len(self.starts))
        return np.searchsorted(work, np.linspace(0, work[-1], threads + 1))


def graph_of(train: Interactions) -> Graph:
    """The graph of users and items."""
    by_item = np.lexsort((train.user_ix, train.item_ix)).astype(np.int32)
    degrees = np.concatenate([train.user_counts, train.item_counts])
    return Graph(
        np.concatenate([[0], np.cumsum(degrees)]),
        np.concatenate([train.item_ix + np.int32(train.n_users), train.user_ix[by_item]]),
        np.concatenate([np.arange(len(train), dtype=np.int32), by_item]),
        (1 / np.sqrt(np.maximum(degrees, 1))).astype(np.float32),
    )
