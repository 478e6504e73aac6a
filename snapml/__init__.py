"""Generalized linear models, trained fast and certified exact.

The estimators follow scikit-learn's names, parameters and meanings.
"""

from importlib import metadata as _metadata

from snapml.estimators import LinearSVC, LogisticRegression, Ridge

__all__ = ["LinearSVC", "LogisticRegression", "Ridge", "__version__"]

__version__ = _metadata.version("snapml-open")
