"""The backbones: one file and one line each."""

from __future__ import annotations

from counterpop.errors import InputError
from counterpop.training.backbones.contract import Backbone
from counterpop.training.backbones.encoder import ENCODER
from counterpop.training.backbones.lightgcn import LIGHTGCN
from counterpop.training.backbones.mf import MF

BACKBONES: tuple[Backbone, ...] = (MF, LIGHTGCN, ENCODER)

__all__ = ["BACKBONES", "ENCODER", "Backbone", "find_backbone"]


def find_backbone(name: str) -> Backbone:
    """The backbone of this name."""
    for backbone in BACKBONES:
        if backbone.name == name:
            return backbone
    raise InputError(f"backbone must be one of {', '.join(b.name for b in BACKBONES)}, got {name!r}")
