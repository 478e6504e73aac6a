"""Callbacks that a script has set on scikit-learn's estimator, handed on to ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["HandedCallbacks"]

_HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")


class HandedCallbacks:
    """What a fit by snapml takes over of an estimator's callbacks (scikit-learn 1.9 or newer).

    Parameters
    ----------
    estimator : estimator
        scikit-learn's, about to be fitted.
    """

    def __init__(self, estimator: Any) -> None:
        state = vars(estimator)
        self._callbacks: list[Any] = list(state.get("_skl_callbacks", ()))
        # Where a search or a pipeline fits it: the task of theirs that this fit is.
        self._parent = state.get("_parent_callback_ctx")
        self._errors: list[Exception] = []

    def set_on(self, ours: Any) -> None:
        """Set them on an estimator of snapml's, if there are any.

        Parameters
        ----------
        ours : estimator
            Not fitted yet.

        Raises
        ------
        NotImplementedError
            If it takes none.
        """
        if not self._callbacks:
            return
        ours.set_callbacks(*(_Watched(each, self._errors) for each in self._callbacks))
        if self._parent is not None:
            ours._parent_callback_ctx = self._parent

    def have_raised(self, error: Exception) -> bool:
        """Tell whether an error that ended a fit came from one of them, not from the fit.

        Parameters
        ----------
        error : Exception
            What the fit raised.

        Returns
        -------
        bool
            Whether one of them raised it.
        """
        return any(error is one for one in self._errors)


class _Watched:
    """A callback whose errors are written down before they go on."""

    def __init__(self, callback: Any, errors: list[Exception]) -> None:
        for hook in _HOOKS:
            setattr(self, hook, _watched(getattr(callback, hook), errors))
        # This attribute is how the protocol tells callbacks that go down to inner estimators.
        if hasattr(callback, "max_propagation_depth"):
            self.max_propagation_depth = callback.max_propagation_depth


def _watched(hook: Callable[..., Any], errors: list[Exception]) -> Callable[..., Any]:
    # The signature stays the hook's own, which says what it asks for.
    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception as error:
            errors.append(error)
            raise

    return called
