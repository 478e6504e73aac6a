"""What a solver hands back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from snapml.solvers.joint_history import joint_history

__all__ = ["FitResult", "StartModel", "beside_each_other", "overflow_error"]


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


def beside_each_other(results: list[FitResult]) -> FitResult:
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
    )


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
