"""Logs, recommendations and names from outside: files by their extension, and tables already in memory."""

from counterpop.readers.logs import read_interactions
from counterpop.readers.names import read_names
from counterpop.readers.recommendations import Recommendations, read_recommendations

__all__ = ["Recommendations", "read_interactions", "read_names", "read_recommendations"]
