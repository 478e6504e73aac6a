"""Generalized linear models, trained fast and certified exact.

The estimators follow scikit-learn's names, parameters and meanings.
"""

from functools import partial
from importlib import import_module
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
_PACKAGES = (
    "accel",
    "callbacks",
    "cli",
    "compat",
    "data",
    "distributed",
    "io",
    "model_selection",
    "plots",
    "statistics",
    "trees",
)

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
    """Import trees when they are asked for, and parts of the package that are public.

    scikit-learn's trees take as long as all else together.
    """
    if name in _PACKAGES:
        return import_module(f"snapml.{name}")
    if name in _TREES:
        from snapml import trees

        return getattr(trees, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


for _name in _TREES:
    loadable_by(_name, partial(__getattr__, _name))
