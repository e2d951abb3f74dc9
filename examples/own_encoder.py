"""Train your own encoder: a small two-tower net that sees items only through their features.

    pip install 'counterpop[torch]'
    python examples/own_encoder.py

Any torch module works that takes no arguments and returns (user vectors, item vectors), with a row for each user and
item of the split, in its order. The ledger records the gradients of its output, so directions, tuning and everything
after them work as for the built-in models.
"""

from __future__ import annotations

import numpy as np
import torch

import counterpop as cp

DIM = 16


class TwoTowers(torch.nn.Module):
    """A vector for each user, and a net from an item's features to its vector."""

    def __init__(self, n_users: int, features: np.ndarray) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(n_users, DIM)
        self.items = torch.nn.Sequential(
            torch.nn.Linear(features.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, DIM)
        )
        self.register_buffer("features", torch.from_numpy(features.astype(np.float32)))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.users.weight, self.items(self.features)


def main(n_users: int = 1500, n_items: int = 400, epochs: int = 20) -> tuple[float, float]:
    """Trains the net on a made-up world and prints test recall, plain and adjusted; returns both."""
    world = cp.make_world(n_users, n_items, mean_activity=20)
    split = cp.split_uniform(world.log, test=5, valid=5)
    # what a shop knows about its items: their kind, with some noise, and how much they are advertised
    draw = np.random.default_rng(0)
    noise = draw.normal(scale=0.2, size=world.item_taste.shape)
    features = np.column_stack([world.item_taste + noise, np.log1p(split.train.item_counts)])

    torch.manual_seed(0)
    towers = TwoTowers(n_users, features)
    run = cp.train(split, encoder=towers, epochs=epochs, lr=0.01, check_every=5, refit=False)  # quick
    best = cp.tune(run, split, point="gain")  # the most gain; by default, only with proof
    result = cp.evaluate(best, split, on="test")
    plain, adjusted = result.plain.recall, result.adjusted.recall
    print(
        f"two towers: recall {plain:.3f} plain, {adjusted:.3f} at strengths {best.item_strength}, {best.user_strength}"
    )
    return plain, adjusted


if __name__ == "__main__":
    main()
