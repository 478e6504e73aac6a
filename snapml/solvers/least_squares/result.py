"""What a solver of least squares returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigvalsh

__all__ = ["BY_COLUMNS", "LeastSquaresResult", "singular_values"]

BY_COLUMNS = "normal equations of the columns (Cholesky), refined"
"""How most models are found."""


@dataclass(frozen=True)
class LeastSquaresResult:
    """One model per target.

    Attributes
    ----------
    coef : ndarray of shape (n_targets, n_features), the matrix's dtype
        w.
    intercept : ndarray of shape (n_targets,), the matrix's dtype
        b.
    rank : int or None
        Of the (centred) matrix; None where it was not determined.
    singular : ndarray of shape (min(n_rows, n_features),) or None
        Singular values of the (centred, weighted) matrix.
    gap, objective : ndarray of shape (n_targets,)
        What the objective can be above its minimum, and its value, as above.
    description : str
        What was run.
    """

    coef: np.ndarray
    intercept: np.ndarray
    rank: int | None
    singular: np.ndarray | None
    gap: np.ndarray
    objective: np.ndarray
    description: str

    def with_intercepts(
        self, beside: np.ndarray, sums: np.ndarray, weight: float
    ) -> LeastSquaresResult:
        """Return the result for the intercepts as they are, gap and objective being the means'.

        Parameters
        ----------
        beside : ndarray of shape (n_targets,), float64
            By how much each intercept is rounded.
        sums : ndarray of shape (n_targets,), float64
            Of the residuals, weighted: zero but for rounding of the means.
        weight : float
            Of all rows.

        Returns
        -------
        LeastSquaresResult
            The same models.
        """
        return replace(
            self,
            # An intercept beside its best value costs half the weights times the distance squared.
            gap=self.gap + weight * (beside - sums / weight) ** 2 / 2,
            objective=self.objective + beside * (weight * beside / 2 - sums),
        )


def singular_values(gram: np.ndarray) -> np.ndarray:
    """Return the singular values of rows, the largest first, from the columns' products.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features), float64
        Well conditioned.

    Returns
    -------
    ndarray of shape (n_features,), float64
        At least zero.
    """
    return np.sqrt(np.maximum(eigvalsh(gram)[::-1], 0.0))
