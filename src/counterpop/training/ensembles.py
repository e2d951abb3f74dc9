"""Several models as one: their scaled vectors side by side, whose inner product is the sum of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counterpop.directions import unit
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.ledger import Ledger
from counterpop.runs import Model

MEMBER_STREAM = 405
NEGLIGIBLE = 1e-12  # of the largest eigenvalue of a Gram matrix: directions in which float32 vectors hold only rounding

Matrix = NDArray[np.float64]


def member_seeds(seed: int, number: int) -> list[int]:
    """The seed itself for the first member, and seeds from a stream of its own for the others."""
    others = np.random.default_rng([seed, MEMBER_STREAM]).choice(2**31, number - 1, replace=False)
    return [seed, *others.tolist()]


def combine(models: Sequence[Model]) -> Model:
    """One model of width D x N, whose scores are the sum of the members' scores, each at a spread of 1.

    The spread of a member is the root of its scores' variance within a user, averaged over users. Ledgers and own
    directions are put side by side as well; all members have them, or none.
    """
    scales = [_spread(model) ** -0.5 for model in models]
    first = models[0]
    embeddings = replace(
        first.embeddings,
        user_vectors=_side_by_side([s * m.embeddings.user_vectors for s, m in zip(scales, models, strict=True)]),
        item_vectors=_side_by_side([s * m.embeddings.item_vectors for s, m in zip(scales, models, strict=True)]),
    )
    ledgers = [(scale, model.ledger) for scale, model in zip(scales, models, strict=True) if model.ledger]
    ledger = None
    if ledgers:  # of items, sums of user vectors, and of users, sums of item vectors: scaled as these are
        items, users = (
            _side_by_side([scale * one.scale * getattr(one, side) for scale, one in ledgers])
            for side in ("items", "users")
        )
        ledger = Ledger(items, users, ledgers[0][1].every, sum(one.triples for _, one in ledgers))
    dials, own = first.dials, [m.dials.user_direction for m in models if m.dials and m.dials.user_direction is not None]
    if dials and own:
        dials = replace(dials, user_direction=unit(np.concatenate(own).astype(np.float64), "conformity"))
    return Model(embeddings, ledger, dials)


def reduce_width(model: Model, dim: int) -> Model:
    """The model of width `dim` whose scores are closest to the given one's: the largest singular values of P Q^T.

    Found from the Gram matrices P^T P and Q^T Q, without the scores themselves. Exact up to rounding if `dim` is at
    least the rank of the scores; columns beyond the rank are zero. Distances are over all scores, so what is lost
    first is what few users and items share.
    """
    P, Q = model.embeddings.user_vectors, model.embeddings.item_vectors
    check_reduction(model, dim)
    (root_p, inverse_p), (root_q, inverse_q) = _roots(P), _roots(Q)
    left, values, right = np.linalg.svd(root_p @ root_q)
    share = np.sqrt(values[:dim])
    to_users = (inverse_p @ left[:, :dim] * share).astype(np.float32)
    to_items = (inverse_q @ right[:dim].T * share).astype(np.float32)
    embeddings = replace(model.embeddings, user_vectors=P @ to_users, item_vectors=Q @ to_items)
    ledger = model.ledger
    if ledger:
        ledger = replace(ledger, items=ledger.items @ to_users, users=ledger.users @ to_items)
    return replace(model, embeddings=embeddings, ledger=ledger)


def check_reduction(model: Model, dim: int, members: int = 1) -> None:
    """Raises `InputError` unless this many models such as this one can be reduced to a width of `dim`."""
    width = members * model.embeddings.dim
    if not isinstance(dim, int) or not 1 <= dim <= width:
        raise InputError(f"reduce must be a whole number from 1 to the width of the vectors, {width}, got {dim!r}")
    if model.dials and model.dials.user_direction is not None:
        raise InputError("a model with a direction of its own cannot be reduced; leave out reduce")


def _spread(model: Model) -> float:
    """The root mean variance of a user's scores: that of P_u.Q_i over items is P_u^T Cov(Q) P_u."""
    P, Q = (vectors.astype(np.float64) for vectors in (model.embeddings.user_vectors, model.embeddings.item_vectors))
    centred = Q - Q.mean(axis=0)
    variance = np.sum((P.T @ P) * (centred.T @ centred)) / (len(P) * len(Q))
    if not variance > 0:
        raise InputError("a member of the ensemble gives all items the same score; train it longer or lower reg")
    return float(np.sqrt(variance))


def _side_by_side(parts: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(parts, axis=-1, dtype=np.float32)


def _roots(vectors: FloatArray) -> tuple[Matrix, Matrix]:
    """The symmetric square root of V^T V and its pseudo-inverse, both (D, D)."""
    wide = vectors.astype(np.float64)
    values, directions = np.linalg.eigh(wide.T @ wide)
    root = np.sqrt(np.maximum(values, 0))
    known = values > NEGLIGIBLE * values[-1]
    inverse = np.divide(1, root, out=np.zeros_like(root), where=known)
    return directions * root @ directions.T, directions * inverse @ directions.T
