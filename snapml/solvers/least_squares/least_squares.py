"""Least squares, exactly: by normal equations where these are well conditioned, by SVD otherwise.

For every target the minimum of ``sum_i s_i (x_i.w + b - y_i)^2 / 2 + alpha ||w||^2 / 2``, of least
norm where there are several. An unpenalised b is the same as centred data (centered_rows.py).
docs/algorithms.md, section 14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import (
    LinAlgError,
    cho_factor,
    cho_solve,
    eigh,
    get_lapack_funcs,
    svd,
)
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs
from scipy.optimize import nnls
from scipy.sparse.linalg import LinearOperator, lsqr

from snapml.data import Matrix
from snapml.solvers.certificate import certified_gap
from snapml.solvers.communicator import Communicator
from snapml.solvers.least_squares.centered_rows import CenteredRows, work_entries
from snapml.solvers.least_squares.exact_sums import sum_with_products
from snapml.solvers.least_squares.few_columns import solve_few_columns
from snapml.solvers.least_squares.nonnegative import nonnegative_lower_bound
from snapml.solvers.least_squares.result import BY_COLUMNS, LeastSquaresResult, singular_values
from snapml.solvers.rows.cpu_rows import check_rows
from snapml.solvers.threads import (
    blas_threads_for,
    limit_blas_threads,
    resolve_n_threads,
)

__all__ = ["LeastSquaresResult", "is_direct", "solve_least_squares"]

# The largest matrix of scalar products that is formed where iterations would do as well; and where
# all that is left is to decompose the rows.
_MAX_ORDER, _MAX_FACTORED = 1024, 4096
_MOST_COLUMNS_OF_SHARDS = 4096  # whose triangular factors are sent, and decomposed on each
# Normal equations lose twice the digits; with refinement on the residual they lose none while
# their condition number stays below this.
_MIN_RECIPROCAL_CONDITION = 1e-11
_MAX_REFINEMENTS = 5
# Times the largest eigenvalue that may be zero: what is more is not.
_CLEARLY = 100.0
# Share of the targets' norm, or of the slopes' bound, that LSQR may leave; how many steps are worth
# a try; and what it answers where they were not enough.
_TINY, _FEW_STEPS, _REACHED_LIMIT = 1e-13, 300, 7
# Steps that take as long as a factor of the rows' products, of up to so many rows.
_STEPS_OF_FACTOR, _QUICK_FACTOR = 150, 1000
# Share of the tolerance that conjugate gradients leave; the rest is for rounding of the model.
_SHARE_OF_TOL = 0.1
_REFINED = 1e-11  # a relative correction below which another changes nothing

_Solve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class _Solution:
    """Coefficients, one column per target, and how to apply the inverse Hessian of a target."""

    coef: np.ndarray
    description: str
    decrement: Callable[[np.ndarray, int], float] | None = None
    rank: int | None = None
    singular: np.ndarray | None = None
    squares: np.ndarray | None = None  # of the columns' norms, where coefficients are positive
    lower: np.ndarray | None = None  # what no coefficients have less than, of each target


def is_direct(shape: tuple[int, int]) -> bool:
    """Say whether the normal equations of such a matrix are small enough to be solved.

    Parameters
    ----------
    shape : tuple of int
        Numbers of rows and columns.

    Returns
    -------
    bool
        Whether rows or columns are few enough.
    """
    return min(shape) <= _MAX_ORDER


def solve_least_squares(
    matrix: Matrix,
    targets: np.ndarray,
    row_weights: np.ndarray | None,
    fit_intercept: bool,
    *,
    alphas: np.ndarray | float = 0.0,
    is_positive: bool = False,
    tol: float = 1e-6,
    n_threads: int | None = None,
    communicator: Communicator | None = None,
    rows: CenteredRows | None = None,
) -> LeastSquaresResult:
    """Minimise the sum of squares of every target.

    Parameters
    ----------
    matrix : Matrix
        The rows x_i.
    targets : ndarray of shape (n_rows, n_targets)
        y, finite.
    row_weights : ndarray of shape (n_rows,) or None
        s_i; None means that all are one.
    fit_intercept : bool
        Whether there is an unpenalised b.
    alphas : float or ndarray of shape (n_targets,), default=0.0
        Strength of the penalty, at least zero.
    is_positive : bool, default=False
        Whether negative coefficients are forbidden.
    tol : float, default=1e-6
        Singular values below `tol` times the largest count as zero where alpha is zero; also the
        tolerance of LSQR, where the matrix is too large for everything else.
    n_threads : int or None, default=None
        Threads of BLAS; None means all that the process may use, one on small data.
    communicator : Communicator or None, default=None
        The other shards of the rows; all of them get the same model.
    rows : CenteredRows or None, default=None
        The same rows, checked, weighted and centred, where they are at hand.

    Returns
    -------
    LeastSquaresResult
        Evaluated in float64 at the coefficients as rounded to the matrix's dtype.

    Raises
    ------
    NonFiniteError
        If an entry of the matrix is NaN or infinite.
    ValueError
        If the matrix is broken, or squares of its entries would overflow.
    NotImplementedError
        If there are several shards, and too many columns to decompose on each.
    """
    strengths = np.full(targets.shape[1], alphas, dtype=np.float64)
    if not is_positive:
        found = solve_few_columns(
            matrix, targets, row_weights, fit_intercept, strengths, communicator, n_threads
        )
        if found is not None:
            return found
    if rows is None:
        check_rows(matrix, n_threads)
    n_threads = _check_shards(matrix, n_threads, communicator)
    n_operations = float(work_entries(matrix)) * min(matrix.shape)
    n_most = resolve_n_threads(n_threads, work_entries(matrix))
    with limit_blas_threads(n_most), blas_threads_for(n_operations):
        if rows is None:
            rows = CenteredRows(matrix, row_weights, fit_intercept, communicator, n_most)
        centered, *target_means = rows.center(targets)
        solve = _solve_positive if is_positive else _solve_any_sign
        with np.errstate(over="ignore", invalid="ignore"):  # refused by the caller as not finite
            solution = solve(rows, centered, strengths, tol)
            coef = solution.coef.T.astype(matrix.dtype)
            intercept, beside = _rounded_intercepts(rows, target_means, coef)
            gap, objective, sums = _certify(
                rows, centered, strengths, coef.astype(np.float64), solution, is_positive
            )
    result = LeastSquaresResult(
        coef,
        intercept,
        solution.rank,
        solution.singular,
        gap,
        objective,
        solution.description,
    )
    return result.with_intercepts(beside, sums, rows.total_weight) if fit_intercept else result


def _rounded_intercepts(
    rows: CenteredRows, target_means: list[np.ndarray], coef: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return intercepts in the type of the coefficients, and by how much they were rounded.

    Means far from zero are subtracted from each other here.
    """
    intercept, beside = np.zeros(len(coef), coef.dtype), np.zeros(len(coef))
    for k, wide in enumerate(coef.astype(np.float64)):
        means = [float(mean[k]) for mean in target_means]
        rest = float(rows.mean_rest @ wide)
        intercept[k] = sum_with_products([*means, -rest], -rows.mean, wide)
        own = [float(intercept[k]), rest, *(-mean for mean in means)]
        beside[k] = sum_with_products(own, rows.mean, wide)
    return intercept, beside


