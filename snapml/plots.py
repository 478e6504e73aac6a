"""Plots of fitted models, in the way of scikit-learn's ``Display`` classes; with matplotlib."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse
from scipy.stats import binomtest
from sklearn.pipeline import Pipeline
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

__all__ = [
    "ClickCalibrationDisplay",
    "CoefficientsDisplay",
    "ConvergenceDisplay",
    "RegularizationPathDisplay",
]


def _axes(ax: Any) -> Any:
    """Return axes: those given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def _last_model(estimator: Any) -> Any:
    """Return the model that predictions end in: of a search the best one, of a pipeline its last.

    scikit-learn's `check_is_fitted` has passed the estimator.
    """
    best = getattr(estimator, "best_estimator_", estimator)
    return best[-1] if isinstance(best, Pipeline) else best


def _column_names(estimator: Any) -> Any:
    """Return the names of the columns that `_last_model` was fitted to, or None."""
    best = getattr(estimator, "best_estimator_", estimator)
    names = getattr(_last_model(estimator), "feature_names_in_", None)
    if names is not None or not isinstance(best, Pipeline):
        return names
    try:
        return best[:-1].get_feature_names_out(getattr(best, "feature_names_in_", None))
    except (AttributeError, ValueError):  # a step that does not tell what it makes
        return None


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
            Fitted, with one history. A search shows its best estimator's fit to all rows, a
            pipeline its last step's.
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
        model = _last_model(estimator)
        history = getattr(model, "history_", None)
        if not history or not isinstance(history[0], dict):
            none = "none: linear equations, trees and models that were loaded have none"
            raise ValueError(
                f"estimator: expected {type(model).__name__} with one history_, got "
                f"{f'{len(history)} of them' if history else none}"
            )
        seen = [entry for entry in history if np.isfinite(entry["gap"])]
        gaps = [entry["gap"] / (abs(entry["objective"]) or np.nan) for entry in seen]
        times = [entry["time_s"] for entry in seen]
        return cls(times, gaps, float(model.tol)).plot(ax=ax, **line)

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
            Fitted, with one row of ``coef_``. Of a search it is the best estimator, of a pipeline
            the last step, with the names that the steps before it give to its columns.
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
            If the model has no coefficients, or those of several classes or targets.
        """
        check_is_fitted(estimator)
        model = _last_model(estimator)
        if not hasattr(model, "coef_"):
            raise ValueError(
                f"estimator: expected a linear model, got {type(model).__name__} without coef_"
            )
        coef = model.coef_
        coef = np.atleast_2d(coef.toarray() if scipy.sparse.issparse(coef) else coef)
        if len(coef) > 1:
            raise ValueError(f"estimator: expected one row of coef_, got {len(coef)}")
        names = _column_names(estimator)
        if names is None:
            names = [f"x{k}" for k in range(coef.shape[1])]
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
        check_scalar(n_largest, "n_largest", numbers.Integral, min_val=1)
        order = np.argsort(-np.abs(self.coefficients), kind="stable")[:n_largest][::-1]
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.bars_ = self.ax_.barh(np.arange(len(order)), self.coefficients[order], **bars)
        self.ax_.set_yticks(np.arange(len(order)), [self.names[k] for k in order])
        self.ax_.axvline(0.0, color="0.5", linewidth=0.8)
        self.ax_.set_xlabel("coefficient")
        return self


class RegularizationPathDisplay:
    """Coefficients against the strength of the penalty, on a logarithmic scale.

    Parameters
    ----------
    strengths : array-like of shape (n_strengths,)
        C or alpha; positive.
    coefficients : array-like of shape (n_features, n_strengths)
        w at each, as `snapml.lasso_path` returns them.
    names : sequence of str or None, default=None
        Of the columns; None numbers them.
    chosen : float or None, default=None
        The strength that was chosen.
    strength_name : str, default='alpha'
        What it is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    lines_ : list of matplotlib Line2D
        One a column, in the order of columns.
    """

    def __init__(
        self,
        strengths: Any,
        coefficients: Any,
        names: Any = None,
        chosen: float | None = None,
        strength_name: str = "alpha",
    ) -> None:
        self.strengths = np.asarray(strengths, dtype=np.float64)
        self.coefficients = np.asarray(coefficients, dtype=np.float64)
        if self.coefficients.shape[1:] != self.strengths.shape or self.strengths.ndim != 1:
            raise ValueError(
                "coefficients: expected shape (n_features, n_strengths) for strengths of shape "
                f"{self.strengths.shape}, got {self.coefficients.shape}"
            )
        if not (self.strengths > 0.0).all():
            raise ValueError(f"strengths: expected positive ones, got {self.strengths.min():g}")
        numbered = [f"x{k}" for k in range(len(self.coefficients))]
        self.names = numbered if names is None else [str(name) for name in names]
        if len(self.names) != len(self.coefficients):
            raise ValueError(
                f"names: expected {len(self.coefficients)}, one a column, got {len(self.names)}"
            )
        self.chosen, self.strength_name = chosen, strength_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_labels: int = 10, ax: Any = None, **line: Any
    ) -> RegularizationPathDisplay:
        """Draw the means over the folds of a cross-validated logistic regression.

        Parameters
        ----------
        estimator : LogisticRegressionCV
            Fitted, on two classes. Of several ``l1_ratios``, the chosen one is drawn.
        n_labels : int, default=10
            How many columns the legend names at most: those that grow largest.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``plot``.

        Returns
        -------
        RegularizationPathDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the estimator keeps no path, or one for each of several classes.
        """
        check_is_fitted(estimator)
        name = type(estimator).__name__
        if not hasattr(estimator, "coefs_paths_"):
            raise ValueError(
                f"estimator: expected a LogisticRegressionCV, got {name}, which keeps no path: "
                "draw what lasso_path or enet_path returns"
            )
        n_classes = len(estimator.classes_)
        if n_classes > 2:
            raise ValueError(f"estimator: expected two classes, got {n_classes}")
        path = _mean_path(estimator)[:, : estimator.n_features_in_]
        names = getattr(estimator, "feature_names_in_", None)
        chosen = float(np.ravel(estimator.C_)[0])
        display = cls(estimator.Cs_, path.T, names, chosen, "C")
        return display.plot(n_labels=n_labels, ax=ax, **line)

    def plot(self, *, n_labels: int = 10, ax: Any = None, **line: Any) -> RegularizationPathDisplay:
        """Draw.

        Parameters
        ----------
        n_labels : int, default=10
            How many columns the legend names at most: those that grow largest.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``plot``.

        Returns
        -------
        RegularizationPathDisplay
            With ``ax_``, ``figure_`` and ``lines_``.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = self.ax_.plot(self.strengths, self.coefficients.T, **line)
        largest = np.argsort(-np.abs(self.coefficients).max(axis=1, initial=0.0), kind="stable")
        shown = [(self.lines_[k], self.names[k]) for k in largest[:n_labels]]
        if self.chosen is not None:
            chosen = self.ax_.axvline(self.chosen, color="0.5", linestyle="--")
            shown.append((chosen, f"chosen {self.strength_name}"))
        if shown:
            self.ax_.legend(*zip(*shown, strict=True), fontsize="small")
        self.ax_.set(xscale="log", xlabel=self.strength_name, ylabel="coefficient")
        return self


