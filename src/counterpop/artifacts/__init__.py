"""Folders of splits, runs and adjustments, and what `counterpop` commands read from them."""

from counterpop.artifacts.adjustments import load_adjustment, load_with_manifest
from counterpop.artifacts.debiasings import SavedDebiasing, find_sources, save_adjustment
from counterpop.artifacts.documents import Subject, make_document, read_document, read_history, together
from counterpop.artifacts.folder import FORMAT, MANIFEST, check_target, claimed
from counterpop.artifacts.lists import Find, Written, lists_table, write_lists
from counterpop.artifacts.models import audit_saved, load, load_saved, load_tested
from counterpop.artifacts.records import make_record, read_statements
from counterpop.artifacts.runs import SavedRun, begin_run, is_interrupted, load_run, save_run, save_tuning
from counterpop.artifacts.saved import Saved
from counterpop.artifacts.schema import audit_schema
from counterpop.artifacts.seeds import begin_seeds, has_seeds, is_trained, seed_folders
from counterpop.artifacts.splits import load_development, load_split, save_split

__all__ = ["FORMAT", "MANIFEST", "Saved", "SavedDebiasing", "SavedRun", "audit_saved", "begin_run", "check_target"]
__all__ += ["Subject", "audit_schema", "make_document", "make_record", "read_document", "read_history"]
__all__ += ["claimed", "find_sources", "is_interrupted", "load", "load_adjustment", "load_saved", "load_tested"]
__all__ += ["load_development", "load_run", "load_split", "load_with_manifest", "read_statements", "together"]
__all__ += ["Find", "Written", "lists_table", "write_lists"]
__all__ += ["save_adjustment", "save_run", "save_split", "save_tuning"]
__all__ += ["begin_seeds", "has_seeds", "is_trained", "seed_folders"]
