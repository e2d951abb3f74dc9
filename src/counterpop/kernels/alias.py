"""Drawing from any law in constant time: Walker's alias table."""

import numpy as np
from numpy.typing import NDArray


def alias_table(law: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The chances and stand-ins of a law of weights, both as long as the law.

    Draw n uniformly, keep it with chance accept[n], else take alias[n]. What has weight 0 is never drawn.

    >>> alias_table(np.array([1.0, 3.0]))
    (array([0.5, 1. ]), array([1, 1], dtype=int32))
    """
    accept = law * (len(law) / law.sum()) if len(law) else law.copy()
    alias = np.arange(len(law), dtype=np.int32)
    small = np.flatnonzero(accept < 1).tolist()
    large = np.flatnonzero(accept >= 1).tolist()
    while small and large:
        poor, rich = small.pop(), large[-1]
        alias[poor] = rich
        accept[rich] -= 1 - accept[poor]
        if accept[rich] < 1:
            small.append(large.pop())
    accept[small + large] = 1  # what rounding left over
    return accept, alias
