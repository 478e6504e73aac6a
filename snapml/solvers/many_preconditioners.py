"""What conjugate gradients of many models are scaled by: diagonals, or factors that models share.

Models of one C differ in a fifth of the rows: their Hessians are close to a multiple of one Gram
matrix, which is made once for all C and factored once for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from snapml.solvers.many_chunks import ChunkedProducts, ManyProducts
from snapml.solvers.many_rows import CompressedProducts, DenseProducts
from snapml.solvers.threads import blas_threads_for

__all__ = ["Diagonals", "Factors", "SharedGram", "precondition"]

# Dense columns whose Gram matrix is worth its sums, and Hessians that are hard enough for it: the
# mean of their diagonals without the penalty, in multiples of it. Largest eigenvalues of correlated
# columns are some hundred times the mean.
_FEWEST_COLUMNS, _MOST_COLUMNS, _STIFF = 128, 4096, 0.1
# Hessians that are factored for all folds are taken to be at least this part of the factored one. A
# fifth of the rows is missing: with five rows a column, that leaves 0.36 in the worst direction.
_LEAST = 0.25
# A factor serves as long as the curvatures' sum is within this factor of what it was made for.
_NEAR = 2.0

Factor = tuple[np.ndarray, bool]
"""As `scipy.linalg.cho_factor` makes it."""


@dataclass
class SharedGram:
    """What preconditioners of dense rows have in common, once it was needed.

    Attributes
    ----------
    row_squares : ndarray of shape (n_rows,) or None
        Squared lengths of the rows.
    squares : ndarray of shape (n_features + 1,) or None
        ``(X * X)^T curvatures`` with the constant column, of some mean of curvatures.
    squares_total : float
        Sum of these curvatures.
    gram : ndarray of shape (n_features + 1, n_features + 1) or None
        ``X^T diag(curvatures) X`` with the constant column.
    total : float
        Sum of these curvatures.
    factors : dict
        Of the last C: the multiple of the Gram matrix, and its factor with the penalty.
    """

    row_squares: np.ndarray | None = None
    squares: np.ndarray | None = None
    squares_total: float = 0.0
    gram: np.ndarray | None = None
    total: float = 0.0
    factors: dict[float, tuple[float, Factor]] = field(default_factory=dict)

    def stiffness(
        self, products: DenseProducts | ChunkedProducts, curvatures: np.ndarray
    ) -> np.ndarray:
        """Return the mean diagonal of every model's ``X^T diag(curvatures) X``."""
        if self.row_squares is None:
            self.row_squares = products.row_squares()
        found: np.ndarray = self.row_squares @ curvatures / max(1, products.shape[1])
        return found

    def diagonal(
        self, products: DenseProducts | ChunkedProducts, curvatures: np.ndarray, totals: np.ndarray
    ) -> np.ndarray:
        """Return about ``(X * X)^T curvatures`` of every model: right for equal curvatures."""
        if self.squares is None:
            mean = curvatures.mean(axis=1, keepdims=True)
            self.squares = products.adjoint(mean, squares_entries=True)[:, 0]
            self.squares_total = float(mean.sum(dtype=np.float64))
        return np.outer(self.squares, (totals / self.squares_total).astype(curvatures.dtype))

    def make_gram(
        self, products: DenseProducts | ChunkedProducts, curvatures: np.ndarray, has_intercept: bool
    ) -> None:
        """Make the Gram matrix, for these curvatures of the rows."""
        self.gram, self.total = products.gram(curvatures), float(curvatures.sum(dtype=np.float64))
        if not has_intercept:
            self.gram[-1] = self.gram[:, -1] = 0.0
            self.gram[-1, -1] = self.total

    def factor(self, group: float, scale: float, penalty: np.ndarray) -> Factor:
        """Return a factor of about scale * gram + penalty: one of half to twice the scale."""
        assert self.gram is not None
        made, factor = self.factors.get(group, (0.0, None))
        if factor is not None and made <= _NEAR * scale and scale <= _NEAR * made:
            return factor
        matrix = self.gram * self.gram.dtype.type(scale)
        matrix[np.diag_indices_from(matrix)] += penalty[:, 0]
        with blas_threads_for(len(matrix) ** 3 / 3):
            # Transposed, as the matrix is symmetric and LAPACK's order is that of Fortran.
            found: Factor = cho_factor(matrix.T, overwrite_a=True, check_finite=False)
        self.factors[group] = scale, found
        return found


