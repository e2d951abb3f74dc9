"""Matrix factorisation: two tables of vectors, one SGD step for each triple."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import crew
from counterpop.runs import Model
from counterpop.training.backbones.contract import Backbone, NativeTrainee, Start, Trainable

if TYPE_CHECKING:
    from counterpop.kernels.drawing import Triples

MOST_TRIPLES = 1 << 26  # drawn at a time: 1 GB
WINDOW = 1 << 15  # triples: few enough that their users' vectors stay in the cache, which halves the time


class MatrixFactorisation(NativeTrainee):
    """The tables of a model in training on the CPU. `epoch` moves them on, `model` copies them out.

    Memory: (U + I) x D floats, five times that with a ledger, as much again for the best model so far, and 16 bytes for
    each triple of an epoch, up to 1 GB: longer epochs draw their triples in helpings.
    Limit: it sees a user or item only through its own interactions, so one with few of them stays near its random
    start.
    """

    own = ("_tables",)

    def __init__(self, start: Start) -> None:
        from counterpop.training.native import Tables

        super().__init__(start, WINDOW, MOST_TRIPLES)
        n_users, n_items = start.train.n_users, start.train.n_items
        copies = start.settings.method.item_copies  # they start from the same values
        self._tables = Tables(*(aligned((n, start.settings.dim)) for n in (n_users, copies * n_items)))
        start.fill_first_values(self._tables.users, self._tables.items[:n_items])
        for copy in range(1, copies):
            self._tables.items[copy * n_items : (copy + 1) * n_items] = self._tables.items[:n_items]

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the recorded triples."""
        objective = self._objective
        if objective.by_batch:
            return self.go_by_batch(lambda together, batch: objective.step_batch(together, self._tables, batch, lr))
        total = np.sum([self._walk(*self.draw(helping), lr) for helping in range(self._sampler.helpings)], axis=0)
        return self.mean_loss(*total)

    def _walk(self, drawn: list[Triples], number: int, lr: float) -> NDArray[np.float64]:
        """Steps along these triples; returns the sum of the recorded losses and their number."""
        objective = self._objective
        pieces = -(-objective.meetings // self._threads)  # of each turn
        total = np.zeros(2)
        with crew(self._threads) as together:
            # each thread meets each item block once; no row is shared
            for turn, piece in product(range(self._threads), range(pieces)):

                def step(part: int, turn: int = turn, piece: int = piece) -> tuple[float, int]:
                    order = drawn[part].block((part + turn) % self._threads)
                    order = order[len(order) * piece // pieces : len(order) * (piece + 1) // pieces]
                    return objective.step(part, self._tables, drawn[part], order, lr)

                total += np.sum(together(step), axis=0)
                objective.after_steps(self._tables, number / (pieces * self._threads), lr)
        return total

    def model(self, copy: bool = True) -> Model:
        return self._objective.model(self._tables, self._triples, self._recorded, copy)


def begin_torch(start: Start) -> Trainable:
    from counterpop.training.device.trainees import DeviceTables

    return DeviceTables(start)


MF = Backbone(
    "mf",
    "MF",
    {"dim": 128, "epochs": 250, "lr": 0.2, "reg": 1e-3, "layers": 0, "batch": 4096},
    native=MatrixFactorisation,
    torch=begin_torch,
)
