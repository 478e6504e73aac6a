"""Every public estimator, once: whatever else lists estimators reads this table."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["BY_NAME", "ESTIMATORS", "Entry", "entry_of", "nearest_entry"]

_ESTIMATORS, _SEARCHES = "snapml.estimators", "snapml.searches"


class Entry(NamedTuple):
    """An estimator, and what the rest of the package may do with it.

    Attributes
    ----------
    name : str
        Of the class; scikit-learn's of the same name is what `snapml.accel` replaces.
    module : str
        Where the class is; it is imported when it is asked for.
    sklearn_module : str or None
        Where scikit-learn has its own; None where it has none.
    command : str or None
        Its name on the command line; None where it has none.
    trains_on_ranks : bool
        Whether `snapml.distributed.mpi` has a class of the same name.
    likelihood : str or None
        ``"binomial"``, ``"normal"`` or ``"family"`` where `snapml.statistics` knows the covariance
        of its coefficients; None where it does not.
    has_estimate : bool
        Whether `snapml.estimate` knows how much memory its fits need.
    """

    name: str
    module: str
    sklearn_module: str | None = "sklearn.linear_model"
    command: str | None = None
    trains_on_ranks: bool = False
    likelihood: str | None = None
    has_estimate: bool = False

    def load(self) -> Any:
        """Return the class."""
        return getattr(import_module(self.module), self.name)

    def load_sklearn(self) -> Any:
        """Return scikit-learn's class of the same name; refuse what has none."""
        if self.sklearn_module is None:
            raise TypeError(f"scikit-learn has no {self.name}")
        return getattr(import_module(self.sklearn_module), self.name)


ESTIMATORS = (
    Entry("DecisionTreeClassifier", "snapml.trees.decision_tree", sklearn_module="sklearn.tree"),
    Entry("DecisionTreeRegressor", "snapml.trees.decision_tree", sklearn_module="sklearn.tree"),
    Entry(
        "ElasticNet",
        f"{_ESTIMATORS}.coordinate_regression",
        command="elasticnet",
        trains_on_ranks=True,
    ),
    Entry("ElasticNetCV", f"{_SEARCHES}.regularization_path"),
    Entry(
        "GammaRegressor",
        f"{_ESTIMATORS}.deviance.regressors",
        command="gamma",
        trains_on_ranks=True,
        likelihood="family",
        has_estimate=True,
    ),
    Entry(
        "GeneralizedLinearRegressor",
        f"{_ESTIMATORS}.deviance.generalized_linear",
        sklearn_module=None,
        command="glm",
        trains_on_ranks=True,
        likelihood="family",
        has_estimate=True,
    ),
    Entry(
        "GeneralizedLinearRegressorCV", f"{_SEARCHES}.generalized_linear_cv", sklearn_module=None
    ),
    Entry(
        "HuberRegressor",
        f"{_ESTIMATORS}.robust.huber",
        command="huber",
        trains_on_ranks=True,
    ),
    Entry("Lasso", f"{_ESTIMATORS}.coordinate_regression", command="lasso", trains_on_ranks=True),
    Entry("LassoCV", f"{_SEARCHES}.regularization_path"),
    Entry(
        "LinearRegression",
        f"{_ESTIMATORS}.linear_regression",
        command="linear",
        trains_on_ranks=True,
        likelihood="normal",
    ),
    Entry(
        "LinearSVC",
        f"{_ESTIMATORS}.support_vector_machine",
        sklearn_module="sklearn.svm",
        command="svc",
        trains_on_ranks=True,
        has_estimate=True,
    ),
    Entry(
        "LinearSVR",
        f"{_ESTIMATORS}.robust.support_vector",
        sklearn_module="sklearn.svm",
        command="svr",
        trains_on_ranks=True,
    ),
    Entry(
        "LogisticRegression",
        f"{_ESTIMATORS}.logistic_regression",
        command="logistic",
        trains_on_ranks=True,
        likelihood="binomial",
        has_estimate=True,
    ),
    Entry("LogisticRegressionCV", f"{_SEARCHES}.logistic_regression_cv"),
    Entry(
        "NegativeBinomialRegressor",
        f"{_ESTIMATORS}.deviance.regressors",
        sklearn_module=None,
        command="negative-binomial",
        trains_on_ranks=True,
        likelihood="family",
        has_estimate=True,
    ),
    Entry(
        "PoissonRegressor",
        f"{_ESTIMATORS}.deviance.regressors",
        command="poisson",
        trains_on_ranks=True,
        likelihood="family",
        has_estimate=True,
    ),
    Entry(
        "QuantileRegressor",
        f"{_ESTIMATORS}.robust.quantile",
        command="quantile",
        trains_on_ranks=True,
    ),
    Entry(
        "Ridge",
        f"{_ESTIMATORS}.ridge",
        command="ridge",
        trains_on_ranks=True,
        likelihood="normal",
        has_estimate=True,
    ),
    Entry("RidgeCV", f"{_SEARCHES}.ridge_cv"),
    Entry("RidgeClassifier", f"{_ESTIMATORS}.ridge", command="ridge-classifier", has_estimate=True),
    Entry("RidgeClassifierCV", f"{_SEARCHES}.ridge_cv"),
    Entry(
        "TweedieRegressor",
        f"{_ESTIMATORS}.deviance.regressors",
        command="tweedie",
        trains_on_ranks=True,
        likelihood="family",
        has_estimate=True,
    ),
)
"""All of them, by name."""

BY_NAME = {entry.name: entry for entry in ESTIMATORS}


def entry_of(cls: type[Any]) -> Entry | None:
    """Return the entry of a class.

    Parameters
    ----------
    cls : type
        Of a model.

    Returns
    -------
    Entry or None
        None where it is not one of the estimators itself; a subclass is not.
    """
    entry = BY_NAME.get(cls.__name__)
    return entry if entry is not None and entry.module == cls.__module__ else None


def nearest_entry(cls: type[Any]) -> Entry | None:
    """Return the entry of a class, or of the nearest that it inherits from.

    Parameters
    ----------
    cls : type
        Of a model.

    Returns
    -------
    Entry or None
        None where no base of it is an estimator.
    """
    return next((entry for base in cls.__mro__ if (entry := entry_of(base)) is not None), None)
