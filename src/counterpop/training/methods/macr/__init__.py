"""MACR: model-agnostic counterfactual reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import Interactions
from counterpop.runs import FIXED, Dials, Model, Strengths
from counterpop.training.methods.contract import Method
from counterpop.training.methods.plain import SMALL_START

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.native import Objective
    from counterpop.training.settings import Settings

MEETINGS = 2  # times an epoch of MF that the copies of the shared vectors are averaged, at least
SCALE_USERS = 512  # users that the size of scores is measured on
FINE: Strengths = tuple(round(0.1 * n, 1) for n in range(26))  # of c
COARSE: Strengths = tuple(round(0.2 * n, 1) for n in range(11))


@dataclass(frozen=True)
class MACR(Method):
    """Model-agnostic counterfactual reasoning: a score is match x how easily its user clicks x its item is clicked.

    z_u = sg(w_user.P_u), z_i = sg(w_item.Q_i). Loss: BCE of s z_u z_i + item_weight x BCE of z_i + user_weight x BCE of
    z_u. Ranks by (s - c) z_u z_i. For one user z_u is the same everywhere, so that is an inner product of [P_u, -c] and
    [z_i Q_i, z_i]: the run holds such vectors, c is its user strength (times the mean best score, so that 1 is of
    the size of the scores), and `tune` chooses it on validation.
    Limit: one number per item and one c for all users; c is not learned, and a wrong c fills the lists with the least
    popular items.
    """

    name: ClassVar[str] = "macr"
    title: ClassVar[str] = "MACR"
    losses: ClassVar[tuple[str, ...]] = ("bce",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"lightgcn": {"lr": 0.01, "reg": 1e-4} | SMALL_START}
    any_encoder: ClassVar[bool] = False
    dials: ClassVar[Dials | None] = Dials(user_strengths=FINE)
    looks: ClassVar[tuple[Strengths, Strengths]] = (FIXED, COARSE)
    item_weight: float = 0.3
    """The paper has 1e-3 for both, and 1e-2 for items with LightGCN. Our steps need more (experiments/baselines.md);
    LightGCN takes .1 for both unless options are given."""
    user_weight: float = 0.3

    @classmethod
    def default_for(cls, backbone: str) -> MACR:
        return cls(0.1, 0.1) if backbone == "lightgcn" else cls()

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        if backbone == "lightgcn":
            weights = (0.03, 5e-3, 1e-5), (0.1, 5e-3, 1e-5), (0.3, 0.02, 3e-4), (0.1, 0.02, 3e-4)
            last = (0.01, 5e-3, 1e-5), (0.3, 0.01, 1e-4), (0.03, 0.01, 1e-4)
        else:
            weights = (0.1, 0.2, 1e-3), (0.1, 0.1, 1e-4), (0.3, 0.4, 1e-3), (0.03, 0.1, 1e-4)
            last = (0.3, 0.2, 3e-3), (1.0, 0.2, 1e-3), (0.03, 0.2, 1e-3)
        return {}, *({"method": cls(w, w), "lr": lr, "reg": reg} for w, lr, reg in (*weights, *last))

    def native(self, train: Interactions, settings: Settings, threads: int) -> Objective:
        from counterpop.training.methods.macr.native import MACRObjective

        return MACRObjective(train, settings, threads, self)

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        from counterpop.training.methods.macr.torch import MACRLoss

        return MACRLoss(train, settings, self)


def first_branches(settings: Settings) -> FloatArray:
    """(2, D) the first values of the two shared vectors, of users and of items."""
    drawn = settings.generator("method").standard_normal((2, settings.dim), dtype=np.float32)
    return drawn * np.float32(settings.initial_scale)


def with_branch(vectors: Embeddings, w_item: FloatArray) -> Model:
    """The model whose inner products rank like (s - c) z_i, with c as its user strength.

    Users are [P, 1, 0] and items [z Q, 0, 2 m z], m the mean best score. The dial is the unit vector
    (0, ..., 1, 1)/sqrt(2): at user strength b the last two numbers of a user become 1 - b/2 and -b/2, and the score
    z (s - b m).
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
    direction = np.zeros(wide.dim, np.float32)
    direction[-2:] = np.sqrt(0.5)
    return Model(wide, dials=Dials(FIXED, FINE, direction))
