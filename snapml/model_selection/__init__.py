"""Searches over parameters in which fits share their reads of X."""

from snapml.searches.grid_search import GridSearchCV

__all__ = ["GridSearchCV"]
