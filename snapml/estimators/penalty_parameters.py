"""What scikit-learn's old and new parameters of a penalty mean together."""

from __future__ import annotations

import math
import warnings
from typing import Any

from snapml.estimators.base import callers_level

__all__ = ["resolve_penalty"]


def resolve_penalty(penalty: Any, C: Any, l1_ratio: Any) -> tuple[Any, Any]:
    """Return C and l1_ratio as they are meant, and warn as scikit-learn 1.9 does.

    Parameters
    ----------
    penalty : {'deprecated', 'l1', 'l2', 'elasticnet'} or None
        The old parameter; 'deprecated' means that it was left out.
    C : float
        The user's, unchecked; ``penalty=None`` makes it infinite.
    l1_ratio : float or None
        The user's, unchecked; the old parameter overrides it.

    Returns
    -------
    C : float
        Infinite without a penalty.
    l1_ratio : float
        0 for L2, 1 for L1.

    Raises
    ------
    ValueError
        If `penalty` is none of these, or 'elasticnet' without `l1_ratio`.
    """
    if isinstance(penalty, str) and penalty == "deprecated":
        if l1_ratio is None:
            _warn(
                "'l1_ratio=None' was deprecated in version 1.8 of scikit-learn and will trigger an "
                "error in 1.10. Use 0<=l1_ratio<=1 instead.",
                FutureWarning,
            )
            return C, 0.0
        return C, l1_ratio
    if penalty not in ("l1", "l2", "elasticnet", None):
        raise ValueError(f"penalty: expected 'l1', 'l2', 'elasticnet' or None, got {penalty!r}")
    _warn(
        f"'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in 1.10: "
        f"instead of penalty={penalty!r} use l1_ratio (0 is 'l2', 1 is 'l1', 'elasticnet' lies "
        "between) or C=np.inf (None)",
        FutureWarning,
    )
    if penalty == "elasticnet":
        if l1_ratio is None:
            raise ValueError("l1_ratio must be specified when penalty is elasticnet.")
        return C, l1_ratio
    if isinstance(l1_ratio, int | float) and 0 < l1_ratio < 1:
        _warn(
            "l1_ratio parameter is only used when penalty is 'elasticnet'. Got "
            f"(penalty={penalty})",
            UserWarning,
        )
    if penalty is None:
        if C != 1.0:  # the default
            _warn("Setting penalty=None will ignore the C and l1_ratio parameters", UserWarning)
        return math.inf, 0.0
    meant = 1.0 if penalty == "l1" else 0.0
    if l1_ratio != meant and not (penalty == "l1" and l1_ratio is None):
        _warn(
            f"Inconsistent values: penalty={penalty} with l1_ratio={l1_ratio}. penalty is "
            "deprecated. Please use l1_ratio only.",
            UserWarning,
        )
    return C, meant


def _warn(message: str, category: type[Warning]) -> None:
    warnings.warn(message, category, stacklevel=callers_level())
