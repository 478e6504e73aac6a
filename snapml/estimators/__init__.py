"""Estimators under scikit-learn's names."""

from snapml.estimators.batch_predictions import predict_batches, write_predictions
from snapml.estimators.coordinate_regression import ElasticNet, Lasso
from snapml.estimators.linear_regression import LinearRegression
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.logistic_regression_cv import LogisticRegressionCV
from snapml.estimators.memory_estimate import estimate
from snapml.estimators.model_content import loadable
from snapml.estimators.model_file import load
from snapml.estimators.model_json import from_json
from snapml.estimators.portable import skops_types
from snapml.estimators.regularization_path import ElasticNetCV, LassoCV, enet_path, lasso_path
from snapml.estimators.ridge import Ridge, RidgeClassifier
from snapml.estimators.ridge_cv import RidgeClassifierCV, RidgeCV
from snapml.estimators.support_vector_machine import LinearSVC

__all__ = [
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
    "enet_path",
    "estimate",
    "from_json",
    "lasso_path",
    "load",
    "predict_batches",
    "skops_types",
    "write_predictions",
]

for _model in (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
    RidgeClassifier,
    RidgeClassifierCV,
):
    loadable(_model)
