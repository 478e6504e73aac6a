"""What snapml serves of scikit-learn's parameters, and how they read here."""

from __future__ import annotations

import inspect
from numbers import Integral, Real
from typing import Any

__all__ = ["ours_for", "reason_against"]

_REASONS: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "LogisticRegression": (("warm_start", True, "each fit starts anew here"),),
    "Lasso": (("warm_start", True, "each fit starts anew here"),),
    "ElasticNet": (("warm_start", True, "each fit starts anew here"),),
    "LinearSVC": (("multi_class", "crammer_singer", "snapml has one model per class only"),),
}
"""By class: parameter, value and reason to leave the fit to scikit-learn."""


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
    return None


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
    if isinstance(defaults.get("max_iter"), int):
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
