"""Builders that many tests share: small logs, and vectors that go with them."""

from __future__ import annotations

import numpy as np

from counterpop.embeddings import Embeddings
from counterpop.interactions import Interactions


def make_log(pairs: object, n_users: int, n_items: int) -> Interactions:
    """A log of (user, item) positions; ids are 100, 101, ... and 500, 501, ..."""
    rows = np.unique(np.asarray(pairs, dtype=np.int32).reshape(-1, 2), axis=0)
    return Interactions(rows[:, 0], rows[:, 1], np.arange(100, 100 + n_users), np.arange(500, 500 + n_items))


def random_log(n_users: int, n_items: int, chance: float | np.ndarray, seed: int = 0) -> Interactions:
    """A log that holds each pair with this probability (one for all, or one per item)."""
    drawn = np.random.default_rng(seed).random((n_users, n_items)) < chance
    return make_log(np.argwhere(drawn), n_users, n_items)


def vectors_for(log: Interactions, dim: int = 6, seed: int = 0) -> Embeddings:
    """Normal vectors, shifted by one common vector so that directions have something to find."""
    draw = np.random.default_rng(seed)
    users = draw.normal(size=(log.n_users, dim)) + draw.normal(size=dim)
    items = draw.normal(size=(log.n_items, dim)) + draw.normal(size=dim)
    return Embeddings(users.astype(np.float32), items.astype(np.float32), log.user_ids, log.item_ids)


def train_als(log: Interactions, dim: int = 12, reg: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """ALS with confidence 1 in plain NumPy: (V^T V + reg I)^-1 V^T R, ten times for each side."""
    seen = np.zeros((log.n_users, log.n_items))
    seen[log.user_ix, log.item_ix] = 1
    items = np.random.default_rng(0).normal(size=(log.n_items, dim)) * 0.01
    for _ in range(10):
        users = np.linalg.solve(items.T @ items + reg * np.eye(dim), items.T @ seen.T).T
        items = np.linalg.solve(users.T @ users + reg * np.eye(dim), users.T @ seen).T
    users = np.linalg.solve(items.T @ items + reg * np.eye(dim), items.T @ seen.T).T
    return users.astype(np.float32), items.astype(np.float32)
