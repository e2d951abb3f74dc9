"""The softmax loss: the seen item against many negatives that a batch shares.

For a pair (u, i) and the batch's negatives j, each with a weight by how often it is drawn:

    x_i = s_ui / temperature - logq log e_i        x_j = s_uj / temperature + (1 - logq) log e_j - log d_j
    loss = -log(exp(x_i) / (exp(x_i) + sum over j of exp(x_j)))

s is the cosine, or the inner product if training does not normalise. e is the law of positives: an item's share of the
pairs as they are sampled. d is the law that negatives are drawn by: e for the batch's own items, popularity **
negative_power for drawn ones. Whatever the draw, negatives so stand for the law e ** (1 - logq): uniform at 1, by
popularity at 0, steeper still below 0. An item is no negative of its own pair.
"""

from __future__ import annotations

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.interactions import Interactions
from counterpop.training.settings import Settings


def log_weights(train: Interactions, settings: Settings) -> tuple[FloatArray, FloatArray]:
    """(I,) what is added to an item's score as a positive, and as a negative. Without pairs it counts as the rarest."""
    assert settings.logq is not None
    chances = np.ones(len(train))
    if settings.sampling == "users":  # every user has the same number of draws
        chances /= train.user_counts[train.user_ix]
    law = np.bincount(train.item_ix, chances, train.n_items)
    positives = np.log(np.maximum(law, law[law > 0].min()) / law.sum())
    drawn = positives
    if settings.shared_negatives:
        power = np.maximum(train.item_counts, 1.0) ** settings.negative_power
        drawn = np.log(power / power.sum())
    negatives = (1 - settings.logq) * positives - drawn
    return (-settings.logq * positives).astype(np.float32), negatives.astype(np.float32)
