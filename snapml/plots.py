"""Plots of fitted models, in the way of scikit-learn's ``Display`` classes; with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

__all__ = ["CoefficientsDisplay", "ConvergenceDisplay"]


def _axes(ax: Any) -> Any:
    """Return axes: those given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


class ConvergenceDisplay:
    """Certified gap of a fit against time, on a logarithmic scale.

    Parameters
    ----------
    times : ndarray of shape (n_certificates,)
        Seconds since the solver began.
    gaps : ndarray of shape (n_certificates,)
        Certified gaps, relative to the objective.
    tol : float
        The tolerance that ends a fit; 0 draws no line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib Line2D
        The gaps.
    """

    def __init__(self, times: Any, gaps: Any, tol: float = 0.0) -> None:
        self.times = np.asarray(times, dtype=np.float64)
        self.gaps = np.asarray(gaps, dtype=np.float64)
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw the last fit of an estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted, with one history.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the fit has no history, or one for each of several problems.
        """
        check_is_fitted(estimator)
        history = getattr(estimator, "history_", None)
        if not history or not isinstance(history[0], dict):
            raise ValueError(
                f"estimator: expected {type(estimator).__name__} with one history_, got "
                f"{'none' if not history else f'{len(history)} of them'}"
            )
        seen = [entry for entry in history if np.isfinite(entry["gap"])]
        gaps = [entry["gap"] / (abs(entry["objective"]) or np.nan) for entry in seen]
        times = [entry["time_s"] for entry in seen]
        return cls(times, gaps, float(estimator.tol)).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
            With ``ax_``, ``figure_`` and ``line_``.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        (self.line_,) = self.ax_.plot(self.times, self.gaps, **{"marker": "o", **line})
        if self.tol > 0.0:
            self.ax_.axhline(self.tol, color="0.5", linestyle="--", label="tol")
            self.ax_.legend()
        self.ax_.set(yscale="log", xlabel="seconds", ylabel="certified gap / objective")
        self.ax_.locator_params(axis="x", nbins=5)  # times of milliseconds have long labels
        return self


class CoefficientsDisplay:
    """The largest coefficients of a model, as bars with the names of their columns.

    Parameters
    ----------
    coefficients : ndarray of shape (n_features,)
        w.
    names : sequence of str
        Of the columns.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where they were drawn.
    bars_ : matplotlib BarContainer
        One bar each, the largest on top.
    """

    def __init__(self, coefficients: Any, names: Any) -> None:
        self.coefficients = np.asarray(coefficients, dtype=np.float64)
        self.names = [str(name) for name in names]
        if self.coefficients.shape != (len(self.names),):
            raise ValueError(
                f"names: expected one for each of {self.coefficients.shape} coefficients, got "
                f"{len(self.names)}"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_largest: int = 20, ax: Any = None, **bars: Any
    ) -> CoefficientsDisplay:
        """Draw the coefficients of a fitted linear model.

        Parameters
        ----------
        estimator : estimator
            Fitted, with one row of ``coef_``.
        n_largest : int, default=20
            How many to draw at most.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **bars : object
            Of matplotlib's ``barh``.

        Returns
        -------
        CoefficientsDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the model has coefficients of several classes or targets.
        """
        check_is_fitted(estimator)
        coef = estimator.coef_
        coef = np.atleast_2d(coef.toarray() if scipy.sparse.issparse(coef) else coef)
        if len(coef) > 1:
            raise ValueError(f"estimator: expected one row of coef_, got {len(coef)}")
        default = [f"x{k}" for k in range(coef.shape[1])]
        names = getattr(estimator, "feature_names_in_", default)
        return cls(coef[0], names).plot(n_largest=n_largest, ax=ax, **bars)

    def plot(self, *, n_largest: int = 20, ax: Any = None, **bars: Any) -> CoefficientsDisplay:
        """Draw.

        Parameters
        ----------
        n_largest : int, default=20
            How many to draw at most.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **bars : object
            Of matplotlib's ``barh``.

        Returns
        -------
        CoefficientsDisplay
            With ``ax_``, ``figure_`` and ``bars_``.
        """
        order = np.argsort(-np.abs(self.coefficients), kind="stable")[:n_largest][::-1]
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.bars_ = self.ax_.barh(np.arange(len(order)), self.coefficients[order], **bars)
        self.ax_.set_yticks(np.arange(len(order)), [self.names[k] for k in order])
        self.ax_.axvline(0.0, color="0.5", linewidth=0.8)
        self.ax_.set_xlabel("coefficient")
        return self