class Diagonals:
    """Each model's own diagonal.

    Parameters
    ----------
    diagonal : ndarray of shape (n_features + 1, n_models)
        Of the Hessians.

    Attributes
    ----------
    spread : ndarray of shape (n_models,)
        What r^T H^-1 r is at most in multiples of r^T P^-1 r, as far as one knows: infinity.
    """

    def __init__(self, diagonal: np.ndarray) -> None:
        self._diagonal = diagonal
        self.spread = np.full(diagonal.shape[1], np.inf)

    def solve(self, residual: np.ndarray, is_open: np.ndarray) -> np.ndarray:
        """Return the residuals over the diagonals; anything for columns that are not open."""
        scaled: np.ndarray = residual / self._diagonal
        return scaled

    def take(self, columns: np.ndarray) -> Diagonals:
        """Return those of some models."""
        return Diagonals(np.ascontiguousarray(self._diagonal[:, columns]))


class Factors:
    """Factored matrices, each of several models.

    Parameters
    ----------
    factors : list of Factor
        Of the models' numbers.
    of_model : ndarray of shape (n_models,), int
        Which is a model's; -1 means its diagonal.
    diagonals : Diagonals
        Of the Hessians.

    Attributes
    ----------
    spread : ndarray of shape (n_models,)
        An estimate of r^T H^-1 r in multiples of r^T P^-1 r; infinity where there is no factor.
    """

    def __init__(self, factors: list[Factor], of_model: np.ndarray, diagonals: Diagonals) -> None:
        self._factors, self._of_model, self._diagonals = factors, of_model, diagonals
        self.spread = np.where(of_model >= 0, 1.0 / _LEAST, np.inf)
        self._columns = [np.flatnonzero(of_model == number) for number in range(len(factors))]

    def solve(self, residual: np.ndarray, is_open: np.ndarray) -> np.ndarray:
        """Return the residuals times the inverses; anything for columns that are not open."""
        scaled = self._diagonals.solve(residual, is_open)
        for factor, columns in zip(self._factors, self._columns, strict=True):
            mine = columns[is_open[columns]]
            if len(mine):
                right = residual.T[mine].T  # in LAPACK's order, and ours to overwrite
                scaled[:, mine] = cho_solve(factor, right, overwrite_b=True, check_finite=False)
        return scaled

    def take(self, columns: np.ndarray) -> Factors:
        """Return those of some models."""
        return Factors(self._factors, self._of_model[columns], self._diagonals.take(columns))


def precondition(
    products: ManyProducts,
    shared: SharedGram,
    curvatures: np.ndarray,
    penalty: np.ndarray,
    groups: np.ndarray,
    has_intercept: bool,
) -> Diagonals | Factors:
    """Return what suits the rows.

    Parameters
    ----------
    products : ManyProducts
        The rows.
    shared : SharedGram
        Filled where it is needed.
    curvatures : ndarray of shape (n_rows, n_models)
        Of all models.
    penalty : ndarray of shape (n_features + 1, 1)
        The penalty's strength on every column.
    groups : ndarray of shape (n_models,)
        Models of the same number share a factor; 0 means a model without rows.
    has_intercept : bool
        Whether the last coefficient moves.

    Returns
    -------
    Diagonals or Factors
        Positive definite.
    """
    is_narrow = _FEWEST_COLUMNS <= products.shape[1] <= _MOST_COLUMNS
    if isinstance(products, CompressedProducts) or not (products.is_dense and is_narrow):
        return _diagonals(products.adjoint(curvatures, squares_entries=True), penalty)
    totals = curvatures.sum(axis=0, dtype=np.float64)
    diagonals = _diagonals(shared.diagonal(products, curvatures, totals), penalty)
    is_stiff = shared.stiffness(products, curvatures) > _STIFF * float(penalty[0, 0])
    is_stiff &= groups > 0.0
    if not is_stiff.any():
        return diagonals
    if shared.gram is None:
        shared.make_gram(products, curvatures[:, is_stiff].mean(axis=1), has_intercept)
    numbers = np.unique(groups[is_stiff]).tolist()
    for old in set(shared.factors) - set(numbers):
        del shared.factors[old]  # C only rises
    factors: list[Factor] = []
    of_model = np.full(len(groups), -1)
    for number, group in enumerate(numbers):
        mine = groups == group
        of_model[mine] = number
        try:
            factors.append(shared.factor(group, float(totals[mine].mean() / shared.total), penalty))
        except np.linalg.LinAlgError:  # rounding of a matrix with a large norm
            return diagonals
    return Factors(factors, of_model, diagonals)


def _diagonals(squares: np.ndarray, penalty: np.ndarray) -> Diagonals:
    """Return the diagonals of Hessians from those of ``X^T diag(curvatures) X``."""
    squares += penalty
    squares[squares == 0.0] = 1.0  # an intercept without penalty and rows
    return Diagonals(squares)
