"""What a fit measured on its way, in Snap ML's form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapml.solvers.result import joint_history

__all__ = ["training_history"]


def training_history(estimator: Any, level: str, scale: float) -> list[dict[str, Any]]:
    """Return Snap ML's ``training_history_`` of a fit: one, of all classes or targets together.

    Parameters
    ----------
    estimator : estimator
        Of this library, fitted.
    level : {'summary', 'full'}
        Whether to tell the end, or all that was certified on the way.
    scale : float
        What Snap ML's objective is of the estimator's.

    Returns
    -------
    list of dict
        One, with ``epochs``, ``t_elap_sec`` and ``train_obj``.
    """
    history = estimator.history_
    if isinstance(history[0], list):  # of several targets
        history = joint_history(history)
    if level == "summary":
        objective = scale * float(estimator.objective_)
        epochs = int(np.max(estimator.n_iter_))
        return [
            {"epochs": epochs, "t_elap_sec": history[-1]["time_s"], "train_obj": objective},
        ]
    known = [each for each in history if math.isfinite(each["objective"])]
    return [
        {
            "epochs": [each["epoch"] for each in known],
            "t_elap_sec": [each["time_s"] for each in known],
            "train_obj": [scale * each["objective"] for each in known],
        }
    ]
