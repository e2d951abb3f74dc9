"""What each method does with triples, on the CPU: a step of MF, the gradient of LightGCN, the final vectors.

`MatrixFactorisation` and `LightGCN` own tables, threads and the order of things; an objective owns the
mathematics (its kernels) and the few parameters that belong to no row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels import cause, dice, graph, macr, mf
from counterpop.kernels.memory import aligned
from counterpop.kernels.threads import without_blas_threads
from counterpop.ledger import Ledger
from counterpop.runs import Model
from counterpop.training.branches import first_branches, with_branch
from counterpop.training.discrepancy import distance_correlation
from counterpop.training.methods import DICE, IPS, MACR, CausE
from counterpop.training.sampling import Triples
from counterpop.training.settings import METHOD_STREAM, Settings

Found = tuple[float, int]  # the sum of the recorded losses, and their number

CORRELATIONS = 8  # an epoch of MF stops so often, at least, for DICE's dcor,
MEETINGS = 2  # and so often for the threads' copies of what MACR shares
DCOR_ROWS = 128  # users, and as many items, that a distance correlation is taken of
BRANCH_EVERY = 16  # one triple in so many moves the two vectors that MACR shares: they see millions
BRANCH_RATE = 1 / 16  # of the learning rate, for the same reason


class Objective:
    """Plain, gradient and IPS: BPR or BCE on inner products, with a ledger where one is kept."""

    synchronisations = 1
    copies = 1
    """Rows for each item."""

    def __init__(self, train: Interactions, settings: Settings, threads: int) -> None:
        self._train, self._settings, self._threads = train, settings, threads
        self._bce = settings.loss == "bce"
        options = settings.options
        self._weights = options.weights(train.item_counts) if isinstance(options, IPS) else np.empty(0, np.float32)
        rows = (train.n_items, train.n_users) if settings.keeps_ledger else (0, 0)
        self._item_ledger, self._user_ledger = (aligned((n, 4, settings.dim)) for n in rows)

    def sampling(self, epoch: int) -> dict[str, float]:
        """What the sampler must know of this epoch, counted from 0."""
        return {}

    def step(
        self, part: int, users: FloatArray, items: FloatArray, triples: Triples, order: IntArray, lr: float
    ) -> Found:
        """One SGD step for each triple, in thread `part`."""
        found: Found = mf.step_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(lr),
            np.float32(self._settings.reg),
            self._bce,
            self._settings.normalises,
            self._item_ledger,
            self._user_ledger,
            self._settings.ledger_every,
            self._weights,
        )
        return found

    def pull(
        self,
        part: int,
        users: FloatArray,
        items: FloatArray,
        triples: Triples,
        order: IntArray,
        at_users: FloatArray,
        at_items: FloatArray,
    ) -> Found:
        """Adds the gradient of the triples at the vectors, in thread `part`."""
        found: Found = graph.pull_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(self._settings.reg),
            self._bce,
            self._settings.normalises,
            at_users,
            at_items,
            self._item_ledger,
            self._user_ledger,
            self._settings.ledger_every,
            self._weights,
        )
        return found

    def after_steps(self, users: FloatArray, items: FloatArray, triples: float, lr: float) -> None:
        """What MF does after about so many triples, when no thread runs."""

    def after_pulls(
        self,
        users: FloatArray,
        items: FloatArray,
        at_users: FloatArray,
        at_items: FloatArray,
        triples: float,
        lr: float,
        step: int,
    ) -> None:
        """What LightGCN does once the gradient of a batch of triples is complete."""

    def model(self, users: FloatArray, items: FloatArray, triples: int, recorded: int, copy: bool) -> Model:
        """The model that ranks."""
        take = np.array if copy else np.asarray
        vectors = self._embeddings(take(users), take(items))
        if not self._settings.keeps_ledger:
            return Model(vectors)
        ledger = take(self._item_ledger), take(self._user_ledger)
        return Model(vectors, Ledger(*ledger, self._settings.ledger_every, triples, triples / max(1, recorded)))

    def _embeddings(self, users: FloatArray, items: FloatArray) -> Embeddings:
        return Embeddings(users, items, self._train.user_ids, self._train.item_ids)


class CausEObjective(Objective):
    """Items have a second row, and in LightGCN users as well: treatment after control."""

    copies = 2

    def __init__(self, train: Interactions, settings: Settings, threads: int) -> None:
        super().__init__(train, settings, threads)
        assert isinstance(settings.options, CausE)
        self._penalty = np.float32(settings.options.penalty)

    def step(
        self, part: int, users: FloatArray, items: FloatArray, triples: Triples, order: IntArray, lr: float
    ) -> Found:
        found: Found = cause.step_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(lr),
            np.float32(self._settings.reg),
            self._bce,
            self._penalty,
            self._settings.ledger_every,
        )
        return found

    def pull(
        self,
        part: int,
        users: FloatArray,
        items: FloatArray,
        triples: Triples,
        order: IntArray,
        at_users: FloatArray,
        at_items: FloatArray,
    ) -> Found:
        found: Found = cause.pull_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(self._settings.reg),
            self._bce,
            self._penalty,
            self._settings.ledger_every,
            at_users,
            at_items,
        )
        return found

    def _embeddings(self, users: FloatArray, items: FloatArray) -> Embeddings:
        return super()._embeddings(users[: self._train.n_users], items[: self._train.n_items])


class DICEObjective(Objective):
    """Weight and margin shrink with the epochs; the distance correlation is taken when no thread runs."""

    def __init__(self, train: Interactions, settings: Settings, threads: int) -> None:
        super().__init__(train, settings, threads)
        assert isinstance(settings.options, DICE)
        self._options = settings.options
        self._counts = train.item_counts
        self._weight = np.float32(self._options.weight)
        self._kind = {"l1": dice.L1, "l2": dice.L2, "dcor": dice.NONE}[self._options.discrepancy]
        self._dcor = self._options.discrepancy == "dcor" and self._options.penalty > 0
        self.synchronisations = CORRELATIONS if self._dcor else 1
        self._generator = np.random.default_rng([settings.seed, METHOD_STREAM])
        self._known = [np.flatnonzero(counts) for counts in (train.user_counts, train.item_counts)]

    def sampling(self, epoch: int) -> dict[str, float]:
        self._weight = np.float32(self._options.weight * self._options.decay**epoch)
        return {"margin": self._options.margin * self._options.decay**epoch, "pool": self._options.pool}

    def step(
        self, part: int, users: FloatArray, items: FloatArray, triples: Triples, order: IntArray, lr: float
    ) -> Found:
        found: Found = dice.step_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(lr),
            np.float32(self._settings.reg),
            self._counts,
            self._weight,
            self._kind,
            np.float32(self._options.penalty),
            self._settings.ledger_every,
        )
        return found

    def pull(
        self,
        part: int,
        users: FloatArray,
        items: FloatArray,
        triples: Triples,
        order: IntArray,
        at_users: FloatArray,
        at_items: FloatArray,
    ) -> Found:
        found: Found = dice.pull_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(self._settings.reg),
            self._counts,
            self._weight,
            self._kind,
            np.float32(self._options.penalty),
            self._settings.ledger_every,
            at_users,
            at_items,
        )
        return found

    def after_steps(self, users: FloatArray, items: FloatArray, triples: float, lr: float) -> None:
        if self._dcor:
            for table, rows, slope in self._correlation(users, items):
                table[rows] -= np.float32(lr * self._options.penalty * triples) * slope

    def after_pulls(
        self,
        users: FloatArray,
        items: FloatArray,
        at_users: FloatArray,
        at_items: FloatArray,
        triples: float,
        lr: float,
        step: int,
    ) -> None:
        if self._dcor:
            found = self._correlation(users, items)
            for gradient, (_, rows, slope) in zip((at_users, at_items), found, strict=True):
                gradient[rows] += np.float32(self._options.penalty * triples) * slope

    def _correlation(
        self, users: FloatArray, items: FloatArray
    ) -> list[tuple[FloatArray, NDArray[np.intp], FloatArray]]:
        """For users and items: the table, random rows of it, and the slope of their distance correlation."""
        found = []
        for table, known in zip((users, items), self._known, strict=True):
            rows = np.sort(self._generator.choice(known, min(DCOR_ROWS, len(known)), replace=False))
            x, y = np.split(table[rows], 2, axis=1)
            with without_blas_threads():
                found.append((table, rows, np.concatenate(distance_correlation(x, y)[1:], axis=1)))
        return found


class MACRObjective(Objective):
    """Two vectors that belong to no row: each thread moves its own copy, and the copies are averaged."""

    synchronisations = MEETINGS

    def __init__(self, train: Interactions, settings: Settings, threads: int) -> None:
        super().__init__(train, settings, threads)
        assert isinstance(settings.options, MACR)
        self._item_weight, self._user_weight = (
            np.float32(weight) for weight in (settings.options.item_weight, settings.options.user_weight)
        )
        self._branches = first_branches(settings)  # (2, D) of users, of items
        self._copies = np.stack([self._branches] * threads)
        self._gradient = np.zeros_like(self._copies)
        self._mean, self._square = np.zeros_like(self._branches), np.zeros_like(self._branches)

    def step(
        self, part: int, users: FloatArray, items: FloatArray, triples: Triples, order: IntArray, lr: float
    ) -> Found:
        w_user, w_item = self._copies[part]
        found: Found = macr.step_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(lr),
            np.float32(self._settings.reg),
            w_user,
            w_item,
            np.float32(BRANCH_RATE * lr),
            BRANCH_EVERY,
            self._item_weight,
            self._user_weight,
            self._settings.ledger_every,
        )
        return found

    def after_steps(self, users: FloatArray, items: FloatArray, triples: float, lr: float) -> None:
        self._branches = self._copies.mean(axis=0)
        self._copies[:] = self._branches

    def pull(
        self,
        part: int,
        users: FloatArray,
        items: FloatArray,
        triples: Triples,
        order: IntArray,
        at_users: FloatArray,
        at_items: FloatArray,
    ) -> Found:
        (w_user, w_item), (at_w_user, at_w_item) = self._branches, self._gradient[part]
        found: Found = macr.pull_triples(
            users,
            items,
            triples.users,
            triples.items,
            triples.negatives,
            order,
            np.float32(self._settings.reg),
            w_user,
            w_item,
            self._item_weight,
            self._user_weight,
            self._settings.ledger_every,
            at_users,
            at_items,
            at_w_user,
            at_w_item,
        )
        return found

    def after_pulls(
        self,
        users: FloatArray,
        items: FloatArray,
        at_users: FloatArray,
        at_items: FloatArray,
        triples: float,
        lr: float,
        step: int,
    ) -> None:
        gradient = self._gradient.sum(axis=0)
        graph.adam(self._branches, gradient, self._mean, self._square, lr, step)
        self._gradient[:] = 0

    def model(self, users: FloatArray, items: FloatArray, triples: int, recorded: int, copy: bool) -> Model:
        return with_branch(self._embeddings(users, items), self._branches[1])


OBJECTIVES: dict[str, type[Objective]] = {"cause": CausEObjective, "dice": DICEObjective, "macr": MACRObjective}
