"""Every public linear estimator, the objective it documents, and a limit on its time."""

import contextlib
import signal
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.svm
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from snapml._registry import ESTIMATORS
from snapml.estimators.deviance.deviance_regressor import DevianceRegressor

# Trees have tests of their own; targets of counts and amounts are of other kinds.
CLASSES = {
    entry.name: entry.load()
    for entry in ESTIMATORS
    if entry.sklearn_module != "sklearn.tree" and not issubclass(entry.load(), DevianceRegressor)
}
MORE_PARAMETERS = {
    "LogisticRegression": [
        {"C": np.inf},
        {"C": 100.0},
        {"l1_ratio": 1.0},
        {"solver": "liblinear"},
    ],
    "LinearSVC": [{"loss": "hinge"}, {"penalty": "l1", "dual": False}],
    "Ridge": [{"positive": True}, {"alpha": 0.0}, {"solver": "pqn"}],
    "LinearRegression": [{"positive": True}],
    "Lasso": [{"alpha": 0.01, "positive": True}],
    "ElasticNet": [{"alpha": 1e-3}, {"positive": True}],
}
FOLDED = ("LogisticRegressionCV", "LassoCV", "ElasticNetCV")


@dataclass(frozen=True)
class Made:
    """An estimator's class with parameters."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __call__(self):
        folds = {"cv": 3} if self.name in FOLDED else {}
        legacy = {"use_legacy_attributes": False} if self.name == "LogisticRegressionCV" else {}
        return CLASSES[self.name](**folds, **legacy, **self.parameters)

    @property
    def is_classifier(self):
        return is_classifier(CLASSES[self.name]())

    @property
    def is_positive(self):
        return bool(self.parameters.get("positive"))

    @property
    def refuses_sparse(self):
        """Whether sparse data raise, as in scikit-learn."""
        return self.name == "LinearRegression" and self.is_positive

    def __str__(self):
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.parameters.items())])


EVERY = [Made(name, more) for name in CLASSES for more in ({}, *MORE_PARAMETERS.get(name, ()))]


@contextlib.contextmanager
def time_limit(seconds=20):
    """Raise TimeoutError where a block has not ended in time."""

    def raise_timeout(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fit(made, X, y):
    """Return the fitted model, and whether it warned that it did not converge."""
    with time_limit(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = made().fit(X, y)
    return model, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def objective(made, model, coef, intercept, X, y):
    """Return the documented objective at any coefficients, of the strength the model has chosen."""
    z = X @ coef + intercept
    n = len(y)
    if made.name.startswith("Log"):
        C = float(np.ravel(model.C_)[0]) if hasattr(model, "C_") else model.C
        loss = (1.0 if np.isinf(C) else C) * np.logaddexp(0, -(2 * y - 1) * z).sum()
        l1, l2 = (1.0, 0.0) if made.parameters.get("l1_ratio") else (0.0, float(np.isfinite(C)))
        is_joint = made.parameters.get("solver") == "liblinear"
    elif made.name == "LinearSVC":
        slack = np.maximum(0, 1 - (2 * y - 1) * z)
        loss = (slack if model.loss == "hinge" else slack**2).sum()
        l1, l2 = (1.0, 0.0) if model.penalty == "l1" else (0.0, 1.0)
        is_joint = True
    elif made.name == "HuberRegressor":
        size, e = np.abs(y - z) / model.scale_, model.epsilon
        losses = model.scale_ * (1 + np.where(size < e, size**2, 2 * e * size - e**2))
        loss, l1, l2, is_joint = losses.sum(), 0.0, 2.0 * model.alpha, False
    elif made.name == "LinearSVR":
        loss, l1, l2, is_joint = model.C * np.abs(y - z).sum(), 0.0, 1.0, True
    elif made.name == "QuantileRegressor":
        loss, l1, l2 = np.abs(y - z).mean() / 2, model.alpha, 0.0
        is_joint = False
    else:
        target = 2 * y - 1 if made.is_classifier else y
        alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
        squares = ((z - target) ** 2).sum() / 2
        if made.name.startswith(("Lasso", "Elastic")):
            ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
            ratio = 1.0 if made.name.startswith("Lasso") else ratio
            loss, l1, l2 = squares / n, alpha * ratio, alpha * (1 - ratio)
        else:
            loss, l1, l2 = squares / (alpha or 1.0), 0.0, float(alpha > 0)
        is_joint = False
    w = np.append(coef, intercept) if is_joint else coef
    return float(loss + l1 * np.abs(w).sum() + l2 * (w @ w) / 2)


def competitors(made, model, X, y):
    """Yield coefficients that the model must not be worse than.

    None; and those of columns of scale one, brought back to the columns' own scales, with all
    columns and without the small ones. Where columns are large their penalty vanishes, where they
    are small they do: both are then close to the optimum.
    """
    base = made.name.removesuffix("CV")
    peer = getattr(sklearn.linear_model, base, None) or getattr(sklearn.svm, base)
    chosen = {k: v for k, v in made.parameters.items() if k != "solver"}
    for ours, theirs in (("alpha_", "alpha"), ("l1_ratio_", "l1_ratio")):
        if hasattr(model, ours) and not (base == "Lasso" and theirs == "l1_ratio"):
            chosen[theirs] = getattr(model, ours)
    if hasattr(model, "C_"):
        chosen["C"] = float(np.ravel(model.C_)[0])
    if chosen.get("l1_ratio") and base == "LogisticRegression":
        chosen["solver"] = "saga"
    yield np.zeros(X.shape[1]), (0.0 if made.is_classifier else y.mean())
    scale = np.abs(X).max(axis=0)
    for kept in (scale > 1e-300, scale > 1e-4):  # no number could bring denormals back
        divisor = np.where(kept, np.where(np.abs(np.log10(scale + 1e-300)) > 2, scale, 1.0), 1.0)
        part = np.where(kept, X / divisor, 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = peer(**chosen).fit(part, y)
        coef = np.ravel(theirs.coef_) * kept / divisor
        yield coef, float(np.ravel(theirs.intercept_)[0])
