"""Vectors and logs from different sources, matched by their ids."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Ids, Interactions, RowIds, as_ids, places, restrict
from counterpop.ledger import Ledger

ORDER_STREAM = 502
ORDER_PAIRS = 20_000
LEAST_PAIRS = 500  # fewer cannot show whether the rows are in order


def as_embeddings(
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    log: Interactions,
    user_ids: RowIds,
    item_ids: RowIds,
) -> Embeddings:
    """The vectors sorted by id; without ids, row n belongs to the n-th id of the log."""
    sides = []
    for what, vectors, ids, known in (
        ("user", user_vectors, user_ids, log.user_ids),
        ("item", item_vectors, item_ids, log.item_ids),
    ):
        matrix = np.asarray(vectors, dtype=np.float32)
        if ids is None and len(matrix) != len(known):
            raise InputError(
                f"without {what}_ids there must be one vector for each of the log's {len(known)} {what}s, in order, "
                f"got {len(matrix)}; pass {what}_ids"
            )
        own = _ids_of_rows(ids, known, what)
        if len(own) != len(matrix):
            raise InputError(f"each {what} vector needs an id, got {len(matrix)} vectors and {len(own)} ids")
        order = np.argsort(own, kind="stable")
        own = own[order]
        twice = np.flatnonzero(own[1:] == own[:-1])
        if len(twice):
            raise InputError(f"{what} ids must be unique, but {own[twice[:1]].tolist()[0]!r} occurs more than once")
        zero = len(matrix) - np.count_nonzero(matrix.any(axis=1))
        if zero:
            _warn(f"{zero} {what} vectors are all zero, so all their scores are 0")
        in_order = bool((order[1:] > order[:-1]).all())
        sides.append((matrix if in_order else matrix[order], own))
    (users, own_users), (items, own_items) = sides
    return Embeddings(users, items, own_users, own_items)


def sort_ledger(ledger: Ledger, log: Interactions, user_ids: RowIds, item_ids: RowIds) -> Ledger:
    """The ledger with its rows sorted by id, as `as_embeddings` sorts the vectors."""
    users = np.argsort(_ids_of_rows(user_ids, log.user_ids, "user"), kind="stable")
    items = np.argsort(_ids_of_rows(item_ids, log.item_ids, "item"), kind="stable")
    return replace(ledger, users=ledger.users[users], items=ledger.items[items])


def _ids_of_rows(ids: RowIds, known: Ids, what: str) -> Ids:
    return known if ids is None else as_ids(ids, known, what)


def in_order_of(log: Interactions, vectors: Embeddings, drop_unknown: bool) -> Interactions:
    """The log with the positions of the vectors.

    Ids without a vector raise `InputError`, or are left out with a warning if `drop_unknown`.
    """
    without = []
    for what, ids, known in (("user", log.user_ids, vectors.user_ids), ("item", log.item_ids, vectors.item_ids)):
        missing = ids[~places(ids, known, what)[1]].tolist()
        if len(missing) == len(ids):
            raise InputError(
                f"the log and the vectors must share {what} ids, but the log has ids such as {missing[0]!r} and the "
                f"vectors ids such as {known[:1].tolist()[0]!r}; pass {what}_ids (--{what}-ids)"
            )
        if missing and not drop_unknown:
            raise InputError(
                f"every {what} needs a vector, but {len(missing)} {what}s of the log have none "
                f"(first: {missing[0]!r}); pass drop_unknown=True (--drop-unknown) to leave them out"
            )
        without.append(f"{len(missing)} {what}s")
    kept = restrict(log, vectors.user_ids, vectors.item_ids)
    if len(kept) < len(log):
        _warn(f"left out {len(log) - len(kept)} of {len(log)} pairs: {' and '.join(without)} have no vector")
    if not len(kept):
        raise InputError("the log and the vectors must share ids, but no pair is left; pass the ids that the log uses")
    return kept


def check_fit(vectors: Embeddings, log: Interactions, seed: int) -> None:
    """Raises `InputError` if vectors and log do not belong together; warns of vectors without interactions.

    The number of rows cannot show that they are in the wrong order. What shows it is that users' own pairs score
    no higher than the same items do for other users. Logs of fewer than 500 pairs are too small for this check.
    """
    for what, counts in (("user", log.user_counts), ("item", log.item_counts)):
        unknown = int((counts == 0).sum())
        if unknown:
            effect = "are ignored" if what == "user" else "can be recommended, with a popularity of 0"
            _warn(f"{unknown} of {len(counts)} {what} vectors have no interaction in the log: they {effect}")
    generator = np.random.default_rng([seed, ORDER_STREAM])
    rows = generator.choice(len(log), min(ORDER_PAIRS, len(log)), replace=False)
    users, items = log.user_ix[rows], vectors.item_vectors[log.item_ix[rows]]
    own, other = ((vectors.user_vectors[ix] * items).sum(axis=1) for ix in (users, generator.permutation(users)))
    differ = own != other
    share = float((own[differ] > other[differ]).mean()) if differ.any() else 0.5
    if len(rows) >= LEAST_PAIRS and share < 0.5 + 1.5 / np.sqrt(len(rows)):  # three standard errors
        raise InputError(
            "vectors must belong to the rows of the log, but a user's own pairs score higher than the same items for "
            f"another user only {share:.0%} of the time, no more than by chance; check that each vector has the right "
            "id (--user-ids, --item-ids) and that the model was trained on this log"
        )


def _warn(text: str) -> None:
    warnings.warn(CounterpopWarning(text), stacklevel=4)  # at the call of `debias`
