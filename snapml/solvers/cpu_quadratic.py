"""Working sets of columns: the loss's quadratic model on them, and its minimiser."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from snapml import _native
from snapml.problems import Intercept, Penalty
from snapml.solvers.cpu_columns import CpuColumns, penalty_conjugate, penalty_value
from snapml.solvers.cpu_packed import DenseChunk, SparseColumns, dense_gram
from snapml.solvers.result import overflow_error

__all__ = ["Model", "WorkingSet", "working_set"]

_MOST_GRAM_COLUMNS = 6000
_MOST_SPARSE_GRAM = 400
_MOST_SWEEPS = 1000
_SWEEPS_PER_NEWTON = 12
_SWEEPS_PER_MODEL = 60  # of one that the next Newton step replaces
# Share of the curvature that may have changed since a Gram matrix was formed: the step is then a
# little shorter of the minimum, and a new matrix costs far more than another step.
_MOST_DRIFT = 0.15
_FEW_COLUMNS = 150  # whose Gram matrix costs little more than a read of the data


class WorkingSet(Protocol):
    """Some columns, and how to minimise the penalised quadratic model on them."""

    columns: np.ndarray

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the columns' sum weighted by `coef`, one number per row."""

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model to within about `target`."""


class Model:
    """sum_i g_i u_i + h_i u_i^2 / 2 + R(coef), u the change of the margins.

    Attributes
    ----------
    slopes : ndarray of shape (n_columns,)
        X^T g of the working set's columns.
    gradients, curvatures : ndarray of shape (n_rows,)
        g_i and h_i.
    penalty : Penalty
        R.
    must_be_fresh : bool
        Whether a Gram matrix of curvatures that have changed a little will not do.
    """

    def __init__(
        self,
        slopes: np.ndarray,
        gradients: np.ndarray,
        curvatures: np.ndarray,
        penalty: Penalty,
        must_be_fresh: bool = False,
    ) -> None:
        self.must_be_fresh = must_be_fresh
        self.slopes = slopes
        self.gradients = gradients
        self.curvatures = curvatures
        self.penalty = penalty

    @property
    def residual_sq(self) -> float:
        """sum_i g_i^2 / h_i, what the model could gain if every margin were free."""
        is_curved = self.curvatures > 0.0
        r, h = self.gradients[is_curved], self.curvatures[is_curved]
        return float(r @ (r / h))


def working_set(engine: CpuColumns, columns: np.ndarray, before: WorkingSet | None) -> WorkingSet:
    """Return a working set that holds `columns`, and what was packed before where that saves work.

    Parameters
    ----------
    engine : CpuColumns
        Where the columns come from.
    columns : ndarray
        Sorted numbers of columns.
    before : WorkingSet or None
        The last one.

    Returns
    -------
    WorkingSet
        Its ``columns`` say which ones, in which order.
    """
    if engine.is_sparse:
        if before is not None and np.array_equal(before.columns, columns):
            return before
        return _SparseSet(engine, columns)
    if len(columns) > _MOST_GRAM_COLUMNS:
        return _ColumnSet(engine, columns)
    if isinstance(before, _GramSet):
        missing = np.setdiff1d(columns, before.columns)
        if len(missing) == 0:
            return before
        if len(before.columns) + len(missing) <= 1.5 * len(columns) + 50:
            before.extend(missing)
            return before
    fresh = _GramSet(engine)
    fresh.extend(columns)
    return fresh


class _GramSet:
    """Columns of dense rows, and their Gram matrix: descents on it read no data."""

    def __init__(self, engine: CpuColumns) -> None:
        self._engine = engine
        self._chunks: list[DenseChunk] = []
        self.columns = np.empty(0, dtype=np.int64)
        self._gram: np.ndarray | None = None
        self._reference: np.ndarray | None = None  # curvatures of the Gram matrix
        self._n_formed = 0

    def extend(self, columns: np.ndarray) -> None:
        """Add columns that are not yet in the set."""
        engine = self._engine
        own = columns[columns < engine.n_features]
        if len(own) == engine.n_features:
            self._chunks.append(DenseChunk(engine, None))
            rest = columns[len(own) :]
        else:
            rest = columns
        if len(rest):
            self._chunks.append(DenseChunk(engine, rest))
        self.columns = np.concatenate([self.columns, columns])

    def product(self, coef: np.ndarray) -> np.ndarray:
        parts = np.split(coef, np.cumsum([chunk.n_cols for chunk in self._chunks])[:-1])
        total = self._chunks[0].product(parts[0])
        for chunk, part in zip(self._chunks[1:], parts[1:], strict=True):
            total += chunk.product(part)
        return total

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        return np.concatenate([chunk.adjoint(vector) for chunk in self._chunks])

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        gram = self._gram_for(model.curvatures, model.must_be_fresh)
        return _minimise_on_gram(gram, model, coef, target)

    def _gram_for(self, curvatures: np.ndarray, must_be_fresh: bool) -> np.ndarray:
        """Return the Gram matrix of the model, an old one where curvatures have changed little."""
        if self._reference is not None:
            allowed = 0.0 if must_be_fresh else _allowed_drift(len(self.columns))
            if self._drift(curvatures) > allowed:
                self._gram, self._n_formed = None, 0
        if self._gram is None:
            self._reference = curvatures.copy()
        n_old = self._n_formed
        widths = np.cumsum([0] + [chunk.n_cols for chunk in self._chunks])
        split = int(np.searchsorted(widths, n_old))
        if split < len(self._chunks):
            means = self._means()
            old, new = self._chunks[:split], self._chunks[split:]
            assert self._reference is not None
            fresh = dense_gram(old, new, self._reference, means, self._engine.n_threads)
            gram = np.empty((widths[-1], widths[-1]), dtype=self._engine.dtype)
            if self._gram is not None:
                gram[:n_old, :n_old] = self._gram
            gram[:, n_old:] = fresh
            gram[n_old:, :n_old] = fresh[:n_old].T
            self._gram, self._n_formed = gram, int(widths[-1])
        assert self._gram is not None
        return self._gram

    def _means(self) -> list[np.ndarray]:
        """Return the columns' means under the curvatures, zeros where the intercept is not free."""
        if self._engine.problem.intercept is not Intercept.FREE:
            return [np.zeros(chunk.n_cols) for chunk in self._chunks]
        assert self._reference is not None
        total = max(float(self._reference.sum()), np.finfo(np.float64).tiny)
        return [chunk.adjoint(self._reference) / total for chunk in self._chunks]

    def _drift(self, curvatures: np.ndarray) -> float:
        assert self._reference is not None
        scale = float(np.abs(self._reference).sum())
        return float(np.abs(curvatures - self._reference).sum()) / max(scale, 1e-300)


