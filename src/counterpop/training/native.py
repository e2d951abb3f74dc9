"""The interface between a method and the CPU kernels: one kernel steps along triples, or adds up their gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.drawing import Triples
from counterpop.runs import Model, Strengths
from counterpop.splits import Development
from counterpop.training.settings import Settings
from counterpop.tuning import Grid, search_strengths

Together = Callable[[Callable[[int], Any]], list[Any]]  # see `crew`
Recorded = tuple[float, int]  # the sum of the recorded losses, and their number


class Tables(NamedTuple):
    """Vectors of users (U, D) and items (I, D), or what is added up for each of them. Kernels take it as it is."""

    users: FloatArray
    items: FloatArray


class Objective:
    """A method's mathematics for one run, and the few parameters that belong to no row.

    The backbone owns tables, threads and the order of steps. A thread owns its users and the items of its block:
    kernels must touch no other rows.
    """

    by_batch = False
    """Whether it steps along whole batches, by `step_batch`, or along each triple."""
    meetings = 1
    """How often an epoch of MF pauses at least, with no thread running, to call `after_steps`."""
    scratch: tuple[str, ...] = ()
    """Attributes that no epoch hands to the next. All other arrays, numbers and generators go into checkpoints."""

    def __init__(self, train: Interactions, settings: Settings, threads: int) -> None:
        self._train, self._settings, self._threads = train, settings, threads
        self._reg, self._bce = np.float32(settings.reg), settings.loss == "bce"

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, counted from 0."""

    def step(
        self, part: int, tables: Tables, triples: Triples, order: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        """One SGD step for each triple in this order, in thread `part`.

        With `into`, the tables stay as they are and the steps are added up there: at lr -1 that is the gradient.
        """
        raise NotImplementedError

    def step_batch(
        self, together: Together, tables: Tables, batch: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        """One step for a whole batch of triples (3, B), for a loss whose triples share their negatives.

        `into` as in `step`; BLAS has no threads of its own meanwhile.
        """
        raise NotImplementedError

    def after_steps(self, tables: Tables, triples: float, lr: float) -> None:
        """Called after about this many triples of MF, when no thread is running."""

    def after_gradient(self, tables: Tables, gradient: Tables, triples: float, lr: float, step: int) -> None:
        """Called when the gradient of a batch of about this many triples is complete."""

    def model(self, tables: Tables, triples: int, recorded: int, copy: bool) -> Model:
        """The model that ranks; without `copy` it may change as training goes on."""
        return Model(self._embeddings(tables, copy), dials=self._settings.method.dials)

    def _embeddings(self, tables: Tables, copy: bool) -> Embeddings:
        take = np.array if copy else np.asarray
        ids = self._train.user_ids, self._train.item_ids
        return Embeddings(take(tables.users[: len(ids[0])]), take(tables.items[: len(ids[1])]), *ids)


def look_at(
    model: Model, known: Development, users: IntArray, strengths: tuple[Strengths, Strengths], threads: int | None
) -> Grid:
    """A model's metrics on the validation part of these users, at every pair of item and user strengths."""
    case = model.embeddings, find_directions(model, known.train), known.train, known.valid
    stops: dict[str, Any] = {"item_strengths": strengths[0], "user_strengths": strengths[1]}
    return search_strengths(*case, **stops, exposure=False, users=users, threads=threads)
