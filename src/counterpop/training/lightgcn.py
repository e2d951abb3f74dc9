"""LightGCN on the CPU: vectors smoothed over the graph, one step of Adam for each batch of triples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.interactions import BoolArray, IntArray, Interactions, apart
from counterpop.kernels.graph import adam, propagate
from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import crew, stretches
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.graph import graph_of
from counterpop.training.mf import look_at
from counterpop.training.objectives import OBJECTIVES, Objective
from counterpop.training.sampling import Triples, sampler_of, thread_count
from counterpop.training.settings import DROPOUT_STREAM, INITIAL_STREAM, Settings
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

    def __init__(self, train: Interactions, settings: Settings, intervened: BoolArray | None = None) -> None:
        self._train, self._settings = train, settings
        self._threads = thread_count(train, settings)
        self._objective = OBJECTIVES.get(settings.method, Objective)(train, settings, self._threads)
        copies = self._objective.copies  # CausE has a second graph beside the first; their rows begin alike
        self._n_users = copies * train.n_users
        shape = copies * (train.n_users + train.n_items), settings.dim
        self._tables, self._vectors, self._gradient, self._between, self._mean, self._square = (
            aligned(shape) for _ in range(6)
        )
        values = np.random.default_rng([settings.seed, INITIAL_STREAM])
        first = values.standard_normal((shape[0] // copies, settings.dim), dtype=np.float32)
        users, items = np.split(first * np.float32(settings.initial_scale), [train.n_users])
        self._tables[:] = np.concatenate([users] * copies + [items] * copies)
        treated = intervened if settings.method == "cause" else None
        self._graph = graph_of(train if treated is None else apart(train, treated))
        self._cuts = self._graph.cut(self._threads)
        self._rows = [slice(*stretch) for stretch in stretches(len(self._tables), self._threads)]
        self._dropped = np.random.default_rng([settings.seed, DROPOUT_STREAM])
        self._kept = np.empty(0, dtype=bool)
        self._sampler = sampler_of(train, settings, self._threads, treated)
        self._triples, self._recorded, self._steps, self._epochs = 0, 0, 0, 0

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the triples that were recorded."""
        drawn = self._sampler.epoch(**self._objective.sampling(self._epochs))
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
                        return self.pull(drawn[part], batch, part)

                    total += np.sum(together(pull), axis=0)
                self.move(lr, together, number / steps)
        self._epochs += 1
        self._triples += number
        self._recorded += int(total[1])
        return float(total[0] / max(1.0, total[1]))

    def encode(self, together: Together) -> None:
        """Begins a step: vectors from the tables, and no gradient yet."""
        if self._settings.edge_dropout:
            self._kept = self._dropped.random(len(self._train)) >= self._settings.edge_dropout
        self._propagate(self._tables, self._vectors, self._gradient, together)
        together(lambda part: self._gradient[self._rows[part]].fill(0))

    def pull(self, triples: Triples, order: IntArray, part: int = 0) -> tuple[float, int]:
        """Adds the gradient of these triples at the vectors, in thread `part`."""
        vectors, gradient = self._sides(self._vectors), self._sides(self._gradient)
        return self._objective.pull(part, *vectors, triples, order, *gradient)

    def move(self, lr: float, together: Together, triples: float = 1.0) -> None:
        """Ends a step of about so many triples: the gradient goes back to the tables, and Adam moves them."""
        self._steps += 1
        vectors, gradient = self._sides(self._vectors), self._sides(self._gradient)
        self._objective.after_pulls(*vectors, *gradient, triples, lr, self._steps)
        self._propagate(self._gradient, self._gradient, self._vectors, together)
        if self._objective.copies > 1:  # a user is the same in both graphs: one gradient, the sum
            first, second = np.split(self._sides(self._gradient)[0], 2)
            first += second
            second[:] = first

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
                    graph.starts,
                    graph.neighbours,
                    graph.edges,
                    self._kept,
                    weights,
                    gain,
                    base,
                    source,
                    into,
                    self._cuts[part],
                    self._cuts[part + 1],
                )

            together(add_up)
            source, target = target, source

    def _sides(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The rows of users, and those of items."""
        return rows[: self._n_users], rows[self._n_users :]

    def look(self, known: Development, users: IntArray, item_strengths: Strengths, user_strengths: Strengths) -> Grid:
        """How the model does on validation, at every pair of strengths."""
        return look_at(self.model(), known, users, item_strengths, user_strengths, self._settings)

    def model(self) -> Model:
        """A copy of the vectors as they are now and of the ledger so far."""
        self._kept = np.empty(0, dtype=bool)
        with crew(self._threads) as together:
            self._propagate(self._tables, self._vectors, self._gradient, together)
        return self._objective.model(*self._sides(self._vectors), self._triples, self._recorded, copy=True)
