"""Generalized linear models, trained fast and certified exact.

The estimators follow scikit-learn's names, parameters and meanings.
"""

from snapml._distribution import installed_version

__version__ = installed_version()

from snapml.estimators import (  # after the check
    ElasticNet,
    Lasso,
    LinearSVC,
    LogisticRegression,
    Ridge,
)

__all__ = ["ElasticNet", "Lasso", "LinearSVC", "LogisticRegression", "Ridge", "__version__"]
