"""A vector for whoever has only a history: from the vectors of what it holds, which stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, Interactions

FOLD_IN_REG = 4.0  # for users of a trained model; chosen on validation, see docs/serving.md


def ridge(vectors: FloatArray, times: float = FOLD_IN_REG) -> float:
    """The reg for `fold_in`: this many times the mean squared length of the vectors."""
    return times * float(np.mean(np.einsum("id,id->i", vectors, vectors))) or 1.0


def fold_in(
    vectors: FloatArray,
    histories: Sequence[NDArray[np.integer]],
    reg: float,
    others: float = 0.0,
    gram: NDArray[np.floating] | None = None,
) -> FloatArray:
    """(B, D) a vector for each history: least squares with a score of 1 for its rows of `vectors`, V.

    u = (others V^T V + (1 - others) H^T H + reg I)^-1 H^T 1, with H the rows in the history. `others` is the weight
    of all rows, whose score should be 0, against those in the history: 0 is ridge regression on the history, close to
    its mean but counting only once what its rows have in common; 1/c is ALS with confidence c. An empty history gives
    zeros. `gram` is V^T V if `vectors` are only some of the rows.
    """
    dim = vectors.shape[1]
    system, inverse = reg * np.eye(dim), np.eye(dim) / reg
    if others:
        system += others * (vectors.T @ vectors if gram is None else gram).astype(np.float64)
        inverse = np.asarray(np.linalg.inv(system), dtype=np.float64)
    folded = np.empty((len(histories), dim), dtype=np.float32)
    for n, rows in enumerate(histories):
        held = vectors[rows].astype(np.float64)
        if len(rows) < dim:  # (S + c H^T H)^-1 H^T 1 = S^-1 H^T (I + c H S^-1 H^T)^-1 1: a smaller system
            spread = held @ inverse
            small = np.eye(len(rows)) + (1 - others) * (spread @ held.T)
            folded[n] = np.linalg.solve(small, np.ones(len(rows))) @ spread
        else:
            folded[n] = np.linalg.solve(system + (1 - others) * (held.T @ held), held.sum(axis=0))
    return folded


def histories_of(log: Interactions, users: IntArray) -> list[IntArray]:
    """The items of each of these users."""
    starts = log.user_starts
    return [log.item_ix[starts[user] : starts[user + 1]] for user in users]


def transposed(log: Interactions) -> Interactions:
    """The log with users and items exchanged."""
    order = np.lexsort((log.user_ix, log.item_ix))
    return Interactions(log.item_ix[order], log.user_ix[order], log.item_ids, log.user_ids)
