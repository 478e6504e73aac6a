"""Estimators under scikit-learn's names."""

from snapml.estimators.linear_regression import LinearRegression
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.logistic_regression_cv import LogisticRegressionCV
from snapml.estimators.ridge import Ridge, RidgeClassifier
from snapml.estimators.ridge_cv import RidgeClassifierCV, RidgeCV
from snapml.estimators.support_vector_machine import LinearSVC

__all__ = [
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
]
