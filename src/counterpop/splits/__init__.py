"""Train, validation and test: random, by time, uniform over items, intervened, a mix, as given, or from separate logs.

Every protocol is deterministic given its `seed`, and puts each pair of the log in exactly one part (`split_mixed`
leaves some out, and counts them). Protocols whose test part is not drawn like the log also hold out a small ordinary
part that is: `ordinary=0` switches it off. Tuning gets only `Split.development`, from which the test part cannot be
reached.
"""

from counterpop.splits.drawing import Carve, draw_by_item
from counterpop.splits.logs import split_from_logs
from counterpop.splits.protocols import (
    PROTOCOLS,
    split_as_given,
    split_intervened,
    split_mixed,
    split_random,
    split_temporal,
    split_uniform,
)
from counterpop.splits.values import LATER, Development, Split, SplitManifest

__all__ = ["LATER", "PROTOCOLS", "Carve", "Development", "Split", "SplitManifest", "draw_by_item"]
__all__ += [
    "split_as_given",
    "split_from_logs",
    "split_intervened",
    "split_mixed",
    "split_random",
    "split_temporal",
    "split_uniform",
]
