"""What conjugate gradients of many models are scaled by: diagonals, or a Gram matrix they share.

Models differ in C, and folds in a fifth of the rows: their Hessians are close to multiples of one
Gram matrix and the penalty. It is made tridiagonal once, G = Q T Q^T, and
(s G + l2)^-1 = Q (s T + l2)^-1 Q^T then costs two products and a few numbers a row for any s.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from snapml.solvers.many.many_arrays import ManyArrays, ManyProducts
from snapml.solvers.threads import blas_threads_for

__all__ = ["Diagonals", "ScaledGrams", "SharedGram", "precondition"]

# Dense columns whose Gram matrix is worth its sums (one has nothing to gain), and Hessians that are
# hard enough for it: the mean of their diagonals without the penalty, in multiples of it. Largest
# eigenvalues of correlated columns are some hundred times the mean.
_FEWEST_COLUMNS, _MOST_COLUMNS, _STIFF = 2, 4096, 0.1
# Hessians of folds are taken to be at least this part of a multiple of the Gram matrix. A fifth of
# the rows is missing: with five rows a column, that leaves 0.36 in the worst direction.
_LEAST = 0.25
_LARGEST_BLOCK = 64  # columns that LAPACK takes at a time
# Smallest curvature between classes, in multiples of the largest: that of what all have in common
# is zero, and is left out afterwards.
_LEAST_MIXED = 1e-4


@dataclass(frozen=True)
class TridiagonalGram:
    """A Gram matrix with the constant column, [[Q T Q^T, Q b], [b^T Q^T, c]].

    Attributes
    ----------
    basis : ndarray of shape (n_features, n_features)
        Q, orthogonal.
    diagonal : ndarray of shape (n_features,)
        Of T.
    off_diagonal : ndarray of shape (n_features - 1,)
        Of T.
    border : ndarray of shape (n_features,)
        b.
    corner : float
        c.
    """

    basis: np.ndarray
    diagonal: np.ndarray
    off_diagonal: np.ndarray
    border: np.ndarray
    corner: float

    @classmethod
    def of(cls, gram: np.ndarray, n_threads: int = 1) -> TridiagonalGram:
        """Reduce a matrix of at least two features."""
        size = len(gram) - 1
        reduce, reduce_size, expand = get_lapack_funcs(("sytrd", "sytrd_lwork", "orgqr"), (gram,))
        with blas_threads_for(4.0 * size**3 / 3.0, n_threads):
            # Transposed, as the matrix is symmetric and LAPACK's order is that of Fortran.
            inner = np.asfortranarray(gram[:-1, :-1].T)
            room = int(reduce_size(size, lower=1)[0])
            found = reduce(inner, lower=1, lwork=room, overwrite_a=1)
            reflectors, diagonal, off_diagonal, factors, _ = found
            # Below the first subdiagonal they lie as those of a QR decomposition.
            below = np.asfortranarray(reflectors[1:, :-1])
            basis = np.zeros_like(inner)
            basis[0, 0] = 1.0
            basis[1:, 1:] = expand(below, factors, lwork=_LARGEST_BLOCK * size, overwrite_a=1)[0]
            border = basis.T @ gram[:-1, -1]
        return cls(basis, diagonal, off_diagonal, border, float(gram[-1, -1]))


@dataclass
class SharedGram:
    """What preconditioners of dense rows have in common, once it was needed.

    Attributes
    ----------
    row_squares : array of shape (n_rows,) or None
        Squared lengths of the rows.
    squares : array of shape (n_features + 1, 1) or None
        ``(X * X)^T curvatures`` with the constant column, of some mean of curvatures.
    squares_total : float
        Sum of these curvatures.
    gram : TridiagonalGram or None
        ``X^T diag(curvatures) X`` with the constant column.
    total : float
        Sum of these curvatures.
    """

    row_squares: Any = None
    squares: Any = None
    squares_total: float = 0.0
    gram: TridiagonalGram | None = None
    total: float = 0.0

    def see(self, n_products: int, shape: tuple[int, int]) -> None:
        """Drop the Gram matrix where a step took more products than to make it of new curvatures.

        Far from where it was made, rows that are told apart have no curvature any more.
        """
        n_rows, n_features = shape
        price = 2.0 + n_features / 64.0 + n_features * n_features / (30.0 * max(1, n_rows))
        if n_products > price:
            self.gram = None

    def stiffness(self, products: ManyProducts, curvatures: Any) -> np.ndarray:
        """Return the mean diagonal of every model's ``X^T diag(curvatures) X``."""
        if self.row_squares is None:
            self.row_squares = products.row_squares()
        found = products.arrays.to_host(self.row_squares @ curvatures)
        return found / max(1, products.shape[1])

    def diagonal(self, products: ManyProducts, curvatures: Any, totals: np.ndarray) -> Any:
        """Return about ``(X * X)^T curvatures`` of every model: right for equal curvatures."""
        if self.squares is None:
            mean = curvatures.mean(axis=1, keepdims=True)
            self.squares = products.adjoint(mean, squares_entries=True)
            self.squares_total = float(mean.sum(dtype=np.float64))
        return self.squares * products.arrays.factors(totals / self.squares_total, curvatures)

    def make_gram(self, products: ManyProducts, curvatures: Any, has_intercept: bool) -> None:
        """Make the Gram matrix, for these curvatures of the rows."""
        gram, self.total = products.gram(curvatures), float(curvatures.sum(dtype=np.float64))
        if not has_intercept:
            gram[-1] = gram[:, -1] = 0.0
            gram[-1, -1] = self.total
        self.gram = TridiagonalGram.of(gram, products.n_threads)


