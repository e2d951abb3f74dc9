"""Logs, recommendations and names from outside: files by their extension, and tables already in memory."""

from counterpop.readers.logs import read_interactions
from counterpop.readers.names import IDS, Category, Labels, LabelSources, read_attributes, read_labels, read_names
from counterpop.readers.recommendations import Recommendations, read_recommendations

__all__ = ["IDS", "Category", "LabelSources", "Labels", "Recommendations", "read_attributes", "read_interactions"]
__all__ += ["read_labels", "read_names", "read_recommendations"]
