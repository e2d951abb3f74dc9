"""Where training takes place, and the vectors it begins with."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training.settings import INITIAL_STREAM, Settings


def find_device(settings: Settings) -> torch.device:
    """The device that the settings name; says so where it is not there."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU here; take --device cpu")
    return torch.device(settings.device)


def initial_tables(
    train: Interactions, settings: Settings, device: torch.device, copies: int = 1
) -> tuple[Tensor, Tensor]:
    """The first values of user and item vectors: the same as on the CPU. Copies of the items begin alike."""
    values = np.random.default_rng([settings.seed, INITIAL_STREAM])
    scale = np.float32(settings.initial_scale)
    users, items = (
        torch.from_numpy(values.standard_normal((n, settings.dim), dtype=np.float32) * scale).to(device)
        for n in (train.n_users, train.n_items)
    )
    return users, items.repeat(copies, 1)
