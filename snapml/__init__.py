"""Generalized linear models, trained fast and certified exact.

The estimators follow scikit-learn's names, parameters and meanings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapml._distribution import installed_version

__version__ = installed_version()

from snapml._registry import ESTIMATORS  # after the check
from snapml.estimators.batch_predictions import predict_batches, write_predictions
from snapml.estimators.coordinate_regression import ElasticNet, Lasso
from snapml.estimators.deviance.generalized_linear import GeneralizedLinearRegressor
from snapml.estimators.deviance.regressors import (
    GammaRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from snapml.estimators.linear_regression import LinearRegression
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.many_fits import ManyModels, fit_many
from snapml.estimators.memory_estimate import estimate
from snapml.estimators.ridge import Ridge, RidgeClassifier
from snapml.estimators.robust.huber import HuberRegressor
from snapml.estimators.robust.quantile import QuantileRegressor
from snapml.estimators.robust.support_vector import LinearSVR
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.models.model_file import load
from snapml.models.model_json import from_json
from snapml.models.portable import skops_types
from snapml.searches.generalized_linear_cv import GeneralizedLinearRegressorCV
from snapml.searches.logistic_regression_cv import LogisticRegressionCV
from snapml.searches.regularization_path import ElasticNetCV, LassoCV, enet_path, lasso_path
from snapml.searches.ridge_cv import RidgeClassifierCV, RidgeCV

if TYPE_CHECKING:
    from snapml.trees import DecisionTreeClassifier, DecisionTreeRegressor

_LAZY = {entry.name: entry for entry in ESTIMATORS if entry.name not in globals()}
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
    "GammaRegressor",
    "GeneralizedLinearRegressor",
    "GeneralizedLinearRegressorCV",
    "HuberRegressor",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "LogisticRegressionCV",
    "ManyModels",
    "NegativeBinomialRegressor",
    "PoissonRegressor",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "TweedieRegressor",
    "__version__",
    "enet_path",
    "estimate",
    "fit_many",
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
    if name in _LAZY:
        return _LAZY[name].load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
