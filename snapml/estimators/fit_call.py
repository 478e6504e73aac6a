"""One call of fit: when it began, and the callbacks that look on, in scikit-learn's protocol.

scikit-learn has the protocol since version 1.9; with an older one everything else works.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import sklearn

from snapml._validation import check_positive
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control, Interim

__all__ = [
    "CallbackSupport",
    "as_part",
    "control_of",
    "in_fit_call",
    "refit_control_of",
    "refit_of",
    "search_control_of",
]

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

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Let callbacks look on at fits to come, in scikit-learn's protocol.

        Each pass over the data is a task ``"pass"`` below the task ``"fit"``; steps of a search
        before it, where the estimator makes one, are tasks ``"step"``, without a model. On several
        ranks those of rank 0 are called.

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
            With scikit-learn 1.8, which has no callbacks.
        """
        return super().set_callbacks(*callbacks)


class _FitCall:
    """One call of the method fit of one estimator."""

    def __init__(self, estimator: Any, arguments: Callable[[], dict[str, Any]]) -> None:
        self.estimator = estimator
        self._arguments = arguments
        self._began_s = time.monotonic()
        self._callbacks: _Callbacks | None = None

    def control(self, max_time_s: float, *, is_search: bool = False) -> Control:
        """Return the control of the fit's solvers, and let callbacks begin."""
        # Searches over estimators have none of their own.
        communicator = getattr(self.estimator, "_communicator", SerialCommunicator)()
        has_callbacks = bool(getattr(self.estimator, "_skl_callbacks", None))
        if not communicator.exchange(has_callbacks)[0]:
            return Control(max_time_s, self._began_s, is_part=is_search)
        if communicator.rank > 0:
            return Control(max_time_s, self._began_s, look=_never)
        self._callbacks = _Callbacks(self.estimator, self._arguments(), is_search)
        return Control(max_time_s, self._began_s, self._callbacks.look, is_search)

    def refit_control(self, max_time_s: float) -> Control:
        """Return the control of the fit that ends a search; its time begins now."""
        if self._callbacks is None:
            return Control(max_time_s)
        self._callbacks.end_search()
        return Control(max_time_s, look=self._callbacks.look)

    def refit_of(self, estimator: Any) -> AbstractContextManager[None]:
        """Return the context in which another estimator is fitted to end a search."""
        return nullcontext() if self._callbacks is None else self._callbacks.refit_of(estimator)

    def end(self) -> None:
        """Let callbacks see the end of a fit that has its model."""
        if self._callbacks is not None:
            self._callbacks.end()


class _Callbacks:
    """Tasks of one fit, as callbacks see them, one after the other.

    A search has steps first, which may come from several threads and have no model to show.
    """

    def __init__(self, estimator: Any, arguments: dict[str, Any], is_search: bool) -> None:
        named = arguments.get("params", {}) | arguments
        metadata = {name: named.get(name) for name in ("sample_weight", "offset", "exposure")}
        given = {name: value for name, value in metadata.items() if value is not None}
        self._estimator = estimator
        self._data = {
            "X": arguments.get("X"),
            "y": arguments.get("y"),
            "metadata": given or None,
        }
        self._is_search, self._lock = is_search, threading.Lock()
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._task = self._begin_task()

    def look(self, model_of: Callable[[], Interim]) -> bool:
        """Let callbacks see the end of a step or pass; return whether any of them ends the fit."""

        def attributes() -> dict[str, Any]:
            found: dict[str, Any] = self._estimator._interim_attributes(model_of())
            return found

        with self._lock:
            stops: bool = self._task.call_on_fit_task_end(
                estimator=self._estimator,
                **self._data,
                reconstruction_attributes=None if self._is_search else attributes,
            )
            self._task = self._begin_task()
        return stops

    def end_search(self) -> None:
        """Let callbacks see the end of the last step, which is empty, and passes from now on."""
        self._task.call_on_fit_task_end(estimator=self._estimator)
        self._is_search = False
        self._task = self._begin_task()

    @contextmanager
    def refit_of(self, inner: Any) -> Iterator[None]:
        """Let callbacks see another estimator's fit, as those of scikit-learn's searches do."""
        self._task.call_on_fit_task_end(estimator=self._estimator)
        self._task = self._fit.subcontext(task_name="refit-with-best-params")
        with self._task.propagate_callback_context(inner):
            self._task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            yield

    def end(self) -> None:
        """Let callbacks see the end of the fit, and of the task before, empty or a refit."""
        self._task.call_on_fit_task_end(estimator=self._estimator)
        self._fit.call_on_fit_task_end(
            estimator=self._estimator, **self._data, reconstruction_attributes={}
        )

    def _begin_task(self) -> Any:
        task = self._fit.subcontext(task_name="step" if self._is_search else "pass")
        return task.call_on_fit_task_begin(estimator=self._estimator, **self._data)


_current: ContextVar[_FitCall | None] = ContextVar("snapml fit", default=None)
# An estimator whose fit is part of other work, and that work's control.
_part: ContextVar[tuple[Any, Control] | None] = ContextVar("snapml part", default=None)


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
    part, max_time_s = _part.get(), _limit_of(estimator)
    if part is not None and part[0] is estimator:
        return part[1]
    call = _current.get()
    if call is None or call.estimator is not estimator:
        return Control(max_time_s)
    return call.control(max_time_s)


def search_control_of(estimator: Any) -> Control:
    """Return what may end the search of an estimator, whose method fit is running.

    Parameters
    ----------
    estimator : estimator
        May have ``max_time_s`` and callbacks, for which each question is the end of a step.

    Returns
    -------
    Control
        Nothing is said of fits that it ends.

    Raises
    ------
    TypeError, ValueError
        As `control_of`.
    """
    return _call_of(estimator).control(_limit_of(estimator), is_search=True)


def refit_control_of(estimator: Any) -> Control:
    """Return what may end the fit to all rows that follows an estimator's search.

    Parameters
    ----------
    estimator : estimator
        As of `search_control_of`, which was called before.

    Returns
    -------
    Control
        With ``max_time_s`` from now on; callbacks see its passes as those of the estimator.
    """
    return _call_of(estimator).refit_control(_limit_of(estimator))


def refit_of(search: Any, estimator: Any) -> AbstractContextManager[None]:
    """Return the context of the fit of another estimator that ends a search.

    Parameters
    ----------
    search : estimator
        Whose method fit is running; `search_control_of` was called before.
    estimator : estimator
        What was chosen; callbacks that go down to inner estimators look on at its fit.

    Returns
    -------
    context manager
        To fit it in.
    """
    return _call_of(search).refit_of(estimator)


@contextmanager
def as_part(estimator: Any, control: Control) -> Iterator[Any]:
    """Let a control end the fit of an estimator that has neither a limit nor callbacks of its own.

    Parameters
    ----------
    estimator : estimator
        To fit in this thread.
    control : Control
        Of the work that the fit is part of.

    Yields
    ------
    estimator
        The same.
    """
    token = _part.set((estimator, control))
    try:
        yield estimator
    finally:
        _part.reset(token)


def _limit_of(estimator: Any) -> float:
    limit = getattr(estimator, "max_time_s", None)
    return math.inf if limit is None else check_positive("max_time_s", limit)


def _call_of(estimator: Any) -> _FitCall:
    call = _current.get()
    assert call is not None  # its fit is decorated
    assert call.estimator is estimator
    return call


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
