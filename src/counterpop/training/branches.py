"""MACR's branches: how easily users and items click, and the vectors that rank with them."""

from __future__ import annotations

import numpy as np

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.runs import Dials, Model
from counterpop.training.settings import METHOD_STREAM, Settings

SCALE_USERS = 512  # that the size of scores is measured on


def first_branches(settings: Settings) -> FloatArray:
    """(2, D) MACR's two shared vectors at their beginning."""
    values = np.random.default_rng([settings.seed, METHOD_STREAM])
    drawn = values.standard_normal((2, settings.dim), dtype=np.float32)
    return drawn * np.float32(settings.initial_scale)


def with_branch(vectors: Embeddings, w_item: FloatArray) -> Model:
    """MACR's vectors so that their inner product ranks like (s - c) z_i, c being the user strength.

    Users are [P, 1, 0] and items [z Q, 0, 2 m z], m the mean best score. The dial is the unit vector
    (0, ..., 1, 1)/sqrt(2): at user strength b the last two numbers of a user become 1 - b/2 and -b/2, and the
    score z (s - b m).
    """
    users, items = vectors.user_vectors, vectors.item_vectors
    with np.errstate(over="ignore"):
        z = 1 / (1 + np.exp(-(items @ w_item)))[:, None]
    some = users[:: -(-len(users) // SCALE_USERS)]
    size = np.abs((some @ items.T).max(axis=1)).mean()
    one, none = np.ones((len(users), 1), np.float32), np.zeros((len(users), 1), np.float32)
    wide = Embeddings(
        np.hstack([users, one, none]),
        np.hstack([z * items, np.zeros_like(z), 2 * size * z]).astype(np.float32),
        vectors.user_ids,
        vectors.item_ids,
    )
    dial = np.zeros(wide.dim, np.float32)
    dial[-2:] = np.sqrt(0.5)
    return Model(wide, dials=Dials(user_strengths=tuple(round(0.1 * n, 1) for n in range(26)), user_direction=dial))