class Diagonals:
    """Each model's own diagonal.

    Parameters
    ----------
    arrays : ManyArrays
        Where everything is.
    diagonal : array of shape (n_features + 1, n_models)
        Of the Hessians.

    Attributes
    ----------
    spread : ndarray of shape (n_models,)
        What r^T H^-1 r is at most in multiples of r^T P^-1 r, as far as one knows: infinity.
    """

    def __init__(self, arrays: ManyArrays, diagonal: Any) -> None:
        self._arrays, self._diagonal = arrays, diagonal
        self.spread = np.full(diagonal.shape[1], np.inf)

    def solve(self, residual: Any, is_open: np.ndarray) -> Any:
        """Return the residuals over the diagonals; anything for columns that are not open."""
        return residual / self._diagonal

    def take(self, columns: np.ndarray) -> Diagonals:
        """Return those of some models."""
        return Diagonals(self._arrays, self._arrays.take(self._diagonal, columns))


class ScaledGrams:
    """Each model's own multiple of one Gram matrix, with the penalty.

    Parameters
    ----------
    arrays : ManyArrays
        Where the residuals are; the matrix is on the host.
    gram : TridiagonalGram
        The matrix.
    scales : ndarray of shape (n_models,)
        The multiples; 0 means the model's diagonal, and so does a sum that rounding leaves
        indefinite.
    penalty : (float, float)
        The penalty's strength, on features and on the constant column.
    diagonals : Diagonals
        Of the Hessians.
    rotations : ndarray of shape (n_whole_models, n_outputs, n_outputs), default=None
        Of models with several columns: what takes them to those that the scales are of.

    Attributes
    ----------
    spread : ndarray of shape (n_models,)
        An estimate of r^T H^-1 r in multiples of r^T P^-1 r; infinity for a diagonal.
    """

    def __init__(
        self,
        arrays: ManyArrays,
        gram: TridiagonalGram,
        scales: np.ndarray,
        penalty: tuple[float, float],
        diagonals: Diagonals,
        rotations: np.ndarray | None = None,
    ) -> None:
        self._arrays, self._basis, self._diagonals = arrays, gram.basis, diagonals
        self._rotations = rotations
        self._factors = [_Bordered.of(gram, float(scale), penalty) for scale in scales]
        has_factor = np.array([factor is not None for factor in self._factors])
        if rotations is not None:  # a model has all of them, or none
            own = has_factor[: rotations[..., 0].size].reshape(rotations.shape[:2])
            own[:] = own.all(axis=1, keepdims=True)
        self.spread = np.where(has_factor, 1.0 / _LEAST, np.inf)

    def solve(self, residual: Any, is_open: np.ndarray) -> Any:
        """Return the residuals times the inverses; anything for columns that are not open."""
        scaled = self._diagonals.solve(residual, is_open)
        mine = np.flatnonzero(is_open & np.isfinite(self.spread))
        if len(mine):
            own = self._arrays.to_host(self._arrays.take(residual, mine))
            rotations = self._rotations_of(mine)
            own = _rotated(own, rotations)
            rotated = own[:-1].T @ self._basis
            for k, at in enumerate(mine):
                factor = self._factors[at]
                assert factor is not None
                own[-1, k] = factor.solve(rotated[k], own[-1, k])
            np.matmul(self._basis, rotated.T, out=own[:-1])
            own = _rotated(own, None if rotations is None else rotations.transpose(0, 2, 1))
            scaled[:, self._arrays.given(mine)] = self._arrays.given(own)
        return scaled

    def take(self, columns: np.ndarray) -> ScaledGrams:
        """Return those of some models."""
        taken = copy(self)
        taken._diagonals = self._diagonals.take(columns)
        taken._factors = [self._factors[at] for at in columns]
        taken._rotations = self._rotations_of(columns)
        taken.spread = self.spread[columns]
        return taken

    def _rotations_of(self, columns: np.ndarray) -> np.ndarray | None:
        """Return the rotations of the whole models among columns, which come first."""
        if self._rotations is None:
            return None
        n_outputs = self._rotations.shape[1]
        firsts = columns[: len(columns) // n_outputs * n_outputs : n_outputs]
        found: np.ndarray = self._rotations[firsts // n_outputs]
        return found


def _rotated(columns: np.ndarray, rotations: np.ndarray | None) -> np.ndarray:
    """Return the columns of each model times its rotation."""
    if rotations is None:
        return columns
    split = columns.reshape(len(columns), *rotations.shape[:2])
    turned = np.matmul(split.transpose(1, 0, 2), rotations.astype(columns.dtype))
    return np.ascontiguousarray(turned.transpose(1, 0, 2)).reshape(columns.shape)


@dataclass(frozen=True)
class _Bordered:
    """s T + l2, factored, with its border: what is left of s G and the penalty in the basis Q."""

    factor: tuple[np.ndarray, np.ndarray]
    of_border: np.ndarray  # (s T + l2)^-1 s b
    complement: float  # of the border in the whole
    solve_tridiagonal: Any

    @classmethod
    def of(
        cls, gram: TridiagonalGram, scale: float, penalty: tuple[float, float]
    ) -> _Bordered | None:
        """Factor a multiple; None where it is zero, or indefinite by rounding."""
        if not scale > 0.0:
            return None
        dtype = gram.diagonal.dtype.type
        decompose, solve = get_lapack_funcs(("pttrf", "pttrs"), (gram.diagonal,))
        diagonal = dtype(scale) * gram.diagonal + dtype(penalty[0])
        *factor, failed = decompose(
            diagonal, dtype(scale) * gram.off_diagonal, overwrite_d=1, overwrite_e=1
        )
        if failed or not np.isfinite(factor[0][-1]):
            return None
        border = dtype(scale) * gram.border
        of_border = solve(*factor, border)[0]
        complement = scale * gram.corner + penalty[1]
        complement -= float(np.dot(border, of_border))
        if not complement > 0.0:
            return None
        return cls((factor[0], factor[1]), of_border, complement, solve)

    def solve(self, right: np.ndarray, last: float) -> float:
        """Solve in place for a right side, and return the border's number of the solution."""
        found = (float(last) - float(np.dot(self.of_border, right))) / self.complement
        right[:] = self.solve_tridiagonal(*self.factor, right, overwrite_b=1)[0]
        right -= right.dtype.type(found) * self.of_border
        return found


def precondition(
    products: ManyProducts,
    shared: SharedGram,
    curvatures: Any,
    penalty: tuple[float, float],
    has_intercept: bool,
    mixing: np.ndarray | None = None,
) -> Diagonals | ScaledGrams:
    """Return what suits the rows.

    Parameters
    ----------
    products : ManyProducts
        The rows.
    shared : SharedGram
        Filled where it is needed.
    curvatures : array of shape (n_rows, n_models)
        Of all models.
    penalty : (float, float)
        The penalty's strength, on features and on the constant column.
    has_intercept : bool
        Whether the last coefficient moves.
    mixing : ndarray of shape (n_models, n_outputs, n_outputs), default=None
        Of models with several outputs, the sums of their rows' curvatures between these.

    Returns
    -------
    Diagonals or ScaledGrams
        Positive definite.
    """
    is_narrow = _FEWEST_COLUMNS <= products.shape[1] <= _MOST_COLUMNS
    if not (products.is_dense and is_narrow):
        return _diagonals(products, products.adjoint(curvatures, squares_entries=True), penalty)
    arrays = products.arrays
    totals = arrays.totals(curvatures)
    diagonals = _diagonals(products, shared.diagonal(products, curvatures, totals), penalty)
    is_stiff = shared.stiffness(products, curvatures) > _STIFF * penalty[0]
    if not is_stiff.any():
        return diagonals
    if shared.gram is None:
        stiff = arrays.take(curvatures, np.flatnonzero(is_stiff))
        shared.make_gram(products, stiff.mean(axis=1), has_intercept)
    assert shared.gram is not None
    if mixing is None:
        return ScaledGrams(arrays, shared.gram, totals / shared.total, penalty, diagonals)
    strengths, rotations = _between_outputs(mixing, len(totals))
    scales = strengths / shared.total
    return ScaledGrams(arrays, shared.gram, scales, penalty, diagonals, rotations)


def _between_outputs(mixing: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues of models' curvatures between outputs, one a column, and eigenvectors.

    Columns behind the last model's have zeros, as have models that overflowed.
    """
    is_finite = np.isfinite(mixing).all(axis=(1, 2), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(is_finite, mixing, 0.0))
    strengths = np.zeros(width)
    strengths[: values.size] = np.maximum(values, _LEAST_MIXED * values[:, -1:]).ravel()
    return strengths, vectors


def _diagonals(products: ManyProducts, squares: Any, penalty: tuple[float, float]) -> Diagonals:
    """Return the diagonals of Hessians from those of ``X^T diag(curvatures) X``."""
    squares[:-1] += penalty[0]
    squares[-1] += penalty[1]
    squares[squares == 0.0] = 1.0  # an intercept without penalty and rows
    return Diagonals(products.arrays, squares)