def _mean_path(estimator: Any) -> np.ndarray:
    """Return coefficients of shape (n_Cs, n_dof) at the chosen l1_ratio, means over folds."""
    paths = estimator.coefs_paths_
    chosen = np.ravel(estimator.l1_ratio_)[0]
    ratios = [0.0 if ratio is None else ratio for ratio in estimator.l1_ratios_]
    which = ratios.index(chosen) if chosen in ratios else 0
    if not isinstance(paths, dict):
        found: np.ndarray = paths[:, which, :, 0, :]
    else:
        (by_fold,) = paths.values()
        found = by_fold if by_fold.ndim == 3 else by_fold[:, :, which, :]
    return found.mean(axis=0)


class ClickCalibrationDisplay:
    """Rates of rare events against their predicted probabilities, both on logarithmic scales.

    Click rates span decades, and most rows have small ones: bins hold as many rows each, and a bin
    of few clicks says how sure its rate is (Wilson, "Probable inference, the law of succession, and
    statistical inference", JASA 1927).

    Parameters
    ----------
    predicted : array-like of shape (n_bins,)
        Mean probability of each bin.
    n_clicks, n_rows : array-like of shape (n_bins,), int
        Rows of the positive class, and all rows of each bin.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).

    Attributes
    ----------
    rates_ : ndarray of shape (n_bins,)
        ``n_clicks / n_rows``.
    lower_, upper_ : ndarray of shape (n_bins,)
        Ends of the intervals.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    bars_ : matplotlib ErrorbarContainer
        The bins with clicks.
    empty_ : matplotlib Line2D
        The upper ends of those without.
    """

    def __init__(
        self, predicted: Any, n_clicks: Any, n_rows: Any, *, confidence: float = 0.95
    ) -> None:
        self.predicted = np.asarray(predicted, dtype=np.float64)
        self.n_clicks, self.n_rows = np.asarray(n_clicks), np.asarray(n_rows)
        self.confidence = confidence
        self.rates_ = self.n_clicks / self.n_rows
        pairs = zip(self.n_clicks.tolist(), self.n_rows.tolist(), strict=True)
        found = [binomtest(*pair).proportion_ci(confidence, "wilson") for pair in pairs]
        self.lower_ = np.array([each.low for each in found])
        self.upper_ = np.array([each.high for each in found])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 20, ax: Any = None, **line: Any
    ) -> ClickCalibrationDisplay:
        """Draw a classifier's probabilities of its second class.

        Parameters
        ----------
        estimator : estimator
            Fitted, of two classes, with ``predict_proba``.
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Rows, better not those of the fit.
        y : array-like of shape (n_rows,)
            Their classes.
        n_bins : int, default=20
            Bins at most; rows of one probability are in one bin.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``errorbar``.

        Returns
        -------
        ClickCalibrationDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there are not two classes, or `y` holds another one.
        """
        check_is_fitted(estimator)
        for name in ("classes_", "predict_proba"):
            if not hasattr(estimator, name):
                raise ValueError(
                    f"estimator: expected a classifier with probabilities, got "
                    f"{type(estimator).__name__}, which has no {name}"
                )
        classes = np.asarray(estimator.classes_)
        if len(classes) != 2:
            raise ValueError(f"estimator: expected a classifier of two classes, got {len(classes)}")
        y = np.asarray(y)
        if not np.isin(y, classes).all():
            raise ValueError(f"y: expected the classes {classes}, got {np.unique(y)}")
        probability = estimator.predict_proba(X)[:, 1]
        display = cls.from_predictions(y == classes[1], probability, n_bins=n_bins)
        return display.plot(ax=ax, **line)

    @classmethod
    def from_predictions(
        cls, is_click: Any, probability: Any, *, n_bins: int = 20
    ) -> ClickCalibrationDisplay:
        """Put rows into bins of as many rows each; `plot` draws them.

        Parameters
        ----------
        is_click : array-like of shape (n_rows,), bool
            Whether each row is of the positive class.
        probability : array-like of shape (n_rows,)
            Predicted, in [0, 1].
        n_bins : int, default=20
            Bins at most.

        Returns
        -------
        ClickCalibrationDisplay
            Not yet drawn.

        Raises
        ------
        ValueError
            If lengths differ, there are no rows, or a number is no probability.
        """
        is_click, probability = np.asarray(is_click, dtype=bool), np.asarray(probability, float)
        if is_click.shape != probability.shape or is_click.ndim != 1 or not len(is_click):
            raise ValueError(
                "probability: expected one for each row, of at least one, got shapes "
                f"{probability.shape} and {is_click.shape}"
            )
        if not ((probability >= 0.0) & (probability <= 1.0)).all():
            raise ValueError("probability: expected numbers from 0 to 1")
        if n_bins < 1:
            raise ValueError(f"n_bins: expected at least 1, got {n_bins}")
        edges = np.quantile(probability, np.arange(1, n_bins) / n_bins)
        number = np.searchsorted(np.unique(edges), probability, side="left")
        n_rows = np.bincount(number)
        is_filled = n_rows > 0
        n_clicks = np.bincount(number, is_click).astype(np.int64)
        sums = np.bincount(number, probability)
        return cls(sums[is_filled] / n_rows[is_filled], n_clicks[is_filled], n_rows[is_filled])

    def plot(self, *, ax: Any = None, **line: Any) -> ClickCalibrationDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes new ones.
        **line : object
            Of matplotlib's ``errorbar``.

        Returns
        -------
        ClickCalibrationDisplay
            With ``ax_``, ``figure_``, ``bars_`` and ``empty_``.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        seen = self.n_clicks > 0
        rates = self.rates_[seen]
        ends = np.maximum([rates - self.lower_[seen], self.upper_[seen] - rates], 0.0)
        style = {"marker": "o", "capsize": 2, "label": f"rate, {self.confidence:.0%} interval"}
        self.bars_ = self.ax_.errorbar(self.predicted[seen], rates, ends, **{**style, **line})
        (self.empty_,) = self.ax_.plot(
            self.predicted[~seen], self.upper_[~seen], "v", color="0.5", label="none: upper end"
        )
        if seen.all():
            self.empty_.set_label("_")
        positive = self.predicted[self.predicted > 0.0]
        if len(positive):
            ends = positive.min(), positive.max()
            self.ax_.plot(ends, ends, color="0.5", linestyle="--", label="calibrated")
        self.ax_.legend()
        self.ax_.set(
            xscale="log", yscale="log", xlabel="mean predicted probability", ylabel="observed rate"
        )
        return self
