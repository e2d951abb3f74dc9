"""What commands do with files, as functions: vectors, lists and logs in, folders and audits out."""

from counterpop.jobs.audits import audit_lists, audit_vectors
from counterpop.jobs.debiasing import check_files, debias_files

__all__ = ["audit_lists", "audit_vectors", "check_files", "debias_files"]
