"""What snapml serves of scikit-learn's parameters, and how they read here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["ours_for", "reason_against"]

_REASONS: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "LogisticRegression": (("warm_start", True, "each fit starts anew here"),),
    "Lasso": (("warm_start", True, "each fit starts anew here"),),
    "ElasticNet": (("warm_start", True, "each fit starts anew here"),),
    "LinearSVC": (("multi_class", "crammer_singer", "snapml has one model per class only"),),
}
"""By class: parameter, value and reason to leave the fit to scikit-learn."""

_SMOOTH_PENALTY_ONLY = ("lbfgs", "newton-cg", "newton-cholesky", "sag")
_SHARE_OF_L1 = {"l1": 1.0, "l2": 0.0, "elasticnet": 0.5}


def reason_against(genuine: type, parameters: dict[str, Any]) -> str | None:
    """Say why the parameters alone are for scikit-learn to serve.

    Parameters
    ----------
    genuine : type
        scikit-learn's class.
    parameters : dict
        Its parameters.

    Returns
    -------
    str or None
        The reason; None if snapml is to be asked.
    """
    for name, value, why in _REASONS.get(genuine.__name__, ()):
        # By type too: the array of a parameter has no truth.
        if isinstance(parameters[name], type(value)) and parameters[name] == value:
            return f"{name}={value!r}: {why}"
    refuses = _REFUSALS.get(genuine.__name__)
    return refuses(parameters) if refuses else None


def _no_logistic_solver(parameters: dict[str, Any]) -> str | None:
    """Say why no solver of scikit-learn takes the parameters, which all are served here."""
    solver, shares = parameters["solver"], _shares_of_l1(parameters)
    if solver in _SMOOTH_PENALTY_ONLY and any(shares):
        return f"solver={solver!r} has no L1 penalty there"
    if solver != "liblinear":
        return f"dual=True with solver={solver!r}" if parameters["dual"] is True else None
    if any(0.0 < share < 1.0 for share in shares):
        return "solver='liblinear' has no elastic net there"
    if _is_without_penalty(parameters):
        return "solver='liblinear' needs a penalty there"
    return "dual=True with an L1 penalty" if parameters["dual"] is True and any(shares) else None


def _shares_of_l1(parameters: dict[str, Any]) -> list[float]:
    """Return how much of each penalty is the L1 norm; what is no number is judged by the fit."""
    penalty = parameters["penalty"]
    if isinstance(penalty, str) and penalty in _SHARE_OF_L1:
        return [_SHARE_OF_L1[penalty]]
    given = parameters.get("l1_ratios", parameters.get("l1_ratio"))
    shares = np.ravel(np.asarray(given, dtype=object))
    return [float(share) for share in shares if isinstance(share, Real)]


def _is_without_penalty(parameters: dict[str, Any]) -> bool:
    C = parameters.get("C")
    return parameters["penalty"] is None or (isinstance(C, Real) and math.isinf(C))


def _no_svm_solver(parameters: dict[str, Any]) -> str | None:
    """Say why LIBLINEAR has no solver for the parameters, which are served here."""
    if parameters["penalty"] == "l1" and parameters["dual"] is True:
        return "dual=True with an L1 penalty"
    if parameters["loss"] == "hinge" and parameters["dual"] is False:
        return "dual=False with the hinge"
    return None


def _no_svr_solver(parameters: dict[str, Any]) -> str | None:
    if parameters["loss"] == "epsilon_insensitive" and parameters["dual"] is False:
        return "dual=False with loss='epsilon_insensitive'"
    return None


_REFUSALS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "LogisticRegression": _no_logistic_solver,
    "LogisticRegressionCV": _no_logistic_solver,
    "LinearSVC": _no_svm_solver,
    "LinearSVR": _no_svr_solver,
}
"""What snapml would serve and scikit-learn refuses. A script must meet the error all the same: a
search over solvers counts on it."""


def ours_for(genuine: type, ours: type, parameters: dict[str, Any]) -> Any:
    """Return snapml's estimator with the parameters, unfitted.

    The names are the same. The tolerance is the tighter one of both, since it bounds something else
    here; as many reads of the data are allowed as either allows.

    Parameters
    ----------
    genuine, ours : type
        scikit-learn's class, and snapml's of the same name.
    parameters : dict
        scikit-learn's parameters.

    Returns
    -------
    estimator
        Of type `ours`.

    Raises
    ------
    TypeError
        If snapml's class lacks one of the parameters.
    """
    defaults = {name: p.default for name, p in inspect.signature(ours).parameters.items()}
    theirs = {name: p.default for name, p in inspect.signature(genuine).parameters.items()}
    chosen = dict(parameters)
    if isinstance(theirs.get("tol"), float) and defaults["tol"] < theirs["tol"]:
        chosen["tol"] = _least(chosen["tol"], defaults["tol"])
    if isinstance(defaults.get("max_iter"), int) and "max_iter" in theirs:
        chosen["max_iter"] = _most(chosen["max_iter"], defaults["max_iter"])
    return ours(**chosen)


def _least(given: Any, default: float) -> Any:
    """Return the tighter tolerance; what is no number is judged by the estimator."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return given
    return min(given, default)


def _most(given: Any, default: int) -> Any:
    """Return the larger number of reads; what is no number is judged by the estimator."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        return given
    return max(int(given), default) if int(given) > 0 else given
