"""Estimators under scikit-learn's names."""

from snapml.estimators.coordinate_regression import ElasticNet, Lasso
from snapml.estimators.linear_regression import Ridge
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.support_vector_machine import LinearSVC

__all__ = ["ElasticNet", "Lasso", "LinearSVC", "LogisticRegression", "Ridge"]
