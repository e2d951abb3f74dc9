"""Folders of splits, runs and adjustments, and what `counterpop` commands read from them."""

from counterpop.artifacts.adjustments import load_adjustment, origin_of, save_adjustment
from counterpop.artifacts.folder import FORMAT, MANIFEST, check_target
from counterpop.artifacts.runs import SavedRun, audit_run, load, load_run, save_run, save_tuning
from counterpop.artifacts.splits import load_development, load_split, save_split

__all__ = ["FORMAT", "MANIFEST", "SavedRun", "audit_run", "check_target", "load", "load_adjustment"]
__all__ += ["load_development", "load_run", "load_split", "origin_of"]
__all__ += ["save_adjustment", "save_run", "save_split", "save_tuning"]
