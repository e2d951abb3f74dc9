"""LightGCN: vectors smoothed over the graph of users and items, one step of Adam for each batch of triples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, separate_treated
from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import crew, stretches
from counterpop.runs import Model
from counterpop.training.backbones.contract import Backbone, NativeTrainee, Start, Trainable
from counterpop.training.graph import graph_of

if TYPE_CHECKING:
    from counterpop.kernels.drawing import Triples
    from counterpop.training.native import Recorded, Tables, Together


class LightGCN(NativeTrainee):
    """E = (E0 + A E0 + ... + A^L E0) / (L + 1) on the CPU, with A the normalised graph of users and items.

    A is symmetric, so the gradient at E goes back to E0 by the same propagation: no autograd.
    Memory: (U + I) x D floats six times, four times more with a ledger, both parts of it again for the best model so
    far and for a look at validation, and 32 bytes for each interaction.
    Limit: every step propagates all vectors, so small batches are slow.
    """

    own = ("_tables", "_mean", "_square", "_steps", "_dropped")

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        train, settings = start.train, start.settings
        self._n_rows, self._steps = len(train), 0
        copies = settings.method.item_copies  # CausE has a second graph beside the first; both start the same
        self._n_users = copies * train.n_users
        shape = copies * (train.n_users + train.n_items), settings.dim
        self._tables, self._vectors, self._gradient, self._between, self._mean, self._square = (
            aligned(shape) for _ in range(6)
        )
        users, items = start.first_values()
        self._tables[:] = np.concatenate([users] * copies + [items] * copies)
        self._graph = graph_of(train if start.treated is None else separate_treated(train, start.treated))
        self._cuts = self._graph.cut(self._threads)
        self._rows = [slice(*stretch) for stretch in stretches(len(self._tables), self._threads)]
        self._dropped = settings.generator("dropout")
        self._kept = np.empty(0, dtype=bool)

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the recorded triples."""
        if self._objective.by_batch:
            return self.go_by_batch(lambda together, batch: self.step_batch(together, batch, lr))
        drawn, number = self.draw()
        steps = self._settings.steps(number)
        total = np.zeros(2)
        with crew(self._threads) as together:
            for step in range(steps):
                self.encode(together)
                for turn in range(self._threads):  # each thread meets each item block once; no row is shared

                    def add(part: int, turn: int = turn, step: int = step) -> tuple[float, int]:
                        order = drawn[part].block((part + turn) % self._threads)
                        batch = order[len(order) * step // steps : len(order) * (step + 1) // steps]
                        return self.add_gradient(drawn[part], batch, part)

                    total += np.sum(together(add), axis=0)
                self.move(lr, together, number / steps)
        return self.mean_loss(*total)

    def step_batch(self, together: Together, batch: IntArray, lr: float) -> Recorded:
        """One step of Adam along a whole batch of triples (3, B)."""
        self.encode(together)
        vectors, gradient = self._sides(self._vectors), self._sides(self._gradient)
        recorded = self._objective.step_batch(together, vectors, batch, -1.0, gradient)
        self.move(lr, together, batch.shape[1])
        return recorded

    def encode(self, together: Together) -> None:
        """Starts a step: vectors from the tables, and no gradient yet."""
        if self._settings.edge_dropout:
            self._kept = self._dropped.random(self._n_rows) >= self._settings.edge_dropout
        self._propagate(self._tables, self._vectors, self._gradient, together)
        together(lambda part: self._gradient[self._rows[part]].fill(0))

    def add_gradient(self, triples: Triples, order: IntArray, part: int = 0) -> tuple[float, int]:
        """Adds the gradient of these triples at the vectors, in thread `part`: a step of length 1 backwards."""
        vectors, gradient = self._sides(self._vectors), self._sides(self._gradient)
        return self._objective.step(part, vectors, triples, order, -1.0, gradient)

    def move(self, lr: float, together: Together, triples: float = 1.0) -> None:
        """Ends a step of about this many triples: the gradient goes back to the tables, and Adam moves them."""
        from counterpop.kernels.graph import adam

        self._steps += 1
        vectors, gradient = self._sides(self._vectors), self._sides(self._gradient)
        self._objective.after_gradient(vectors, gradient, triples, lr, self._steps)
        self._propagate(self._gradient, self._gradient, self._vectors, together)
        if self._settings.method.item_copies > 1:  # a user is the same in both graphs: one gradient, the sum
            first, second = np.split(gradient.users, 2)
            first += second
            second[:] = first

        def step(part: int) -> None:
            mine = self._rows[part]
            adam(self._tables[mine], self._gradient[mine], self._mean[mine], self._square[mine], lr, self._steps)

        together(step)

    def _propagate(self, base: FloatArray, out: FloatArray, spare: FloatArray, together: Together) -> None:
        """out = (X + A X + ... + A^L X) / (L + 1) of X = base, as X + A (X + A (...)).

        A = S N S, with N the neighbours and S one over the root of their number. Vectors between two layers are kept
        already scaled by S, so that an edge costs one addition.
        """
        from counterpop.kernels.graph import propagate

        graph, layers, survive = self._graph, self._settings.layers, 1.0
        if len(self._kept):
            survive = 1 - self._settings.edge_dropout  # kept edges are scaled up to make up for the dropped ones
        weights, even = graph.scale / np.float32(survive), np.full_like(graph.scale, 1 / (layers + 1))
        source, target = self._between, spare

        def scale(part: int) -> None:
            rows = self._rows[part]
            np.multiply(base[rows], graph.scale[rows, None], out=self._between[rows])

        together(scale)
        for layer in range(1, layers + 1):
            gain, into = (even, out) if layer == layers else (graph.scale, target)

            def add_up(part: int, step: tuple[Any, ...] = (weights, gain, base, source, into)) -> None:
                propagate(graph.starts, graph.neighbours, graph.edges, self._kept, *step, *self._cuts[part : part + 2])

            together(add_up)
            source, target = target, source

    def _sides(self, rows: FloatArray) -> Tables:
        from counterpop.training.native import Tables

        return Tables(rows[: self._n_users], rows[self._n_users :])

    def model(self, copy: bool = True) -> Model:
        self._kept = np.empty(0, dtype=bool)
        with crew(self._threads) as together:
            self._propagate(self._tables, self._vectors, self._gradient, together)
        return self._objective.model(self._sides(self._vectors), self._triples, self._recorded, copy=True)


def begin_torch(start: Start) -> Trainable:
    from counterpop.training.device.propagation import Smoothed
    from counterpop.training.device.trainees import DeviceEncoder

    return DeviceEncoder(Smoothed(start), start, replay=True)


LIGHTGCN = Backbone(
    "lightgcn",
    "LightGCN",
    # Adam takes one step for each batch, MF one for each triple: hence another rate
    {"dim": 128, "epochs": 150, "lr": 0.02, "reg": 3e-4, "layers": 2, "batch": 16384},
    layers=(1, 4),
    has_graph=True,
    native=LightGCN,
    torch=begin_torch,
)
