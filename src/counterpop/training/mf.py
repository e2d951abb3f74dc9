"""Matrix factorisation on the CPU: two tables of vectors, one SGD step for each triple."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.mf import step_triples
from counterpop.kernels.threads import core_count, in_parallel
from counterpop.ledger import Ledger
from counterpop.runs import Model
from counterpop.splits import Development
from counterpop.training.sampling import TripleSampler
from counterpop.training.settings import INITIAL_STREAM, SAMPLING_STREAM, Settings
from counterpop.tuning import Grid, search_strengths

CACHE_LINE = 64  # bytes
WINDOW = 1 << 15  # triples: few enough that their users' vectors stay in the cache, which is half the time
LEAST_BLOCK = 16  # items in a block, at least


class MatrixFactorisation:
    """The tables of a model in training. `epoch` moves them on, `model` copies them out.

    Memory: (U + I) x D floats, five times that with a ledger, as much again for the best model so far, and 16
    bytes for each triple of an epoch.
    Limit: knows a user or item only by its own interactions, so one with few of them stays near its random
    beginning.
    """

    def __init__(self, train: Interactions, settings: Settings) -> None:
        self._train, self._settings = train, settings
        threads = settings.threads or core_count()
        # small blocks of items would leave busy users without a negative in theirs
        self._threads = min(threads, max(1, train.n_items // LEAST_BLOCK), train.n_users)
        values = np.random.default_rng([settings.seed, INITIAL_STREAM])
        scale = np.float32(settings.initial_scale)
        self._users, self._items = (aligned((n, settings.dim)) for n in (train.n_users, train.n_items))
        for table in (self._users, self._items):
            table[:] = values.standard_normal(table.shape, dtype=np.float32) * scale
        self._sampler = TripleSampler(
            train,
            sampling=settings.sampling,
            negatives=settings.negatives,
            negative_power=settings.negative_power,
            threads=self._threads,
            generator=np.random.default_rng([settings.seed, SAMPLING_STREAM]),
            window=WINDOW,
        )
        rows = (train.n_items, train.n_users) if settings.keeps_ledger else (0, 0)
        self._item_ledger, self._user_ledger = (aligned((n, 4, settings.dim)) for n in rows)
        self._triples, self._recorded = 0, 0

    def epoch(self, lr: float) -> float:
        """Goes once through the data; returns the mean loss of the triples that were recorded."""
        settings, drawn = self._settings, self._sampler.epoch()
        total = np.zeros(2)
        for turn in range(self._threads):  # each thread meets each item block once; nobody shares a row

            def step(part: int, turn: int = turn) -> tuple[float, int]:
                triples = drawn[part]
                found: tuple[float, int] = step_triples(
                    self._users, self._items, triples.users, triples.items, triples.negatives,
                    triples.block((part + turn) % self._threads), np.float32(lr), np.float32(settings.reg),
                    settings.loss == "bce", settings.normalises,
                    self._item_ledger, self._user_ledger, settings.ledger_every,
                )  # fmt: skip
                return found

            total += np.sum(in_parallel(step, self._threads), axis=0)
        self._triples += sum(int(triples.block_starts[-1]) for triples in drawn)
        self._recorded += int(total[1])
        return float(total[0] / max(1.0, total[1]))

    def look(self, known: Development, users: IntArray, strengths: Sequence[float]) -> Grid:
        """How the model does on validation, at every pair of strengths."""
        return look_at(self.model(copy=False), known, users, strengths, self._settings)

    def model(self, copy: bool = True) -> Model:
        """The vectors as they are now and the ledger so far; without a copy they move on with training."""
        take = np.array if copy else np.asarray
        vectors = Embeddings(take(self._users), take(self._items), self._train.user_ids, self._train.item_ids)
        if not self._settings.keeps_ledger:
            return Model(vectors)
        scale = self._triples / max(1, self._recorded)
        ledger = take(self._item_ledger), take(self._user_ledger)
        return Model(vectors, Ledger(*ledger, self._settings.ledger_every, self._triples, scale))


def look_at(
    model: Model, known: Development, users: IntArray, strengths: Sequence[float], settings: Settings
) -> Grid:
    """How a model does on the validation part of these users, at every pair of strengths."""
    return search_strengths(
        model.embeddings, find_directions(model, known.train), known.train, known.valid,
        item_strengths=tuple(strengths), user_strengths=tuple(strengths),
        exposure=False, users=users, threads=settings.threads,
    )  # fmt: skip


def aligned(shape: tuple[int, ...]) -> FloatArray:
    """Zeros whose rows begin on a cache line where their length allows it: worth a tenth of an epoch or more.

    They are written, not only asked for: memory that is first touched within an epoch would slow it down.
    """
    size, line = math.prod(shape), CACHE_LINE // 4
    space = np.full(size + line, 0, dtype=np.float32)
    first = (-space.ctypes.data % CACHE_LINE) // 4
    return space[first : first + size].reshape(shape)
