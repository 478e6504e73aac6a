"""The time of a search over parameters, and those who look on at it."""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from snapml.estimators.base import callers_level
from snapml.estimators.fit_call import refit_control_of, search_control_of
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control, Interim

__all__ = ["SearchWatch", "has_ended"]

_logger = logging.getLogger("snapml")


class SearchWatch:
    """What may end the search of one call of fit.

    Where candidates are fitted fold by fold, the time that is left is parted evenly among the
    folds' paths: each then comes about as far, and what is judged on all folds can be compared.

    Parameters
    ----------
    estimator : estimator
        Whose method fit is running; has ``max_time_s``, and callbacks where they were set.

    Raises
    ------
    TypeError, ValueError
        If ``max_time_s`` is neither None nor a number above 0.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._whole = search_control_of(estimator)
        self._n_paths, self._n_at_once = 1, 1
        self._lock = threading.Lock()

    def is_over(self) -> bool:
        """Let callbacks see a step of the search.

        Returns
        -------
        bool
            Whether the search has ended; then nobody is asked again.
        """
        return bool(self._whole.reason) or has_ended(self._whole)

    def expect_paths(self, n_paths: int, n_at_once: int = 1) -> None:
        """Part the time that is left from now on.

        Parameters
        ----------
        n_paths : int
            How many there will be.
        n_at_once : int, default=1
            How many of them side by side.
        """
        self._n_paths, self._n_at_once = n_paths, n_at_once

    def path(self) -> Control:
        """Return the control of the fits of the next path, which begins now.

        Returns
        -------
        Control
            Says nothing of fits that it ends.
        """
        with self._lock:
            n_rounds = max(1, math.ceil(self._n_paths / self._n_at_once))
            self._n_paths -= 1
        look = self._ends if self._whole.is_active else None
        return Control(self._whole.left_s / n_rounds, look=look, is_part=True)

    def refit(self) -> Control:
        """Return the control of the fit to all rows, which begins now with a time of its own.

        Returns
        -------
        Control
            Callbacks see its passes.
        """
        return refit_control_of(self._estimator)

    def judged(self, is_done: np.ndarray) -> np.ndarray:
        """Return the candidates to choose from, and say if there are others.

        Parameters
        ----------
        is_done : ndarray of shape (n_folds, n_candidates), bool
            Which fits have come to their end.

        Returns
        -------
        ndarray
            Numbers of the candidates that were judged on all folds.

        Raises
        ------
        TimeoutError, RuntimeError
            If time, or a callback, has ended the search before there was one.
        """
        kept = np.flatnonzero(is_done.all(axis=0))
        if is_done.all():
            return kept
        is_by_time = self._whole.is_out_of_time or not self._whole.reason
        cause = "a callback"
        if is_by_time:
            cause = f"max_time_s={self._estimator.max_time_s:g}"
        n_out = is_done.size - int(is_done.sum())
        told = f"{cause} ended the search with {n_out} of its {is_done.size} fits unfinished"
        if not len(kept):
            told += ": expected at least one candidate to be judged on all folds, got none"
            raise TimeoutError(told) if is_by_time else RuntimeError(told)
        told += (
            f": their scores are NaN, and the choice is among {len(kept)} of "
            f"{is_done.shape[1]} candidates"
        )
        if is_by_time:
            warnings.warn(told, ConvergenceWarning, stacklevel=callers_level())
        else:
            _logger.info("%s", told)
        return kept

    def _ends(self, model_of: Callable[[], Interim]) -> bool:
        """Return whether the search has ended, without asking twice."""
        return bool(self._whole.reason) or self._whole.ends(SerialCommunicator(), model_of)


def has_ended(control: Control) -> bool:
    """Let callbacks see a step, and return whether a control ends it.

    Parameters
    ----------
    control : Control
        Of a search or one of its paths.

    Returns
    -------
    bool
        Whether nothing more should begin.
    """
    return control.ends(SerialCommunicator(), _no_model)


def _no_model() -> Interim:
    """Stand in for the model of a step, which callbacks are not shown."""
    raise AssertionError("steps of a search have no model")
