"""Training with torch, with everything resident on the device; needs neither numba nor polars."""

from __future__ import annotations

import torch

from counterpop.errors import InputError
from counterpop.training.settings import Settings


def find_device(settings: Settings) -> torch.device:
    """The device of the settings; raises `InputError` if it is not there."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU here; use --device cpu")
    return torch.device(settings.device)
