"""Small data that many tests share: a made-up world, its split, and vectors without meaning."""

from __future__ import annotations

import numpy as np
import pytest

from counterpop.embeddings import Embeddings
from counterpop.interactions import Interactions
from counterpop.splits import Split, split_uniform
from counterpop.worlds import World, make_world


def make_log(pairs: object, n_users: int, n_items: int) -> Interactions:
    """A log of (user, item) positions; ids are 100, 101, ... and 500, 501, ..."""
    rows = np.unique(np.asarray(pairs, dtype=np.int32).reshape(-1, 2), axis=0)
    return Interactions(rows[:, 0], rows[:, 1], np.arange(100, 100 + n_users), np.arange(500, 500 + n_items))


def random_log(n_users: int, n_items: int, chance: float | np.ndarray, seed: int = 0) -> Interactions:
    """A log that holds each pair with this chance (one for all, or one for each item)."""
    drawn = np.random.default_rng(seed).random((n_users, n_items)) < chance
    return make_log(np.argwhere(drawn), n_users, n_items)


def vectors_for(log: Interactions, dim: int = 6, seed: int = 0) -> Embeddings:
    """Normal vectors, shifted by one common vector so that directions have something to find."""
    draw = np.random.default_rng(seed)
    users = draw.normal(size=(log.n_users, dim)) + draw.normal(size=dim)
    items = draw.normal(size=(log.n_items, dim)) + draw.normal(size=dim)
    return Embeddings(users.astype(np.float32), items.astype(np.float32), log.user_ids, log.item_ids)


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(300, 150, mean_activity=20)


@pytest.fixture(scope="session")
def split(world: World) -> Split:
    return split_uniform(world.log, test=3, valid=3, ordinary=0.05)
