"""Strengths: the whole grid in one pass, the points of its frontier, and the choice among them."""

from counterpop.runs import STRENGTHS
from counterpop.tuning.choosing import (
    PRICE,
    PointOptions,
    PointSettings,
    Tuned,
    TuneOptions,
    TuneSettings,
    refine,
    tune,
    warn_of,
)
from counterpop.tuning.proof import (
    EVERYBODY,
    FOLDS,
    WHICH,
    Folded,
    Frontier,
    Proof,
    Which,
    deal_folds,
    explain_choice,
    prove_point,
)
from counterpop.tuning.search import (
    EXPOSURE_BYTES,
    LOWER_IS_BETTER,
    Grid,
    GridOptions,
    Target,
    Tradeoff,
    choose_strengths,
    efficient,
    search_strengths,
    trace_frontier,
)

__all__ = [
    "EVERYBODY",
    "EXPOSURE_BYTES",
    "FOLDS",
    "LOWER_IS_BETTER",
    "PRICE",
    "STRENGTHS",
    "WHICH",
    "Folded",
    "Frontier",
]
__all__ += [
    "Grid",
    "GridOptions",
    "PointOptions",
    "PointSettings",
    "Proof",
    "Target",
    "Tradeoff",
    "TuneOptions",
    "TuneSettings",
    "Tuned",
    "Which",
]
__all__ += ["choose_strengths", "deal_folds", "efficient", "explain_choice", "prove_point", "refine"]
__all__ += ["search_strengths", "trace_frontier", "tune", "warn_of"]
