"""The bias of a model, or of any lists of recommendations, compared with the log they were made from."""

from counterpop.auditing.definitions import CLASSES, DEFINITIONS, GROUP_RULE, NOTES, SEGMENT_RULE, SEGMENTS, Definition
from counterpop.auditing.grades import THRESHOLDS, Grade
from counterpop.auditing.intervals import Change, Interval, compare_audits
from counterpop.auditing.measures import audit, audit_model
from counterpop.auditing.result import Audit
from counterpop.auditing.rules import Outcome, Rule, check_rule, read_rule, to_junit
from counterpop.auditing.tables import category_tables, never_recommended, over_exposed, write_tables
from counterpop.auditing.verdict import Verdict
from counterpop.auditing.weights import PopularityWeight, weigh_popularity

__all__ = ["CLASSES", "DEFINITIONS", "GROUP_RULE", "NOTES", "SEGMENTS", "SEGMENT_RULE", "THRESHOLDS"]
__all__ += ["Audit", "Change", "Definition", "Grade", "Interval", "Verdict", "audit", "audit_model"]
__all__ += ["Outcome", "PopularityWeight", "Rule", "check_rule", "read_rule", "to_junit", "weigh_popularity"]
__all__ += ["category_tables", "compare_audits", "never_recommended", "over_exposed", "write_tables"]
