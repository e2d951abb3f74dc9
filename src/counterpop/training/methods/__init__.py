"""The methods: one folder and one line each. docs/methods.md says how to add one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from counterpop.errors import InputError
from counterpop.training.methods.cause import CausE
from counterpop.training.methods.contract import Contrast, Method
from counterpop.training.methods.dice import DICE
from counterpop.training.methods.gradient import Gradient
from counterpop.training.methods.ips import IPS
from counterpop.training.methods.macr import MACR
from counterpop.training.methods.paac import PAAC
from counterpop.training.methods.plain import Plain
from counterpop.training.methods.simgcl import SimGCL

METHODS: tuple[type[Method], ...] = (Plain, Gradient, IPS, CausE, DICE, MACR, SimGCL, PAAC)

__all__ = ["DICE", "IPS", "MACR", "METHODS", "PAAC", "CausE", "Contrast", "Gradient", "Method", "Plain"]
__all__ += ["SimGCL", "as_method", "find_method", "make_method"]


def find_method(name: str) -> type[Method]:
    """The built-in method of this name."""
    for method in METHODS:
        if method.name == name:
            return method
    raise InputError(
        f"method must be one of {', '.join(m.name for m in METHODS)}, or a value of your own, got {name!r}"
    )


def as_method(given: object, backbone: str) -> Method:
    """The method itself, or the built-in one of this name with the options that suit the backbone."""
    if isinstance(given, Method):
        return given
    if isinstance(given, str):
        return find_method(given).default_for(backbone)
    raise InputError(f"method must be a name or a Method value, got {given!r}")


def make_method(name: str, given: dict[str, Any]) -> Method:
    """The built-in method with these options; an unknown one raises `InputError` and names those there are."""
    kind = find_method(name)
    known = [field.name for field in fields(kind)]
    unknown = [option for option in given if option not in known]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an option of {name}; it has {', '.join(known) or 'none'}")
    return kind(**given)
