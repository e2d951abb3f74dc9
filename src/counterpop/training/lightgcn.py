"""LightGCN on the CPU: vectors smoothed over the graph, one step of Adam for each batch of triples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.graph import adam, propagate, pull_triples
from counterpop.kernels.threads import core_count, crew, stretches
from counterpop.ledger import Ledger
from counterpop.runs import Model
from counterpop.splits import Development
from counterpop.training.graph import graph_of
from counterpop.training.mf import LEAST_BLOCK, aligned, look_at
from counterpop.training.sampling import Triples, TripleSampler
from counterpop.training.settings import DROPOUT_STREAM, INITIAL_STREAM, SAMPLING_STREAM, Settings
from counterpop.tuning import Grid

Together = Callable[[Callable[[int], Any]], list[Any]]  # see `crew`


class LightGCN:
    """E = (E0 + A E0 + ... + A^L E0) / (L + 1), with A the normalised graph of users and items.

    A is symmetric, so the gradient at E goes back to E0 by the very same propagation: no autograd. With no
    layers E is E0, and this is matrix factorisation in batches.
    Memory: (U + I) x D floats six times, four times more with a ledger, both parts of it again for the best
    model so far and for a look at validation, and 32 bytes for each interaction.
    Limit: every step propagates all vectors, so small batches are slow.
    """

    def __init__(self, train: Interactions, settings: Settings) -> None:
        self._train, self._settings = train, settings
        threads = settings.threads or core_count()
        self._threads = min(threads, max(1, train.n_items // LEAST_BLOCK), train.n_users)
        shape = train.n_users + train.n_items, settings.dim
        self._tables, self._vectors, self._gradient, self._between, self._mean, self._square = (
            aligned(shape) for _ in range(6)
        )
        values = np.random.default_rng([settings.seed, INITIAL_STREAM])
        self._tables[:] = values.standard_normal(shape, dtype=np.float32) * np.float32(settings.initial_scale)
        self._graph = graph_of(train)
        self._cuts = self._graph.cut(self._threads)
        self._rows = [slice(*stretch) for stretch in stretches(len(self._tables), self._threads)]
        self._dropped = np.random.default_rng([settings.seed, DROPOUT_STREAM])
        self._kept = np.empty(0, dtype=bool)
        self._sampler = TripleSampler(
            train,
            sampling=settings.sampling,
            negatives=settings.negatives,
            negative_power=settings.negative_power,
            threads=self._threads,
            generator=np.random.default_rng([settings.seed, SAMPLING_STREAM]),
        )
        rows = (train.n_items, train.n_users) if settings.keeps_ledger else (0, 0)
        self._item_ledger, self._user_ledger = (aligned((n, 4, settings.dim)) for n in rows)
        self._triples, self._recorded, self._steps = 0, 0, 0

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the triples that were recorded."""
        drawn = self._sampler.epoch()
        number = sum(int(triples.block_starts[-1]) for triples in drawn)
        steps = self._settings.steps(number)
        total = np.zeros(2)
        with crew(self._threads) as together:
            for step in range(steps):
                self.encode(together)
                for turn in range(self._threads):  # each thread meets each item block once; no row is shared

                    def pull(part: int, turn: int = turn, step: int = step) -> tuple[float, int]:
                        order = drawn[part].block((part + turn) % self._threads)
                        batch = order[len(order) * step // steps : len(order) * (step + 1) // steps]
                        return self.pull(drawn[part], batch)

                    total += np.sum(together(pull), axis=0)
                self.move(lr, together)
        self._triples += number
        self._recorded += int(total[1])
        return float(total[0] / max(1.0, total[1]))

    def encode(self, together: Together) -> None:
        """Begins a step: vectors from the tables, and no gradient yet."""
        if self._settings.edge_dropout:
            self._kept = self._dropped.random(len(self._train)) >= self._settings.edge_dropout
        self._propagate(self._tables, self._vectors, self._gradient, together)
        together(lambda part: self._gradient[self._rows[part]].fill(0))

    def pull(self, triples: Triples, order: IntArray) -> tuple[float, int]:
        """Adds the gradient of these triples at the vectors."""
        settings, n_users = self._settings, self._train.n_users
        found: tuple[float, int] = pull_triples(
            self._vectors[:n_users], self._vectors[n_users:],
            triples.users, triples.items, triples.negatives, order,
            np.float32(settings.reg), settings.loss == "bce", settings.normalises,
            self._gradient[:n_users], self._gradient[n_users:],
            self._item_ledger, self._user_ledger, settings.ledger_every,
        )  # fmt: skip
        return found

    def move(self, lr: float, together: Together) -> None:
        """Ends a step: the gradient goes back to the tables, and Adam moves them."""
        self._propagate(self._gradient, self._gradient, self._vectors, together)
        self._steps += 1

        def step(part: int) -> None:
            mine = self._rows[part]
            tables, gradient = self._tables[mine], self._gradient[mine]
            adam(tables, gradient, self._mean[mine], self._square[mine], lr, self._steps)

        together(step)

    def _propagate(self, base: FloatArray, out: FloatArray, spare: FloatArray, together: Together) -> None:
        """out = (X + A X + ... + A^L X) / (L + 1) of X = base, as X + A (X + A (...)).

        A = S N S, with N the neighbours and S one over the root of their number. Vectors between two layers
        are kept already scaled by S, so that an edge costs one addition.
        """
        graph, layers, survive = self._graph, self._settings.layers, 1.0
        if not layers:  # matrix factorisation
            np.copyto(out, base)
            return
        if len(self._kept):
            survive = 1 - self._settings.edge_dropout  # what is kept counts for what is not
        weights, even = graph.scale / np.float32(survive), np.full_like(graph.scale, 1 / (layers + 1))
        source, target = self._between, spare

        def scale(part: int) -> None:
            rows = self._rows[part]
            np.multiply(base[rows], graph.scale[rows, None], out=self._between[rows])

        together(scale)
        for layer in range(1, layers + 1):
            gain, into = (even, out) if layer == layers else (graph.scale, target)

            def add_up(
                part: int, source: FloatArray = source, gain: FloatArray = gain, into: FloatArray = into
            ) -> None:
                propagate(
                    graph.starts, graph.neighbours, graph.edges, self._kept, weights, gain, base,
                    source, into, self._cuts[part], self._cuts[part + 1],
                )  # fmt: skip

            together(add_up)
            source, target = target, source

    def look(self, known: Development, users: IntArray, strengths: Sequence[float]) -> Grid:
        """How the model does on validation, at every pair of strengths."""
        return look_at(self.model(), known, users, strengths, self._settings)

    def model(self) -> Model:
        """A copy of the vectors as they are now and of the ledger so far."""
        self._kept = np.empty(0, dtype=bool)
        with crew(self._threads) as together:
            self._propagate(self._tables, self._vectors, self._gradient, together)
        users, items = np.split(self._vectors.copy(), [self._train.n_users])
        vectors = Embeddings(users, items, self._train.user_ids, self._train.item_ids)
        if not self._settings.keeps_ledger:
            return Model(vectors)
        scale = self._triples / max(1, self._recorded)
        ledger = self._item_ledger.copy(), self._user_ledger.copy()
        return Model(vectors, Ledger(*ledger, self._settings.ledger_every, self._triples, scale))
