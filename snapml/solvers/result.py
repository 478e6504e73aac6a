"""What a solver hands back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "FitResult",
    "StartModel",
    "joint_distance",
    "joint_history",
    "overflow_error",
    "stack_outputs",
]

Entry = dict[str, float]

_ADDED = ("time_s", "running_gap", "gap", "objective")


class StartModel(NamedTuple):
    """Where to start a fit from, when no fit has ended there.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        w.
    intercept : float
        b.
    """

    coef: np.ndarray
    intercept: float

    def point(self, bias_column: float) -> np.ndarray:
        """Return the model as `FitResult.point` does."""
        return np.append(self.coef, self.intercept / (bias_column or 1.0))[None].astype(np.float64)


@dataclass(frozen=True)
class FitResult:
    """A fitted model and what is certain about it.

    Attributes
    ----------
    coef : ndarray of shape (n_features,), or (n_outputs, n_features) for several outputs
        w, in the data's dtype.
    intercept : float, or ndarray of shape (n_outputs,) for several outputs
        b.
    duals : ndarray of shape (n_rows,) or (n_outputs, n_rows), the data's dtype, or None
        Dual states; those of one output are a start for another fit. None from a primal
        solver, but for that of the hinge.
    offset : float
        Multiplier of an unpenalised intercept, to start another fit from.
    n_iter : int
        Reads of the data beyond the one that judges the start.
    has_converged : bool
        Whether the gap met the tolerance.
    gap, objective : float
        Certified duality gap (an estimate for classification without a penalty), and P at the
        model.
    history : list of dict
        One entry per epoch: ``epoch``, ``time_s``, ``running_gap`` (an estimate), and ``gap`` and
        ``objective`` (NaN where no exact pass was made).
    mean_stiffness : float
        Mean of c_i ||x_i||^2: how hard the problem is for coordinate ascent.
    description : str
        What was run, and why.
    has_minimum : bool
        False where the objective only falls towards an infimum: separable classes, no penalty.
    distance : float or None
        Bound on the distance from a minimiser in the norm of the Hessian, where there is no penalty
        and one was proved to be; None where nothing was.
    is_rounded : bool
        Whether the gap is what rounding a better model to the data's type has left: no solver has a
        better one.
    """

    coef: np.ndarray
    intercept: Any
    duals: np.ndarray | None
    offset: float
    n_iter: int
    has_converged: bool
    gap: float
    objective: float
    history: list[dict[str, float]]
    mean_stiffness: float
    description: str
    has_minimum: bool = True
    distance: float | None = None
    is_rounded: bool = False

    def point(self, bias_column: float) -> np.ndarray:
        """Return coefficients and intercept as the primal methods hold them.

        Parameters
        ----------
        bias_column : float
            Value of the intercept's constant column; 0 without one.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            The last column belongs to the intercept's.
        """
        bias = np.atleast_1d(self.intercept) / (bias_column or 1.0)
        return np.column_stack([np.atleast_2d(self.coef), bias]).astype(np.float64)


def stack_outputs(results: list[FitResult]) -> FitResult:
    """Return the models of several outputs as one.

    Parameters
    ----------
    results : list of FitResult
        Of one output each.

    Returns
    -------
    FitResult
        With the sums of their certificates and histories.
    """
    states = [result.duals for result in results if result.duals is not None]
    return replace(
        results[0],
        coef=np.vstack([result.coef for result in results]),
        intercept=np.array([result.intercept for result in results]),
        duals=np.vstack(states) if len(states) == len(results) else None,
        n_iter=max(result.n_iter for result in results),
        has_converged=all(result.has_converged for result in results),
        gap=sum(result.gap for result in results),
        objective=sum(result.objective for result in results),
        history=joint_history([result.history for result in results]),
        has_minimum=all(result.has_minimum for result in results),
        distance=joint_distance(results),
        is_rounded=any(result.is_rounded for result in results)
        and all(result.has_converged or result.is_rounded for result in results),
    )


def joint_distance(results: Sequence[FitResult]) -> float | None:
    """Return how far several models can be from their minimisers.

    Parameters
    ----------
    results : sequence of FitResult
        Of problems apart.

    Returns
    -------
    float or None
        In the norm of all their Hessians; None where one of them is not known.
    """
    squares = [result.distance**2 for result in results if result.distance is not None]
    return math.sqrt(sum(squares)) if len(squares) == len(results) else None


def overflow_error(dtype: np.dtype) -> ValueError:
    """Return the error of a fit whose numbers leave their type.

    Parameters
    ----------
    dtype : numpy dtype
        Of the data.

    Returns
    -------
    ValueError
        To raise.
    """
    return ValueError(
        f"Floating-point under-/overflow in {dtype}: scale the features, or regularise more"
    )


def joint_history(histories: Sequence[list[Entry]]) -> list[Entry]:
    """Return the history of the sum of several problems, as if all went on epoch by epoch.

    Parameters
    ----------
    histories : sequence of list of dict
        Of one problem each, as in `FitResult`.

    Returns
    -------
    list of dict
        One entry for each number of epochs after which one of them has one: the sums of where all
        were after so many, each with what was certified of it last. Epochs at which one of them had
        no entry yet are left out; those at which one had no certificate yet have NaN for gap and
        objective.
    """
    epochs = sorted({entry["epoch"] for history in histories for entry in history})
    tracks = [_states(history, epochs) for history in histories if history]
    joint: list[Entry] = []
    for epoch, *states in zip(epochs, *tracks, strict=True):
        known = [state for state in states if state is not None]
        if len(known) == len(states):
            sums = {name: math.fsum(state[name] for state in known) for name in _ADDED}
            joint.append({"epoch": epoch, **sums})
    return joint


def _states(history: list[Entry], epochs: list[float]) -> list[Entry | None]:
    """Return where a problem was after each number of epochs; None before its first entry."""
    states: list[Entry | None] = []
    state: Entry | None = None
    place = 0
    for epoch in epochs:
        while place < len(history) and history[place]["epoch"] <= epoch:
            state = _after(state, history[place])
            place += 1
        states.append(state)
    return states


def _after(state: Entry | None, entry: Entry) -> Entry:
    """Return an entry with the certificate of the state before, where it has none of its own."""
    if state is None or not math.isnan(entry["objective"]):
        return entry
    return {**entry, "gap": state["gap"], "objective": state["objective"]}
