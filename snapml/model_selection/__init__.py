"""Searches over parameters in which fits share their reads of X."""

from snapml.model_selection.grid_search import GridSearchCV

__all__ = ["GridSearchCV"]
