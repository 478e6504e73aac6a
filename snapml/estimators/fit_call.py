"""One call of fit: when it began, and the callbacks that look on, in scikit-learn's protocol.

scikit-learn has the protocol since version 1.9; with an older one everything else works.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import sklearn

from snapml._validation import check_positive
from snapml.solvers.control import UNBOUNDED, Control, Interim

__all__ = ["CallbackSupport", "control_of", "in_fit_call"]

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn 1.8

    def with_callbacks(method: Any) -> Any:
        """Return a method as it is: nobody can have set callbacks."""
        return method

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's, which this version does not have."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Refuse callbacks."""
            raise NotImplementedError(
                f"set_callbacks: expected scikit-learn 1.9 or newer, got {sklearn.__version__}"
            )


class CallbackSupport(CallbackSupportMixin):
    """Base of estimators whose fits callbacks can look at."""

    _has_one_fit = True

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Let callbacks look on at fits to come, in scikit-learn's protocol.

        Each pass over the data is a task ``"pass"`` below the task ``"fit"``. On several ranks
        those of rank 0 are called.

        Parameters
        ----------
        *callbacks : objects
            `snapml.callbacks.EarlyStopping`, ``sklearn.callback.ProgressBar``, or others that obey
            ``sklearn.callback.FitCallback``; none removes those that were set.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        TypeError
            If one does not obey the protocol.
        NotImplementedError
            With scikit-learn 1.8, which has no callbacks; or where the estimator makes many fits.
        """
        if callbacks and not self._has_one_fit:
            raise NotImplementedError(
                f"{type(self).__name__}.set_callbacks: expected an estimator that makes one fit; "
                "GridSearchCV hands callbacks on"
            )
        return super().set_callbacks(*callbacks)


class _FitCall:
    """One call of the method fit of one estimator."""

    def __init__(self, estimator: Any, arguments: Callable[[], dict[str, Any]]) -> None:
        self.estimator = estimator
        self._arguments = arguments
        self._began_s = time.monotonic()
        self._callbacks: _Callbacks | None = None

    def control(self, max_time_s: float) -> Control:
        """Return the control of the fit's solvers, and let callbacks begin."""
        communicator = self.estimator._communicator()
        has_callbacks = bool(getattr(self.estimator, "_skl_callbacks", None))
        if not communicator.exchange(has_callbacks)[0]:
            return Control(max_time_s, self._began_s) if max_time_s < math.inf else UNBOUNDED
        if communicator.rank > 0:
            return Control(max_time_s, self._began_s, look=_never)
        self._callbacks = _Callbacks(self.estimator, self._arguments())
        return Control(max_time_s, self._began_s, look=self._callbacks.look)

    def end(self) -> None:
        """Let callbacks see the end of a fit that has its model."""
        if self._callbacks is not None:
            self._callbacks.end()


class _Callbacks:
    """Tasks of one fit, as callbacks see them."""

    def __init__(self, estimator: Any, arguments: dict[str, Any]) -> None:
        metadata = {name: arguments.get(name) for name in ("sample_weight", "offset")}
        given = {name: value for name, value in metadata.items() if value is not None}
        self._estimator = estimator
        self._data = {
            "X": arguments.get("X"),
            "y": arguments.get("y"),
            "metadata": given or None,
        }
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._pass = self._begin_pass()

    def look(self, model_of: Callable[[], Interim]) -> bool:
        """Let callbacks see the end of a pass; return whether any of them ends the fit."""
        stops: bool = self._pass.call_on_fit_task_end(
            estimator=self._estimator,
            **self._data,
            reconstruction_attributes=lambda: self._estimator._interim_attributes(model_of()),
        )
        self._pass = self._begin_pass()
        return stops

    def end(self) -> None:
        """Let callbacks see the end of the fit; the pass that has begun is empty."""
        self._pass.call_on_fit_task_end(estimator=self._estimator)
        self._fit.call_on_fit_task_end(
            estimator=self._estimator, **self._data, reconstruction_attributes={}
        )

    def _begin_pass(self) -> Any:
        task = self._fit.subcontext(task_name="pass")
        return task.call_on_fit_task_begin(estimator=self._estimator, **self._data)


_current: ContextVar[_FitCall | None] = ContextVar("snapml fit", default=None)


def control_of(estimator: Any) -> Control:
    """Return what may end the present fit of an estimator early.

    Parameters
    ----------
    estimator : estimator
        Whose method fit is running; may have ``max_time_s`` and callbacks.

    Returns
    -------
    Control
        For its solvers.

    Raises
    ------
    TypeError, ValueError
        If ``max_time_s`` is neither None nor a number above 0.
    """
    limit = getattr(estimator, "max_time_s", None)
    max_time_s = math.inf if limit is None else check_positive("max_time_s", limit)
    call = _current.get()
    if call is None or call.estimator is not estimator:
        return Control(max_time_s) if max_time_s < math.inf else UNBOUNDED
    return call.control(max_time_s)


def in_fit_call(fit: Any) -> Any:
    """Decorate fit: its time runs from here, and callbacks are set up and torn down around it.

    Parameters
    ----------
    fit : callable
        Method of an estimator. That of a distributed estimator calls the one it inherits: both are
        one call.

    Returns
    -------
    callable
        The method.
    """
    signature = inspect.signature(fit)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _FitCall(self, lambda: signature.bind(self, *args, **kwargs).arguments)
        token = _current.set(call)
        try:
            result = fit(self, *args, **kwargs)
            call.end()
            return result
        finally:
            _current.reset(token)

    managed = with_callbacks(called)

    @functools.wraps(fit)
    def called_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer = _current.get()
        is_inner = outer is not None and outer.estimator is self
        return (fit if is_inner else managed)(self, *args, **kwargs)

    return called_once


def _never(_: Callable[[], Interim]) -> bool:
    """Stand in on ranks whose rank 0 has callbacks."""
    return False
