"""Strengths: the whole grid in one pass, the points of its frontier, and the choice among them."""

from counterpop.runs import STRENGTHS
from counterpop.tuning.choosing import Tuned, TuneSettings, tune
from counterpop.tuning.proof import Proof, Which
from counterpop.tuning.search import (
    EXPOSURE_BYTES,
    LOWER_IS_BETTER,
    Grid,
    Target,
    Tradeoff,
    choose_strengths,
    efficient,
    search_strengths,
    trace_frontier,
)

__all__ = ["EXPOSURE_BYTES", "LOWER_IS_BETTER", "STRENGTHS", "Grid", "Proof", "Target", "Tradeoff", "TuneSettings"]
__all__ += ["Tuned", "Which", "choose_strengths", "efficient", "search_strengths", "trace_frontier", "tune"]
