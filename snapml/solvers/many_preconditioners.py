"""What conjugate gradients of many models are scaled by: diagonals, or factors that models share.

Models of one C differ in a fifth of the rows: their Hessians are close to a multiple of one Gram
matrix, which is made once for all C and factored once for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from snapml.solvers.many_rows import CompressedProducts, DenseProducts
from snapml.solvers.threads import blas_threads_for

__all__ = ["Diagonals", "Factors", "SharedGram", "precondition"]

# Dense columns whose Gram matrix is worth its sums, and Hessians that are hard enough for it: the
# mean of their diagonals over that of the penalty.
_FEWEST_COLUMNS, _MOST_COLUMNS, _STIFF = 128, 4096, 2.0
# A factor serves as long as the curvatures' sum is within this factor of what it was made for.
_NEAR = 2.0

Factor = tuple[np.ndarray, bool]
"""As `scipy.linalg.cho_factor` makes it."""


@dataclass
class SharedGram:
    """A Gram matrix of the rows, once one was needed.

    Attributes
    ----------
    gram : ndarray of shape (n_features + 1, n_features + 1) or None
        ``X^T diag(curvatures) X`` with the constant column.
    total : float
        Sum of these curvatures.
    factors : dict
        Of the last C: the multiple of the Gram matrix, and its factor with the penalty.
    """

    gram: np.ndarray | None = None
    total: float = 0.0
    factors: dict[float, tuple[float, Factor]] = field(default_factory=dict)

    def factor(self, group: float, scale: float, penalty: np.ndarray) -> Factor:
        """Return a factor of about scale * gram + penalty: one of half to twice the scale."""
        assert self.gram is not None
        made, factor = self.factors.get(group, (0.0, None))
        if factor is not None and made <= _NEAR * scale and scale <= _NEAR * made:
            return factor
        matrix = self.gram * self.gram.dtype.type(scale)
        matrix[np.diag_indices_from(matrix)] += penalty[:, 0]
        with blas_threads_for(len(matrix) ** 3 / 3):
            found: Factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
        self.factors[group] = scale, found
        return found


class Diagonals:
    """Each model's own diagonal.

    Parameters
    ----------
    diagonal : ndarray of shape (n_features + 1, n_models)
        Of the Hessians.
    """

    def __init__(self, diagonal: np.ndarray) -> None:
        self._diagonal = diagonal

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """Return the residuals over the diagonals."""
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
    diagonal : ndarray of shape (n_features + 1, n_models)
        Of the Hessians.
    """

    def __init__(self, factors: list[Factor], of_model: np.ndarray, diagonal: np.ndarray) -> None:
        self._factors, self._of_model, self._diagonal = factors, of_model, diagonal

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """Return the residuals times the inverses."""
        scaled: np.ndarray = residual / self._diagonal
        for number in range(len(self._factors)):
            mine = self._of_model == number
            if not mine.any():
                continue
            scaled[:, mine] = cho_solve(
                self._factors[number], residual[:, mine], check_finite=False
            )
        return scaled

    def take(self, columns: np.ndarray) -> Factors:
        """Return those of some models."""
        diagonal = np.ascontiguousarray(self._diagonal[:, columns])
        return Factors(self._factors, self._of_model[columns], diagonal)


def precondition(
    products: CompressedProducts | DenseProducts,
    shared: SharedGram,
    curvatures: np.ndarray,
    diagonal: np.ndarray,
    penalty: np.ndarray,
    groups: np.ndarray,
) -> Diagonals | Factors:
    """Return what suits the rows.

    Parameters
    ----------
    products : CompressedProducts or DenseProducts
        The rows.
    shared : SharedGram
        Filled where it is needed.
    curvatures : ndarray of shape (n_rows, n_models)
        Of all models.
    diagonal : ndarray of shape (n_features + 1, n_models)
        Of the Hessians.
    penalty : ndarray of shape (n_features + 1, 1)
        The penalty's strength on every column.
    groups : ndarray of shape (n_models,)
        Models of the same number share a factor.

    Returns
    -------
    Diagonals or Factors
        Positive definite.
    """
    n_features = products.shape[1]
    is_few = _FEWEST_COLUMNS <= n_features <= _MOST_COLUMNS
    if not (isinstance(products, DenseProducts) and is_few):
        return Diagonals(diagonal)
    is_stiff = diagonal[:-1].mean(axis=0) > _STIFF * float(penalty[0, 0])
    if not is_stiff.any():
        return Diagonals(diagonal)
    totals = curvatures.sum(axis=0, dtype=np.float64)
    if shared.gram is None:
        mean = curvatures[:, is_stiff].mean(axis=1)
        shared.gram, shared.total = products.gram(mean), float(mean.sum(dtype=np.float64))
    numbers = np.unique(groups[is_stiff]).tolist()
    for old in set(shared.factors) - set(numbers):
        del shared.factors[old]  # C only rises
    factors: list[Factor] = []
    of_model = np.full(len(groups), -1)
    for number, group in enumerate(numbers):
        mine = groups == group
        of_model[mine] = number
        try:
            scale = float(totals[mine].mean() / shared.total)
            factors.append(shared.factor(group, scale, penalty))
        except np.linalg.LinAlgError:  # rounding of a matrix with a large norm
            return Diagonals(diagonal)
    return Factors(factors, of_model, diagonal)