def _check_shards(
    matrix: Matrix, n_threads: int | None, communicator: Communicator | None
) -> int | None:
    """Refuse what shards cannot solve; return the threads: one where all must round alike."""
    if communicator is None or communicator.size == 1:
        return n_threads
    if matrix.shape[1] > _MOST_COLUMNS_OF_SHARDS:
        raise NotImplementedError(
            f"least squares of {matrix.shape[1]} columns on several ranks: expected at most "
            f"{_MOST_COLUMNS_OF_SHARDS}; Ridge with a small alpha takes any number of them"
        )
    return 1


def _solve_any_sign(
    rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, tol: float
) -> _Solution:
    """Choose the cheapest way that is exact."""
    n_rows, n_features = rows.n_rows_of_all, rows.shape[1]
    is_alone, solution = rows.communicator.size == 1, None
    is_free = not alphas.any()
    is_small = min(n_rows, n_features) <= _MAX_FACTORED
    if n_features <= n_rows and is_small:
        gram, products = rows.gram_and_products(targets)
        solution = _by_columns(rows, targets, alphas, gram, products)
        if solution is None and is_alone and is_free:
            solution = _by_steps_along_columns(rows, targets, tol, gram)
            solution = solution or _by_directions(rows, targets, tol, gram, products)
    elif is_alone and is_small and is_free:
        solution = _by_steps_along_rows(rows, targets) or _by_factor_of_rows(rows, targets)
        solution = solution or _by_span(rows, targets, tol)
    elif is_alone and is_small and alphas.min() > 0:
        solution = _by_gradients(rows, targets, alphas, tol) or _by_rows(rows, targets, alphas)
    if solution is not None:
        return solution
    if rows.is_dense or not is_alone:
        return _by_svd(rows, targets, alphas, tol)
    return _by_lsqr(rows, targets, alphas, tol)


