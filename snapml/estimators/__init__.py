"""Estimators under scikit-learn's names."""

from snapml.estimators.coordinate_regression import ElasticNet, Lasso
from snapml.estimators.linear_regression import Ridge
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.regularization_path import ElasticNetCV, LassoCV, enet_path, lasso_path
from snapml.estimators.support_vector_machine import LinearSVC

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LogisticRegression",
    "Ridge",
    "enet_path",
    "lasso_path",
]
