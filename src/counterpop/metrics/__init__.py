"""Stateless measures of lists of recommendations: accuracy and popularity."""
