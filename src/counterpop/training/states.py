"""The state of an object in training as named arrays: what it takes to go on with the same bits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = dict[str, NDArray[Any]]


def capture(owner: object, names: Iterable[str]) -> State:
    """Copies of the arrays, numbers and generators among these attributes, and of arrays in tuples and lists."""
    state: State = {}
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, np.ndarray):
            state[name] = np.array(value)
        elif isinstance(value, np.random.Generator):
            state[name] = np.frombuffer(json.dumps(value.bit_generator.state).encode(), dtype=np.uint8)
        elif isinstance(value, int | float | np.number):
            state[name] = np.array(value)
        elif isinstance(value, tuple | list) and all(isinstance(one, np.ndarray) for one in value):
            state |= {f"{name}.{n}": np.array(one) for n, one in enumerate(value)}
    return state


def restore(owner: object, names: Iterable[str], state: State) -> None:
    """Sets what `capture` copied; arrays are filled in place."""
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, np.ndarray):
            value[...] = state[name]
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = json.loads(state[name].tobytes())
        elif isinstance(value, int | float | np.number):
            setattr(owner, name, type(value)(state[name].item()))
        elif isinstance(value, tuple | list) and all(isinstance(one, np.ndarray) for one in value):
            for n, one in enumerate(value):
                one[...] = state[f"{name}.{n}"]
