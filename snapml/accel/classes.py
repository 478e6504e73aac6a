"""scikit-learn's classes with another `fit`, each under scikit-learn's name.

They are ordinary classes of this module, so that a model which is pickled, or sent to a process of
joblib, is one of them there too.
"""

from __future__ import annotations

from typing import Any

from sklearn import linear_model, svm, tree

import snapml
from snapml.accel.accelerated import Accelerated, AcceleratedMeta, AcceleratedTree

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
]


class _Weighted(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit, as scikit-learn's does."""
        return self._fit_by_either(super().fit, X, y, sample_weight=sample_weight)  # type: ignore[misc]


class _Checked(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        """Fit, as scikit-learn's does."""
        options = {"sample_weight": sample_weight, "check_input": check_input}
        return self._fit_by_either(super().fit, X, y, **options)  # type: ignore[misc]


class _CheckedTree(AcceleratedTree, _Checked):
    pass


class _Routed(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Fit, as scikit-learn's does."""
        options = {"sample_weight": sample_weight, **params}
        return self._fit_by_either(super().fit, X, y, **options)  # type: ignore[misc]


def _stand_in(cls: Any) -> Any:
    """Tell a class what it stands for, which is its last base, and what it fits by."""
    cls.genuine = cls.__bases__[-1]
    cls.ours = getattr(snapml, cls.__name__)
    cls.__doc__ = cls.genuine.__doc__
    return cls


@_stand_in
class ElasticNet(_Checked, linear_model.ElasticNet, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class ElasticNetCV(_Routed, linear_model.ElasticNetCV, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class Lasso(_Checked, linear_model.Lasso, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class LassoCV(_Routed, linear_model.LassoCV, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class LinearRegression(_Weighted, linear_model.LinearRegression, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class LogisticRegression(_Weighted, linear_model.LogisticRegression, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class LogisticRegressionCV(_Routed, linear_model.LogisticRegressionCV, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class Ridge(_Weighted, linear_model.Ridge, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class RidgeClassifier(_Weighted, linear_model.RidgeClassifier, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class RidgeClassifierCV(_Routed, linear_model.RidgeClassifierCV, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class RidgeCV(_Routed, linear_model.RidgeCV, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class LinearSVC(_Weighted, svm.LinearSVC, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""


@_stand_in
class DecisionTreeClassifier(_CheckedTree, tree.DecisionTreeClassifier, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""

    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        """Return the share of each class in each row's leaf, as scikit-learn's does."""
        return self._by_walker("predict_proba", X, check_input)


@_stand_in
class DecisionTreeRegressor(_CheckedTree, tree.DecisionTreeRegressor, metaclass=AcceleratedMeta):
    """scikit-learn's, fitted by snapml."""
