"""The bias of a model, or of any lists of recommendations, compared with the log they were made from."""

from counterpop.auditing.definitions import CLASSES, DEFINITIONS, GROUP_RULE, NOTES, SEGMENT_RULE, SEGMENTS, Definition
from counterpop.auditing.measures import audit, audit_model
from counterpop.auditing.verdict import Audit, Verdict

__all__ = ["CLASSES", "DEFINITIONS", "GROUP_RULE", "NOTES", "SEGMENTS", "SEGMENT_RULE"]
__all__ += ["Audit", "Definition", "Verdict", "audit", "audit_model"]
