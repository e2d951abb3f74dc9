"""An encoder of the user's own: any torch module that returns (user vectors, item vectors)."""

from __future__ import annotations

import copy

from counterpop.errors import InputError
from counterpop.training.backbones.contract import Backbone, Start, Trainable


def begin_torch(start: Start) -> Trainable:
    """A copy of the module, or of what the function builds, in training; the user's own stays as it is."""
    from torch.nn import Module

    from counterpop.training.device.trainees import DeviceEncoder

    own = copy.deepcopy(start.encoder)
    if not isinstance(own, Module) and callable(own):
        own = own(start.train)
    if not isinstance(own, Module):
        raise InputError(
            "encoder must be a torch module, or a function that builds one from the interactions; got "
            f"{type(own).__name__}"
        )
    return DeviceEncoder(own, start)


ENCODER = Backbone(
    "encoder",
    "own encoder",
    {"dim": 1, "epochs": 100, "lr": 1e-3, "reg": 1e-4, "layers": 0, "batch": 4096},  # dim comes from its output
    builtin=False,
    torch=begin_torch,
)
