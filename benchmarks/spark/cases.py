"""What is fitted on Spark: the rows, the penalty, and the objective in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import kl_div

from benchmarks.counts import make_portfolio
from benchmarks.synthetic_data import dense_spectrum, logistic_labels, planted_margins
from snapml.data import make_click_log

__all__ = ["CASES", "N_COLUMNS", "N_ROWS", "Case", "Objective", "make_rows"]

SEED = 0
N_ROWS = {"click log": 1_000_000, "dense": 500_000, "portfolio": 678_013}
N_COLUMNS = {"click log": 1_000_000, "dense": 200, "portfolio": 60}
_BLOCK_ROWS = 50_000


@dataclass(frozen=True)
class Case:
    """A fit of logistic regression, or of counts.

    Attributes
    ----------
    data : {'click log', 'dense', 'portfolio'}
        The rows; a portfolio's labels are counts.
    reg_param : float
        Spark's.
    standardization : bool
        Spark's.
    """

    data: str
    reg_param: float
    standardization: bool

    def estimator(self, library: str, **settings: Any) -> Any:
        """Return what fits it.

        Parameters
        ----------
        library : {'pyspark.ml', 'snapml'}
            Whose.
        **settings : object
            Further parameters.

        Returns
        -------
        pyspark.ml.Estimator
            Logistic regression, or Poisson's of generalized linear models.
        """
        from pyspark.ml import classification, regression

        from snapml.distributed import spark

        is_ours = library == "snapml"
        if self.data == "portfolio":
            module = spark if is_ours else regression
            return module.GeneralizedLinearRegression(
                family="poisson", regParam=self.reg_param, **settings
            )
        module = spark if is_ours else classification
        return module.LogisticRegression(
            regParam=self.reg_param, standardization=self.standardization, **settings
        )


CASES = {
    "click_scaled_1e-3": Case("click log", 1e-3, True),
    "click_scaled_1e-4": Case("click log", 1e-4, True),
    "click_1e-3": Case("click log", 1e-3, False),
    "click_1e-4": Case("click log", 1e-4, False),
    "dense_1e-3": Case("dense", 1e-3, True),
    "dense_1e-4": Case("dense", 1e-4, True),
    "poisson_1e-3": Case("portfolio", 1e-3, False),
    "poisson_0": Case("portfolio", 0.0, False),
}


def make_rows(data: str, n_rows: int, n_columns: int) -> tuple[Any, np.ndarray]:
    """Make rows and labels.

    Parameters
    ----------
    data : {'click log', 'dense', 'portfolio'}
        39 ones a row; correlated columns of different scales with means; or policies.
    n_rows, n_columns : int
        Sizes.

    Returns
    -------
    X : csr_matrix or ndarray of shape (n_rows, n_columns), float32
        The rows.
    y : ndarray of shape (n_rows,)
        0 and 1, or counts of claims.
    """
    if data == "portfolio":
        X, claims, _, _ = make_portfolio(SEED)
        return X[:n_rows, :n_columns], claims[:n_rows]
    if data == "click log":
        return make_click_log(n_rows, n_columns, random_state=SEED)
    rng = np.random.default_rng(SEED)
    X = dense_spectrum(rng, n_rows, n_columns, 0.5, mean_scale=0.5)
    return X, logistic_labels(rng, planted_margins(rng, X))


class Objective:
    """Spark's objective, in float64.

    Parameters
    ----------
    X : csr_matrix or ndarray of shape (n_rows, n_columns)
        The rows.
    y : ndarray of shape (n_rows,)
        0 and 1, or counts.
    case : Case
        Penalty and standardisation.
    """

    def __init__(self, X: Any, y: np.ndarray, case: Case) -> None:
        self._X, self._y, self._case = X, np.asarray(y, np.float64), case
        n_rows, n_columns = X.shape
        self._blocks = [slice(k, k + _BLOCK_ROWS) for k in range(0, n_rows, _BLOCK_ROWS)]
        self._weights = np.ones(n_columns)
        if case.standardization:
            mean = sum(self._rows(k).sum(axis=0) for k in self._blocks) / n_rows
            squares = sum(self._squares(k, mean) for k in self._blocks)
            self._weights = np.asarray(squares).ravel() / (n_rows - 1)

    def _rows(self, block: slice) -> Any:
        return self._X[block].astype(np.float64)

    def _squares(self, block: slice, mean: Any) -> Any:
        """Return the squares about the mean, of a block's rows and all columns."""
        rows = self._rows(block)
        if isinstance(rows, np.ndarray):
            return np.square(rows - mean).sum(axis=0)
        mean = np.asarray(mean).ravel()
        sums, squares = (np.asarray(x.sum(axis=0)).ravel() for x in (rows, rows.multiply(rows)))
        return squares - 2.0 * mean * sums + rows.shape[0] * np.square(mean)

    def value(self, coef: np.ndarray, intercept: float) -> float:
        """Return the mean loss plus the penalty.

        Parameters
        ----------
        coef : ndarray of shape (n_columns,), float64
            Coefficients in the columns' units.
        intercept : float
            The intercept.

        Returns
        -------
        float
            P(w, b).
        """
        is_count = self._case.data == "portfolio"
        loss = _half_deviance if is_count else _logistic_loss
        losses = sum(loss(self._y[k], self._rows(k) @ coef + intercept) for k in self._blocks)
        penalty = 0.5 * self._case.reg_param * float(self._weights @ np.square(coef))
        # Reweighted least squares measure the penalty at the mean working weight: that of counts.
        penalty *= float(self._y.mean()) if is_count else 1.0
        return losses / len(self._y) + penalty


def _logistic_loss(y: np.ndarray, margins: np.ndarray) -> float:
    return float(np.logaddexp(0.0, (1.0 - 2.0 * y) * margins).sum())


def _half_deviance(y: np.ndarray, margins: np.ndarray) -> float:
    return float(kl_div(y, np.exp(margins)).sum())
