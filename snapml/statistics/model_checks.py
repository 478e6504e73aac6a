"""What a fitted model and its rows must be, to tell standard errors of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from snapml._registry import ESTIMATORS, nearest_entry
from snapml._validation import alone
from snapml.estimators.penalty_parameters import resolve_penalty
from snapml.models.objective_parameters import changed_since_fit
from snapml.statistics.likelihood import BinomialLaw, Law, NormalLaw

__all__ = [
    "check_unchanged",
    "checked_targets",
    "checked_weights",
    "coefficients_of",
    "is_of_mean",
    "law_of",
    "likelihood_of",
    "names_of",
    "penalties_of",
]

_MOST_COEFFICIENTS = 5000


def check_unchanged(model: Any) -> None:
    """Refuse a model whose objective is no longer that of its fit."""
    for name, used in changed_since_fit(model).items():
        raise ValueError(
            f"model: expected the parameters of its fit, got {name}={getattr(model, name)!r} after "
            f"a fit with {name}={used!r}: fit again, or set it back"
        )


def penalties_of(model: Any) -> tuple[float, float]:
    """Return the strength of the L2 penalty on coefficients and on the intercept."""
    if likelihood_of(model) is None:
        known = [entry.name for entry in ESTIMATORS if entry.likelihood is not None]
        raise TypeError(
            f"model: expected {', '.join(known[:-1])} or {known[-1]}, got {type(model).__name__}"
        )
    check_is_fitted(model)
    n_outputs, n_columns = np.atleast_2d(_dense(model.coef_)).shape
    if n_outputs > 1:
        raise ValueError(f"model: expected two classes or one target, got {n_outputs} models")
    if n_columns != model.n_features_in_:
        raise ValueError(
            f"model: expected coef_ for the {model.n_features_in_} columns of its fit, got "
            f"{n_columns} numbers"
        )
    if model.n_features_in_ + bool(model.fit_intercept) > _MOST_COEFFICIENTS:
        raise ValueError(
            f"model: expected at most {_MOST_COEFFICIENTS} coefficients, whose covariance is a "
            f"full matrix, got {model.n_features_in_} columns"
        )
    if getattr(model, "positive", False):
        raise ValueError("model: expected no constraint, got positive=True")
    if getattr(model, "bounds", None) is not None:
        raise ValueError("model: expected no constraint, got bounds")
    if likelihood_of(model) != "binomial":
        given = getattr(model, "alpha", None)
        alpha = 0.0 if given is None else float(np.ravel(given)[0])
        if alpha and getattr(model, "l1_ratio", 0.0):
            raise ValueError(f"model: expected no L1 penalty, got l1_ratio={model.l1_ratio!r}")
        return alpha, 0.0
    if model.class_weight is not None:
        raise ValueError(
            f"model: expected class_weight=None, got {model.class_weight!r}: reweighted classes "
            "are no likelihood"
        )
    C, l1_share = resolve_penalty(model.penalty, model.C, model.l1_ratio)
    if l1_share and not math.isinf(C):
        raise ValueError(f"model: expected no L1 penalty, got l1_ratio={l1_share!r}")
    is_penalised = model.solver == "liblinear" and model.fit_intercept
    return 1.0 / C, (1.0 / C / model.intercept_scaling**2 if is_penalised else 0.0)


def law_of(model: Any) -> Law:
    """Return how targets are distributed about the margins of a model that has a likelihood."""
    kind = likelihood_of(model)
    if kind == "family":
        return Law(model._fitted_family())
    return BinomialLaw() if kind == "binomial" else NormalLaw()


def is_of_mean(model: Any) -> bool:
    """Tell whether the objective is a mean over the rows, beside which a penalty is stronger."""
    return likelihood_of(model) == "family"


def likelihood_of(model: Any) -> str | None:
    """Return of which likelihood a model's objective is, or None.

    Models whose penalty the same rows chose have none: no law of theirs is known here.
    """
    entry = nearest_entry(type(model))
    return None if entry is None else entry.likelihood


def coefficients_of(model: Any) -> np.ndarray:
    """Return the coefficients of one model, float64, behind the intercept if there is one."""
    coef = np.ravel(_dense(model.coef_)).astype(np.float64)
    if not model.fit_intercept:
        return coef
    return np.append(np.ravel(np.asarray(model.intercept_, dtype=np.float64))[:1], coef)


def _dense(coef: Any) -> np.ndarray:
    """Return what `sparsify` may have made sparse."""
    return np.asarray(coef.toarray() if issparse(coef) else coef)


def checked_targets(model: Any, y: Any, n_rows: int) -> np.ndarray:
    """Return labels as 0 and 1, or targets, float64; refuse others than the model's."""
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"y: expected shape ({n_rows},), got {y.shape}")
    if likelihood_of(model) != "binomial":
        targets = y.astype(np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y: expected finite numbers, got NaN or infinity")
        if likelihood_of(model) == "family":
            model._fitted_family().check(targets, alone)
        return targets
    unknown = np.setdiff1d(y, model.classes_)
    if len(unknown):
        raise ValueError(f"y: expected labels of {model.classes_.tolist()}, got {unknown[0]!r}")
    return (y == model.classes_[1]).astype(np.float64)


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return the rows' weights, float64."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"sample_weight: expected {n_rows} finite numbers of at least 0")
    return weights


def names_of(model: Any) -> tuple[str, ...]:
    """Return the names of the coefficients, the intercept's first."""
    names = getattr(model, "feature_names_in_", None)
    own = [f"x{k}" for k in range(model.n_features_in_)] if names is None else list(map(str, names))
    # A column may have that name itself.
    bias = "(intercept)" if "intercept" in own else "intercept"
    return (bias, *own) if model.fit_intercept else tuple(own)