def _allowed_drift(n_columns: int) -> float:
    return _MOST_DRIFT if n_columns > _FEW_COLUMNS else 0.01


class _SparseSet:
    """Columns of compressed rows: a Gram matrix of few, a descent on many."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self._packed = SparseColumns(engine, columns)
        self.columns = columns
        self.product, self.adjoint = self._packed.product, self._packed.adjoint
        self._gram: np.ndarray | None = None

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        is_free = self._engine.problem.intercept is Intercept.FREE
        if len(self.columns) > _MOST_SPARSE_GRAM:
            return _minimise_on_columns(
                self._engine, self._packed.native, model, coef, target, is_free
            )
        sums = self.adjoint(model.curvatures) if is_free else None
        gram = self._packed.gram(model.curvatures, sums)
        return _minimise_on_gram(gram, model, coef, target)


class _ColumnSet:
    """More columns of dense rows than a Gram matrix is worth."""

    def __init__(self, engine: CpuColumns, columns: np.ndarray) -> None:
        self._engine = engine
        self.columns = columns
        self._values = np.empty((len(columns), engine.n_rows), dtype=engine.dtype)
        _native.pack_dense(engine.pool, engine.rows, columns, engine.tau, True, self._values)
        self._native = _native.Columns.dense(self._values, engine.n_rows)

    def product(self, coef: np.ndarray) -> np.ndarray:
        out = np.zeros(self._engine.n_rows)
        _native.columns_product(self._native, coef, out)
        return out

    def adjoint(self, vector: np.ndarray) -> np.ndarray:
        out = np.empty(len(self.columns))
        _native.columns_adjoint(self._engine.pool, self._native, vector, out)
        return out

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        is_free = self._engine.problem.intercept is Intercept.FREE
        return _minimise_on_columns(self._engine, self._native, model, coef, target, is_free)


def _minimise_on_columns(
    engine: CpuColumns,
    columns: _native.Columns,
    model: Model,
    coef: np.ndarray,
    target: float,
    is_free: bool,
) -> np.ndarray:
    """Descend on the columns themselves."""
    h = model.curvatures
    is_exact = not engine.problem.loss.is_classification
    if engine.has_equal_weights and is_exact:
        states, weight = np.zeros(engine.n_rows, dtype=engine.dtype), float(h[0])
    else:
        states, weight = np.zeros((engine.n_rows, 2), dtype=engine.dtype), 0.0
        states[:, 0] = h
    sums, squares = np.empty(len(coef)), np.empty(len(coef))
    _native.column_curvatures(columns, states, weight, sums, squares)
    if not np.isfinite(squares).all():
        raise overflow_error(engine.dtype)
    total = max(float(h.sum()), np.finfo(np.float64).tiny)
    if is_free:
        squares = np.maximum(0.0, squares - sums**2 / total)
    found = coef.copy()
    penalty = model.penalty
    _native.column_descent(
        columns,
        states,
        weight,
        model.slopes,
        squares,
        sums if is_free else None,
        total,
        found,
        penalty.l1,
        penalty.l2,
        penalty.is_positive,
        _MOST_SWEEPS if is_exact else _SWEEPS_PER_MODEL,
        target,
    )
    return found


def _minimise_on_gram(
    gram: np.ndarray, model: Model, coef: np.ndarray, target: float
) -> np.ndarray:
    """Alternate coordinate descent with Newton steps on the support until the model's gap is met.

    Descent finds the support; on a fixed one it crawls where columns are nearly collinear, and
    there one Cholesky factor solves the rest.
    """
    if not np.isfinite(gram.diagonal()).all():
        raise overflow_error(gram.dtype)
    penalty = model.penalty
    ridge = np.zeros(len(coef))
    found, gradient = coef.copy(), model.slopes.copy()
    residual_sq = model.residual_sq
    for _ in range(_MOST_SWEEPS // _SWEEPS_PER_NEWTON):
        _native.gram_descent(
            gram,
            ridge,
            penalty.l1,
            penalty.l2,
            penalty.is_positive,
            found,
            gradient,
            _SWEEPS_PER_NEWTON,
            0.3 * target,
        )
        gap = _model_gap(model, residual_sq, coef, found, gradient)
        if gap <= target:
            break
        _newton_step(gram, model, found, gradient)
    return found


def _model_gap(
    model: Model, residual_sq: float, coef: np.ndarray, found: np.ndarray, gradient: np.ndarray
) -> float:
    """Return the duality gap of the quadratic model at `found`."""
    penalty, step, point = model.penalty, found - coef, -gradient
    product = float(step @ model.slopes)  # sum_i g_i u_i
    square = float(step @ (gradient - model.slopes))  # sum_i h_i u_i^2
    primal = product + 0.5 * square + penalty_value(penalty, found)
    scale = feasible_scale(penalty, point)
    rest = 1.0 - scale
    fit = 0.5 * rest**2 * residual_sq - scale * rest * product + 0.5 * scale**2 * square
    conjugate = penalty_conjugate(penalty, point) if penalty.l2 else 0.0
    return primal + fit - scale * float(point @ coef) + conjugate


def feasible_scale(penalty: Penalty, point: np.ndarray) -> float:
    """Return the largest factor up to 1 at which a dual point is in the domain of R*.

    Parameters
    ----------
    penalty : Penalty
        R.
    point : ndarray
        X^T beta.

    Returns
    -------
    float
        1 where l2 makes the domain the whole space.
    """
    if penalty.l2 or len(point) == 0:
        return 1.0
    largest = float(np.max(point if penalty.is_positive else np.abs(point)))
    return 1.0 if largest <= penalty.l1 else penalty.l1 / largest


def _newton_step(gram: np.ndarray, model: Model, found: np.ndarray, gradient: np.ndarray) -> bool:
    """Minimise over the support with its signs kept; return whether that moved anything."""
    penalty = model.penalty
    support = np.flatnonzero(found)
    if len(support) == 0:
        return False
    signs = np.sign(found[support])
    slope = gradient[support] + penalty.l2 * found[support] + penalty.l1 * signs
    block = gram[np.ix_(support, support)].astype(np.float64)
    root = 1.0 / np.sqrt(np.maximum(np.diag(block) + penalty.l2, np.finfo(np.float64).tiny))
    block *= np.outer(root, root)
    block[np.diag_indices_from(block)] += penalty.l2 * root**2
    direction = -root * _solve(block, root * slope)
    # Coefficients that would change sign rest at zero, where the descent takes them up again. If
    # that gains nothing, the step ends where the first of them gets there: such a step always does.
    target = found[support] + direction
    trials = [np.where(target * signs > 0.0, target, 0.0)]
    is_crossing = target * signs < 0.0
    if is_crossing.any():
        length = np.min(-found[support][is_crossing] / direction[is_crossing])
        short = found[support] + length * direction
        trials.append(np.where(short * signs > 0.0, short, 0.0))
    return any(_take(gram, support, trial, penalty, found, gradient) for trial in trials)


def _take(
    gram: np.ndarray,
    support: np.ndarray,
    trial: np.ndarray,
    penalty: Penalty,
    found: np.ndarray,
    gradient: np.ndarray,
) -> bool:
    """Move the support to `trial` if the model falls; return whether it did."""
    step = trial - found[support]
    change = np.asarray(gram[:, support] @ step.astype(gram.dtype), dtype=np.float64)
    gain = step @ gradient[support] + 0.5 * step @ change[support]
    gain += penalty_value(penalty, trial) - penalty_value(penalty, found[support])
    if not gain < 0.0:
        return False
    found[support] = trial
    gradient += change
    return True


def _solve(block: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a positive semidefinite system of unit diagonal."""
    jitter = 1e-14
    while True:
        block[np.diag_indices_from(block)] += jitter
        try:
            factor = cho_factor(block, check_finite=False)
        except LinAlgError:
            jitter *= 100.0
            continue
        return cho_solve(factor, right, check_finite=False)
