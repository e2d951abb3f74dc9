"""Training with torch, with everything resident on the device; needs neither numba nor polars."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from counterpop.errors import InputError
from counterpop.training.settings import Settings


def find_device(settings: Settings) -> torch.device:
    """The device of the settings; raises `InputError` if it is not there."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU here; use --device cpu")
    return torch.device(settings.device)


def has_kernels(device: torch.device) -> bool:
    """Whether Triton kernels can run: on a GPU with Triton installed (torch for Windows comes without it)."""
    return device.type == "cuda" and find_spec("triton") is not None
