"""Generalized linear models, trained fast and certified exact.

The estimators follow scikit-learn's names, parameters and meanings.
"""

from functools import partial
from typing import Any

from snapml._distribution import installed_version

__version__ = installed_version()

from snapml.estimators import (  # after the check
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    enet_path,
    estimate,
    from_json,
    lasso_path,
    load,
    predict_batches,
    skops_types,
    write_predictions,
)
from snapml.estimators.model_content import loadable_by

_TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor")

__all__ = [
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ElasticNet",
    "ElasticNetCV",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "__version__",
    "enet_path",
    "estimate",
    "from_json",
    "lasso_path",
    "load",
    "predict_batches",
    "skops_types",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    """Import trees when they are asked for: scikit-learn's take as long as all else together."""
    if name in _TREES:
        from snapml import trees

        return getattr(trees, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


for _name in _TREES:
    loadable_by(_name, partial(__getattr__, _name))
