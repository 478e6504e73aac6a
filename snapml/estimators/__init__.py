"""Estimators under scikit-learn's names."""

from snapml.estimators.linear_regression import LinearRegression, Ridge
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.support_vector_machine import LinearSVC

__all__ = ["LinearRegression", "LinearSVC", "LogisticRegression", "Ridge"]
