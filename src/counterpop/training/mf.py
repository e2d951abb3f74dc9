"""Matrix factorisation on the CPU: two tables of vectors, one SGD step for each triple."""

from __future__ import annotations

from itertools import product

import numpy as np

from counterpop.directions import find_directions
from counterpop.interactions import BoolArray, IntArray, Interactions
from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import crew
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.objectives import OBJECTIVES, Objective
from counterpop.training.sampling import sampler_of, thread_count
from counterpop.training.settings import INITIAL_STREAM, Settings
from counterpop.tuning import Grid, search_strengths

WINDOW = 1 << 15  # triples: few enough that their users' vectors stay in the cache, which is half the time


class MatrixFactorisation:
    """The tables of a model in training. `epoch` moves them on, `model` copies them out.

    Memory: (U + I) x D floats, five times that with a ledger, as much again for the best model so far, and 16
    bytes for each triple of an epoch.
    Limit: knows a user or item only by its own interactions, so one with few of them stays near its random
    beginning.
    """

    def __init__(self, train: Interactions, settings: Settings, intervened: BoolArray | None = None) -> None:
        self._train, self._settings = train, settings
        self._threads = thread_count(train, settings)
        values = np.random.default_rng([settings.seed, INITIAL_STREAM])
        scale = np.float32(settings.initial_scale)
        self._objective = OBJECTIVES.get(settings.method, Objective)(train, settings, self._threads)
        copies = self._objective.copies  # of the items: they begin alike
        self._users, self._items = (aligned((n, settings.dim)) for n in (train.n_users, copies * train.n_items))
        self._users[:] = values.standard_normal(self._users.shape, dtype=np.float32) * scale
        first = values.standard_normal((train.n_items, settings.dim), dtype=np.float32) * scale
        self._items[:] = np.tile(first, (copies, 1))
        treated = intervened if settings.method == "cause" else None
        self._sampler = sampler_of(train, settings, self._threads, treated, WINDOW)
        self._triples, self._recorded, self._epochs = 0, 0, 0

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the triples that were recorded."""
        objective = self._objective
        drawn = self._sampler.epoch(**objective.sampling(self._epochs))
        number = sum(int(triples.block_starts[-1]) for triples in drawn)
        pieces = -(-objective.synchronisations // self._threads)  # of each turn
        total = np.zeros(2)
        with crew(self._threads) as together:
            # each thread meets each item block once; nobody shares a row
            for turn, piece in product(range(self._threads), range(pieces)):

                def step(part: int, turn: int = turn, piece: int = piece) -> tuple[float, int]:
                    order = drawn[part].block((part + turn) % self._threads)
                    order = order[len(order) * piece // pieces : len(order) * (piece + 1) // pieces]
                    return objective.step(part, self._users, self._items, drawn[part], order, lr)

                total += np.sum(together(step), axis=0)
                objective.after_steps(self._users, self._items, number / (pieces * self._threads), lr)
        self._epochs += 1
        self._triples += number
        self._recorded += int(total[1])
        return float(total[0] / max(1.0, total[1]))

    def look(self, known: Development, users: IntArray, item_strengths: Strengths, user_strengths: Strengths) -> Grid:
        """How the model does on validation, at every pair of strengths."""
        return look_at(self.model(copy=False), known, users, item_strengths, user_strengths, self._settings)

    def model(self, copy: bool = True) -> Model:
        """The vectors as they are now and the ledger so far; without a copy they move on with training."""
        return self._objective.model(self._users, self._items, self._triples, self._recorded, copy)


def look_at(
    model: Model,
    known: Development,
    users: IntArray,
    item_strengths: Strengths,
    user_strengths: Strengths,
    settings: Settings,
) -> Grid:
    """How a model does on the validation part of these users, at every pair of strengths."""
    return search_strengths(
        model.embeddings,
        find_directions(model, known.train),
        known.train,
        known.valid,
        item_strengths=item_strengths,
        user_strengths=user_strengths,
        exposure=False,
        users=users,
        threads=settings.threads,
    )