def _by_columns(
    rows: CenteredRows,
    targets: np.ndarray,
    alphas: np.ndarray,
    gram: np.ndarray,
    products: np.ndarray,
) -> _Solution | None:
    """Solve the normal equations, refined on the residual; None where they are ill conditioned."""
    solves = _inverses(gram, alphas)
    if solves is None:
        return None
    coef = _refined_by_columns(rows, targets, alphas, products, lambda slope: _each(solves, slope))
    singular = None
    if not (alphas.any() or rows.stays_sparse):  # nobody is told those of sparse rows
        singular = singular_values(gram)

    def decrement(gradient: np.ndarray, target: int) -> float:
        return float(gradient @ solves[target](gradient)) / 2

    return _Solution(coef, BY_COLUMNS, decrement, rows.shape[1], singular)


def _refined_by_columns(
    rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, products: np.ndarray, solve: _Solve
) -> np.ndarray:
    """Return coefficients refined on the residual.

    `products` are those of the columns with the targets; `solve` applies the inverse of the
    columns' products and the penalty.
    """
    coef = np.zeros((rows.shape[1], targets.shape[1]))
    for number in range(_MAX_REFINEMENTS + 1):
        if number:
            products = rows.residual(targets, coef)[1]
        step = solve(products - alphas * coef)
        coef += step
        if np.all(np.linalg.norm(step, axis=0) <= _REFINED * np.linalg.norm(coef, axis=0)):
            break
    return coef


def _by_gradients(
    rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, tol: float
) -> _Solution | None:
    """Solve for one number per sparse row by conjugate gradients, which half of the squares ends.

    Half the square of what is left of the equations is the duality gap. None without a tolerance,
    or where it takes too many steps.
    """
    if not rows.stays_sparse or tol <= 0.0:
        return None
    duals, left = np.zeros_like(targets), targets.copy()
    scale = 1.0 / (rows.square_lengths()[:, np.newaxis] + alphas)
    step, square = np.zeros_like(targets), np.ones(targets.shape[1])
    objective = 0.5 * _inner(targets, targets)  # that without a model: it only falls
    for _ in range(_FEW_STEPS):
        scaled = scale * left
        next_square = _inner(left, scaled)
        step *= next_square / square
        step += scaled
        square = np.where(next_square > 0.0, next_square, 1.0)
        product = rows.dot(rows.transposed_dot(step))
        product += alphas * step
        along = _inner(step, product)
        length = next_square / np.where(along > 0.0, along, 1.0)
        duals += length * step
        left -= length * product
        gaps = 0.5 * _inner(left, left)
        if np.any(gaps > _SHARE_OF_TOL * tol * objective):
            continue
        damped = alphas * duals
        squares, products = _inner(left + damped, left + damped), targets - left - damped
        objective = 0.5 * (squares + alphas * _inner(duals, products))
        if np.all(gaps <= _SHARE_OF_TOL * tol * objective):
            break
    else:
        return None
    coef = rows.transposed_dot(duals)
    norms = alphas * np.sum(duals**2, axis=0) + np.sum(coef**2, axis=0)
    lower = alphas * (np.sum(duals * targets, axis=0) - 0.5 * norms)
    return _Solution(coef, "conjugate gradients along the rows", lower=lower)


