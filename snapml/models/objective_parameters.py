"""Which objective a model was fitted to, where its parameters may have been changed since."""

from __future__ import annotations

import copy
from typing import Any

import joblib
import numpy as np

__all__ = ["changed_since_fit", "objective_parameters"]

# Parameters that say which objective is minimised, as far as an estimator has them.
_OF_OBJECTIVE = (
    "alpha",
    "bounds",
    "C",
    "class_weight",
    "epsilon",
    "family",
    "fit_intercept",
    "intercept_scaling",
    "l1_ratio",
    "link",
    "loss",
    "multi_class",
    "penalty",
    "positive",
    "power",
    "quantile",
    "solver",
    "theta",
)


def objective_parameters(estimator: Any) -> dict[str, Any]:
    """Return copies of the parameters that say which objective an estimator minimises.

    Parameters
    ----------
    estimator : estimator
        With its parameters.

    Returns
    -------
    dict
        By name.
    """
    names = [name for name in _OF_OBJECTIVE if hasattr(estimator, name)]
    return {name: copy.deepcopy(getattr(estimator, name)) for name in names}


def changed_since_fit(model: Any) -> dict[str, Any]:
    """Return what the last fit has used of parameters that have another value now.

    Parameters
    ----------
    model : fitted estimator
        Whose fit has kept `objective_parameters` as ``_fitted_with``; of others nothing is known.

    Returns
    -------
    dict
        Values of the fit, by name.
    """
    fitted_with = getattr(model, "_fitted_with", {})
    return {
        name: used for name, used in fitted_with.items() if not _is_same(getattr(model, name), used)
    }


def _is_same(now: Any, used: Any) -> bool:
    if np.isscalar(now) and np.isscalar(used) and now == used:
        return True
    return bool(joblib.hash(now) == joblib.hash(used))
