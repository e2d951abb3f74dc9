"""Settings, triples and methods that the tests of all engines share. Nothing here needs numba."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from builders import make_log
from counterpop.interactions import Interactions
from counterpop.runs import Model, Run
from counterpop.splits import Development, Split
from counterpop.training import Interrupted, train
from counterpop.training.backbones.contract import Start
from counterpop.training.methods import DICE, IPS, MACR, CausE
from counterpop.training.settings import Settings

LR = 0.05
LOSSES = "bpr", "bce"
VARIANTS = list(itertools.product(LOSSES, [True, False]))
SCORES: list[dict[str, Any]] = [
    *({"method": "gradient", "loss": loss, "normalised": normalised} for loss, normalised in VARIANTS),
    *({"method": IPS(0.5), "loss": loss, "ledger": True} for loss in LOSSES),
]
BASELINES: list[dict[str, Any]] = [
    *({"method": CausE(2.4), "loss": loss} for loss in LOSSES),
    *({"method": DICE(weight=0.5, discrepancy=kind, penalty=0.1)} for kind in ("l1", "l2")),
    {"method": DICE(weight=0.5, penalty=0.0)},
    {"method": MACR(item_weight=0.2, user_weight=0.1)},
]


def settings_for(device: str = "cpu", **given: Any) -> Settings:
    """Vectors long enough that a step is well above rounding; every triple is recorded."""
    usual = {"dim": 12, "initial_scale": 0.7, "reg": 0.02, "ledger_every": 1, "lr": LR, "engine": "torch"}
    return Settings(**usual | given, device=device)


def train_in_pieces(
    data: Split | Development, path: Path, often: int, **settings: Any
) -> tuple[Run, list[Interrupted]]:
    """The run of a training that is stopped again and again, after it asked this often whether to go on."""
    stops: list[Interrupted] = []
    while True:
        asked = itertools.count(1)
        more = {"checkpoint": path, "resume": True, "should_stop": lambda: next(asked) > often}  # noqa: B023
        try:
            return train(data, **settings, **more), stops
        except Interrupted as interrupted:
            stops.append(interrupted)


def start_of(log: Interactions, settings: Settings) -> Start:
    """What training starts from; every other row counts as drawn by intervention."""
    return Start(log, settings, np.arange(len(log)) % 2 == 0)


def triples_of(log: Interactions, settings: Settings, n: int, distinct: bool = False) -> np.ndarray:
    """(3, n) triples of the log; `distinct` keeps every user and item to one triple.

    For a method that needs intervened rows, every other triple is a treated one.
    """
    draw = np.random.default_rng(3)
    touched = {(int(u), int(i)) for u, i in zip(log.user_ix, log.item_ix, strict=True)}
    found: list[tuple[int, int, int]] = []
    used: set[tuple[str, int]] = set()
    for row in draw.permutation(len(log)):
        u, i = int(log.user_ix[row]), int(log.item_ix[row])
        j = int(draw.choice([j for j in range(log.n_items) if (u, j) not in touched]))
        rows = {("user", u), ("item", i), ("item", j)}
        if not (distinct and used & rows):
            used |= rows
            found.append((u, i, j))
    assert len(found) >= n
    triples = np.array(found[:n], dtype=np.int32).T.copy()
    if settings.method.needs_intervened:
        triples[1:, ::2] += log.n_items
    return triples


def known_answer(n_users: int = 60, n_items: int = 40) -> tuple[Development, Interactions]:
    """Even users like even items and odd users odd ones. Of each user's 20, 12 are train, 2 validation, 6 test.

    Every other row of train counts as drawn by intervention.
    """
    draw = np.random.default_rng(0)
    parts: list[list[tuple[int, int]]] = [[], [], []]
    for u in range(n_users):
        liked = draw.permutation(np.arange(u % 2, n_items, 2))
        for part, cut in zip(parts, (liked[:12], liked[12:14], liked[14:]), strict=True):
            part += [(u, i) for i in cut]
    fit, valid, test = (make_log(part, n_users, n_items) for part in parts)
    return Development(fit, valid, np.arange(len(fit)) % 2 == 0), test


def assert_same(first: Model, second: Model) -> None:
    """Vectors and ledgers agree to 1e-5; the ledger's sums relative to their size, or to 1e-6 of the largest."""
    for name in ("user_vectors", "item_vectors"):
        one, other = (getattr(model.embeddings, name) for model in (first, second))
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)
    assert (first.ledger is None) == (second.ledger is None)
    for name in ("users", "items") if first.ledger else ():
        one, other = (getattr(model.ledger, name) for model in (first, second))
        np.testing.assert_allclose(one, other, atol=max(1e-5, 1e-6 * np.abs(one).max()), rtol=1e-5)


def how_far(first: Model, second: Model) -> float:
    return float(np.abs(first.embeddings.user_vectors - second.embeddings.user_vectors).max())