def _inner(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the scalar product of each column with the other array's."""
    found: np.ndarray = np.einsum("ij,ij->j", left, right)
    return found


def _by_rows(rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray) -> _Solution | None:
    """Solve for one number per row, where rows are fewer than columns."""
    solves = _inverses(rows.kernel(), alphas)
    if solves is None:
        return None
    coef = _refined_by_rows(rows, targets, alphas, lambda residual: _each(solves, residual))
    return _Solution(coef, "normal equations of the rows (Cholesky), refined")


def _refined_by_rows(
    rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, solve: _Solve
) -> np.ndarray:
    """Return coefficients in the span of the rows, refined on the residual.

    `solve` applies the inverse of the rows' products and the penalty.
    """
    duals = np.zeros_like(targets)
    coef = np.zeros((rows.shape[1], targets.shape[1]))
    for _ in range(_MAX_REFINEMENTS + 1):
        step = solve(targets - rows.dot(coef) - alphas * duals)
        duals += step
        coef = rows.transposed_dot(duals)
        if np.all(np.linalg.norm(step, axis=0) <= _REFINED * np.linalg.norm(duals, axis=0)):
            break
    return coef


def _by_steps_along_rows(rows: CenteredRows, targets: np.ndarray) -> _Solution | None:
    """Interpolate sparse rows by few steps of LSQR, which begins, and stays, in their span.

    None where few are not enough: no sum of squares is less than zero, which alone certifies.
    """
    if not rows.stays_sparse:
        return None
    columns = []
    is_quick = len(targets) <= _QUICK_FACTOR
    most_steps = min(_STEPS_OF_FACTOR, _FEW_STEPS) if is_quick else _FEW_STEPS
    for target in targets.T:
        coef = lsqr(_operator(rows), target, atol=0.0, btol=_TINY, iter_lim=most_steps)[0]
        residual = target - rows.dot(coef[:, np.newaxis]).ravel()
        if not np.linalg.norm(residual) <= 2.0 * _TINY * np.linalg.norm(target):
            return None
        columns.append(coef)
    return _Solution(np.column_stack(columns), "LSQR, which interpolates the rows")


def _by_factor_of_rows(rows: CenteredRows, targets: np.ndarray) -> _Solution | None:
    """Interpolate sparse rows that are independent but for their centre, by a Cholesky factor.

    Centred rows sum up to zero, with the roots of their weights; targets do, and the products of
    those roots make the rows' products definite without changing the answer. None where they are
    ill conditioned, or for dense rows, whose singular values are told.
    """
    if not rows.stays_sparse:
        return None
    roots = np.sqrt(rows.weights)
    kernel = rows.kernel().copy()
    if rows.has_intercept:
        kernel += np.outer(roots, roots) * (np.trace(kernel) / (len(roots) * rows.total_weight))
    solve = _inverse(kernel, 0.0)
    if solve is None:
        return None
    coef = _refined_by_rows(rows, targets, np.zeros(targets.shape[1]), solve)
    residual = targets - rows.dot(coef)
    if not np.all(np.sum(residual**2, axis=0) <= (2.0 * _TINY) ** 2 * np.sum(targets**2, axis=0)):
        return None
    return _Solution(coef, "normal equations of the rows (Cholesky), which interpolates them")


def _by_steps_along_columns(
    rows: CenteredRows, targets: np.ndarray, tol: float, gram: np.ndarray
) -> _Solution | None:
    """Solve for dependent columns of sparse rows by few steps of LSQR, in the span of the rows.

    None where few are not enough. The certificate's inverse is that of the columns' products and
    the square of the least singular value that does not count as zero: at least half of the inverse
    in all directions that count.
    """
    if not rows.stays_sparse:
        return None
    least = max(tol**2, _CLEARLY * len(gram) * float(np.finfo(np.float64).eps))
    least *= float(np.abs(gram).sum(axis=0).max())
    try:
        with blas_threads_for(len(gram) ** 3 / 3):
            shifted = gram + least * np.eye(len(gram))
            factor = cho_factor(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    columns = []
    for target in targets.T:
        found = lsqr(_operator(rows), target, atol=_TINY, btol=_TINY, iter_lim=_FEW_STEPS)
        if found[1] == _REACHED_LIMIT:
            return None
        columns.append(found[0])

    def decrement(gradient: np.ndarray, _: int) -> float:
        return float(gradient @ cho_solve(factor, gradient, check_finite=False))

    return _Solution(np.column_stack(columns), "LSQR, dependent columns", decrement)


class _Directions:
    """Eigenvectors of products of rows or columns: those that count, and those that are zero.

    Attributes
    ----------
    n_kept : int
        How many count.
    others : ndarray of shape (size, size - n_kept)
        Those along which the products are zero.
    singular : ndarray of shape (size,)
        Square roots of the eigenvalues, from the largest on; 0 for the others.
    """

    def __init__(self, values: np.ndarray, vectors: np.ndarray, is_kept: np.ndarray) -> None:
        self._values, self._vectors = values[is_kept], vectors[:, is_kept]
        self.n_kept, self.others = len(self._values), vectors[:, ~is_kept]
        self.singular = np.zeros(len(values))
        self.singular[: self.n_kept] = np.sqrt(self._values[::-1])

    @classmethod
    def of(cls, products: np.ndarray, tol: float) -> _Directions | None:
        """Return those of a symmetric matrix.

        None where an eigenvalue is neither clearly zero nor clearly not: products are squares, and
        what they lose decides about the rank.
        """
        if not np.isfinite(products).all():
            return None
        with blas_threads_for(9.0 * len(products) ** 3):
            values, vectors = eigh(products, check_finite=False)
        zero = max(tol**2, len(products) * float(np.finfo(np.float64).eps)) * values[-1]
        is_kept = values > _CLEARLY * zero
        if not is_kept.any() or np.any(values[~is_kept] > zero):
            return None
        return cls(values, vectors, is_kept)

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Return the inverse along those that count times a vector, or columns of vectors."""
        return np.asarray(self._vectors @ ((self._vectors.T @ vector).T / self._values).T)


def _by_directions(
    rows: CenteredRows, targets: np.ndarray, tol: float, gram: np.ndarray, products: np.ndarray
) -> _Solution | None:
    """Solve for dependent columns along the eigenvectors of their products, refined: least norm.

    None where these have no clear rank, or the rows have a length along one that is zero.
    """
    directions = _Directions.of(gram, tol)
    if directions is None:
        return None
    lengths = rows.total(np.sum(rows.dot(directions.others) ** 2, axis=0))
    largest_side = max(rows.n_rows_of_all, len(gram))
    noise = directions.singular[0] * largest_side * float(np.finfo(np.float64).eps)
    if np.any(lengths > noise**2):
        return None
    none = np.zeros(targets.shape[1])
    coef = _refined_by_columns(rows, targets, none, products, directions.solve)

    def decrement(gradient: np.ndarray, _: int) -> float:
        return float(gradient @ directions.solve(gradient)) / 2

    name = "eigenvectors of the columns' products, refined"
    return _Solution(coef, name, decrement, directions.n_kept, directions.singular)


def _operator(rows: CenteredRows) -> LinearOperator:
    return LinearOperator(
        shape=rows.shape,
        matvec=lambda v: rows.dot(v.reshape(-1, 1)).ravel(),
        rmatvec=lambda v: rows.transposed_dot(v.reshape(-1, 1)).ravel(),
        dtype=np.float64,
    )


def _by_span(rows: CenteredRows, targets: np.ndarray, tol: float) -> _Solution | None:
    """Solve without a penalty for one number per row, refined: least norm.

    None where the rows' products have no clear rank.
    """
    directions = _Directions.of(rows.kernel(), tol)
    if directions is None:
        return None

    def decrement(gradient: np.ndarray, _: int) -> float:
        return float(np.sum(directions.solve(rows.dot(gradient[:, np.newaxis])) ** 2)) / 2

    coef = _refined_by_rows(rows, targets, np.zeros(targets.shape[1]), directions.solve)
    name = "eigenvectors of the rows' products, refined"
    return _Solution(coef, name, decrement, directions.n_kept, directions.singular)


def _by_svd(rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, tol: float) -> _Solution:
    """Solve by singular value decomposition: exact at any condition, and of least norm."""
    array, targets = rows.reduced(targets)
    left, singular, right = svd(array, full_matrices=False, check_finite=False)
    largest = singular[0] if len(singular) else 0.0
    largest_side = max(rows.n_rows_of_all, rows.shape[1])
    noise = largest * largest_side * float(np.finfo(np.float64).eps)
    is_kept = singular > max(tol * largest, noise)
    projected = left.T @ targets
    # Without a penalty small singular values are cut off; with one, it damps them already.
    kept = np.where(alphas > 0, (singular > noise)[:, np.newaxis], is_kept[:, np.newaxis])
    curvature = (singular**2)[:, np.newaxis] + alphas
    # Squares that vanish leave infinite factors, which the caller refuses.
    with np.errstate(divide="ignore"):
        factors = np.where(kept, singular[:, np.newaxis] / np.where(kept, curvature, 1.0), 0.0)
    coef = right.T @ (factors * projected)

    def decrement(gradient: np.ndarray, target: int) -> float:
        along = (right @ gradient)[singular > noise]
        return float(np.sum(along**2 / curvature[singular > noise, target])) / 2

    return _Solution(coef, "singular value decomposition", decrement, int(is_kept.sum()), singular)


def _by_lsqr(rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, tol: float) -> _Solution:
    """Solve by LSQR, which only multiplies: for sparse data too large for anything else."""
    operator = _operator(rows)
    columns = [
        lsqr(operator, target, damp=np.sqrt(alpha), atol=tol, btol=tol, iter_lim=None)[0]
        for target, alpha in zip(targets.T, alphas, strict=True)
    ]
    return _Solution(np.column_stack(columns), "LSQR")


def _solve_positive(
    rows: CenteredRows, targets: np.ndarray, alphas: np.ndarray, tol: float
) -> _Solution:
    """Solve with coefficients of at least zero, by the active-set method of SciPy's nnls."""
    n_features = rows.shape[1]
    gram: np.ndarray | None = None
    if n_features <= _MAX_ORDER:
        gram, products = rows.gram_and_products(targets)
    else:
        products = rows.transposed_dot(targets)
    reduced: tuple[np.ndarray, np.ndarray] | None = None
    columns = []
    for target, alpha in enumerate(alphas):
        root = None if gram is None else _root(gram, alpha)
        if root is not None:
            # ||root w - rhs||^2 is the sum of squares up to a constant: n_rows no longer matter.
            rhs = np.linalg.solve(root.T, products[:, target])
            design = root
        else:
            reduced = rows.reduced(targets) if reduced is None else reduced
            penalty = np.sqrt(alpha) * np.eye(n_features)[: n_features if alpha > 0 else 0]
            design = np.vstack([reduced[0], penalty])
            rhs = np.concatenate([reduced[1][:, target], np.zeros(len(penalty))])
        columns.append(nnls(design, rhs, maxiter=max(100, 30 * n_features))[0])
    if reduced is not None:
        squares = np.sum(reduced[0] ** 2, axis=0)
    else:
        assert gram is not None
        squares = np.diag(gram)
    name = "non-negative least squares (active set)"
    return _Solution(np.column_stack(columns), name, squares=squares)


def _certify(
    rows: CenteredRows,
    targets: np.ndarray,
    alphas: np.ndarray,
    coef: np.ndarray,
    solution: _Solution,
    is_positive: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gap, objective and sum of the residuals of every target, for the means' intercept.

    The objective is quadratic: at a gradient g it is g.inverse(H).g / 2 above its minimum, which
    is at most g.g / (2 alpha), a bound that trusts no factorisation.
    """
    residual, products = rows.residual(targets, coef.T)
    sums = rows.sums(residual)
    gradient = alphas * coef.T - products
    squares = rows.total(np.sum(residual**2, axis=0)) / 2
    objective = squares + alphas * np.sum(coef**2, axis=1) / 2
    gaps = []
    for target, alpha in enumerate(alphas):
        slope = gradient[:, target]
        bound = np.inf if is_positive else objective[target]  # no sum of squares is less than zero
        if is_positive and alpha > 0:
            bound = _positive_gap(slope, coef[target], alpha)
        elif is_positive:
            assert solution.squares is not None
            t, r = targets[:, target], residual[:, target]
            bound = objective[target] - nonnegative_lower_bound(rows, solution.squares, t, r)
        else:
            if alpha > 0:
                bound = min(bound, float(slope @ slope) / (2 * alpha))
            if solution.lower is not None:
                bound = min(bound, float(objective[target] - solution.lower[target]))
            if solution.decrement is not None:
                bound = min(bound, solution.decrement(slope, target))
        gaps.append(certified_gap(objective[target], objective[target] - bound))
    return np.array(gaps), objective, sums


def _positive_gap(slope: np.ndarray, coef: np.ndarray, alpha: float) -> float:
    """Return what a model can be above the minimum over w >= 0, by the penalty's curvature."""
    move = np.maximum(0.0, coef - slope / alpha) - coef
    return float(-np.sum(slope * move + alpha * move**2 / 2))


def _inverses(matrix: np.ndarray, alphas: np.ndarray) -> list[_Solve] | None:
    """Return, per target, how to solve with matrix + alpha; None where that is ill conditioned."""
    by_alpha: dict[float, _Solve | None] = {}
    for alpha in np.unique(alphas):
        by_alpha[float(alpha)] = solve = _inverse(matrix, float(alpha))
        if solve is None:
            return None
    return [by_alpha[float(alpha)] for alpha in alphas]  # type: ignore[misc]


def _inverse(matrix: np.ndarray, alpha: float) -> _Solve | None:
    """Return how to solve with matrix + alpha, scaled to a unit diagonal."""
    shifted = matrix + alpha * np.eye(len(matrix))
    diagonal = np.diag(shifted)
    if not (np.isfinite(diagonal).all() and diagonal.min(initial=1.0) > 0):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    shifted *= scale
    shifted *= scale[:, np.newaxis]
    norm = float(np.abs(shifted).sum(axis=0).max(initial=0.0))
    # LAPACK by itself: of few columns SciPy's own functions take longer than what they call.
    with blas_threads_for(len(shifted) ** 3 / 3):
        factor, info = dpotrf(shifted.T, lower=True, overwrite_a=True, clean=False)
    if info != 0 or not dpocon(factor, norm, uplo="L")[0] > _MIN_RECIPROCAL_CONDITION:
        return None

    def solve(values: np.ndarray) -> np.ndarray:
        scaled = (scale * values.T).T
        found: np.ndarray = (scale * dpotrs(factor, scaled, lower=True)[0].T).T
        return found

    return solve


def _root(gram: np.ndarray, alpha: float) -> np.ndarray | None:
    """Return upper R with R.T R = gram + alpha, None where that loses too many digits."""
    shifted = gram + alpha * np.eye(len(gram))
    norm = float(np.linalg.norm(shifted, 1))
    try:
        with blas_threads_for(len(shifted) ** 3 / 3):
            root = np.linalg.cholesky(shifted).T
    except np.linalg.LinAlgError:
        return None
    (reciprocal_condition,) = get_lapack_funcs(("pocon",), (root,))
    # Without refinement, normal equations must keep half of the digits.
    good = reciprocal_condition(np.asfortranarray(root), norm, uplo="U")[0] > 1e-7
    return root if good else None


def _each(solves: list[_Solve], values: np.ndarray) -> np.ndarray:
    """Solve every target's column, together where all share one matrix."""
    if all(solve is solves[0] for solve in solves):
        return solves[0](values)
    columns = [solve(column) for solve, column in zip(solves, values.T, strict=True)]
    return np.column_stack(columns)
