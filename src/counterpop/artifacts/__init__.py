"""Folders of splits, runs and adjustments, and what `counterpop` commands read from them."""

from counterpop.artifacts.adjustments import load_adjustment, load_with_origin, save_adjustment
from counterpop.artifacts.folder import FORMAT, MANIFEST, check_target, claimed
from counterpop.artifacts.runs import (
    SavedRun,
    audit_run,
    begin_run,
    is_interrupted,
    load,
    load_run,
    load_tested,
    save_run,
    save_tuning,
)
from counterpop.artifacts.splits import load_development, load_split, save_split

__all__ = [
    "FORMAT",
    "MANIFEST",
    "SavedRun",
    "audit_run",
    "begin_run",
    "check_target",
    "claimed",
    "load",
    "load_adjustment",
]
__all__ += ["is_interrupted", "load_development", "load_run", "load_split", "load_tested", "load_with_origin"]
__all__ += ["save_adjustment", "save_run", "save_split", "save_tuning"]
