"""The loss's quadratic model at the present margins, and how far a point is from its minimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.problems import Penalty
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.cpu_formulas import penalty_conjugate, penalty_value

__all__ = ["Model", "dual_scales", "model_gap"]


class Model:
    """sum_i g_i u_i + h_i u_i^2 / 2 + R(coef), u the change of the margins.

    Attributes
    ----------
    slopes : ndarray of shape (n_columns,)
        X^T g of the working set's columns.
    gradients, curvatures : array of shape (n_rows,)
        g_i and h_i, where the rows are.
    penalty : Penalty
        R.
    must_be_fresh : bool
        Whether a Gram matrix of curvatures that have changed a little will not do.
    is_trusted : bool
        Whether the last model kept its promise: if not, a rough minimum of this one will do.
    communicator : Communicator
        The other shards: slopes and sums are over the rows of all of them.
    """

    def __init__(
        self,
        slopes: np.ndarray,
        gradients: Any,
        curvatures: Any,
        penalty: Penalty,
        must_be_fresh: bool = False,
        is_trusted: bool = True,
        communicator: Communicator | None = None,
    ) -> None:
        self.communicator = SerialCommunicator() if communicator is None else communicator
        self.is_trusted = is_trusted
        self.must_be_fresh = must_be_fresh
        self.slopes = slopes
        self.gradients = gradients
        self.curvatures = curvatures
        self.penalty = penalty

    @property
    def residual_sq(self) -> float:
        """sum_i g_i^2 / h_i, what the model could gain if every margin were free."""
        r, h = self.gradients, self.curvatures
        is_curved = h > 0.0
        if not is_curved.all():
            r, h = r * is_curved, h + ~is_curved
        return self._total_of(r @ (r / h))

    @property
    def curvature_sum(self) -> float:
        """sum_i h_i, at least the least positive number."""
        return max(self._total_of(self.curvatures.sum()), float(np.finfo(np.float64).tiny))

    def curved(self, change: Any) -> float:
        """Return sum_i h_i u_i^2 for a change u of the margins."""
        return self._total_of(change @ (self.curvatures * change))

    def mean_of(self, change: Any) -> float:
        """Return sum_i h_i u_i / sum_i h_i for a change u of the margins."""
        return self._total_of(change @ self.curvatures) / self.curvature_sum

    def total(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over the shards."""
        total: np.ndarray = self.communicator.allreduce_sum(array)
        return total

    def total_square(self, gram: np.ndarray) -> np.ndarray:
        """Return the sum over the shards of symmetric matrices, of which half is sent."""
        if self.communicator.size == 1:
            return gram
        is_lower = np.tri(len(gram), dtype=bool)
        lower = np.zeros_like(gram)
        lower[is_lower] = self.total(gram[is_lower])
        return lower + np.tril(lower, -1).T

    def _total_of(self, number: Any) -> float:
        return float(self.total(np.array([float(number)]))[0])

    def agreed(self, found: np.ndarray) -> np.ndarray:
        """Return the first shard's point: unlike machines round the same steps differently."""
        if self.communicator.size == 1:
            return found
        return self.total(found if self.communicator.rank == 0 else np.zeros_like(found))


def model_gap(
    model: Model, residual_sq: float, coef: np.ndarray, found: np.ndarray, gradient: np.ndarray
) -> float:
    """Return the duality gap of the quadratic model at `found`."""
    penalty, step, point = model.penalty, found - coef, -gradient
    product = float(step @ model.slopes)  # sum_i g_i u_i
    square = float(step @ (gradient - model.slopes))  # sum_i h_i u_i^2
    primal = product + 0.5 * square + penalty_value(penalty, found)
    along = float(point @ coef)

    def rest_at(scale: float, conjugate: float) -> float:
        rest = 1.0 - scale
        fit = 0.5 * rest**2 * residual_sq - scale * rest * product + 0.5 * scale**2 * square
        return fit - scale * along + conjugate

    return primal + min(rest_at(*each) for each in dual_scales(penalty, point))


def dual_scales(penalty: Penalty, point: np.ndarray) -> list[tuple[float, float]]:
    """Return factors up to 1 at which a dual point is in the domain of R*, and R* there.

    The first is the largest. At the second, the largest without l2 and bounds, R* is 0: where
    bounds are far, what rounding leaves beyond it costs a bound's distance at the first.

    Parameters
    ----------
    penalty : Penalty
        R.
    point : ndarray
        X^T beta.

    Returns
    -------
    list of (float, float)
        One or two.
    """
    scale = _feasible_scale(penalty, point)
    found = [(scale, _conjugate_at(penalty, scale, point))]
    if penalty.l2 or penalty.bounds is not None:
        largest = float(np.max(_sizes(penalty, point), initial=0.0))
        if 0.0 < penalty.l1 < largest:
            found.append((penalty.l1 / largest, 0.0))
    return found


def _feasible_scale(penalty: Penalty, point: np.ndarray) -> float:
    """Return the largest factor up to 1 at which a dual point is in the domain of R*."""
    if penalty.l2 or len(point) == 0:
        return 1.0
    largest = float(np.max(_open_sizes(penalty, point), initial=0.0))
    return 1.0 if largest <= penalty.l1 else penalty.l1 / largest


def _conjugate_at(penalty: Penalty, scale: float, point: np.ndarray) -> float:
    """Return R* at a dual point that this scale makes feasible, rounding aside: finite."""
    if penalty.l2:
        return penalty_conjugate(penalty, scale * point)
    if penalty.bounds is None:
        return 0.0
    # Where a column is not bounded the conjugate is 0 or infinite, and no rounding is to say which.
    is_open = _open_sizes(penalty, point) > 0.0
    return penalty_conjugate(penalty, np.where(is_open, 0.0, scale * point))


def _sizes(penalty: Penalty, point: np.ndarray) -> np.ndarray:
    """Return |v| where a coefficient may move along v, 0 or less where it may not."""
    if penalty.bounds is not None:
        ends = np.where(point > 0.0, penalty.bounds.upper, penalty.bounds.lower)
        return np.where(ends == 0.0, 0.0, np.abs(point))
    return point if penalty.is_positive else np.abs(point)


def _open_sizes(penalty: Penalty, point: np.ndarray) -> np.ndarray:
    """Return |v| where no bound ends the coefficient's way along v, 0 or less where one does."""
    if penalty.bounds is not None:
        ends = np.where(point > 0.0, penalty.bounds.upper, penalty.bounds.lower)
        return np.where(np.isinf(ends), np.abs(point), 0.0)
    return point if penalty.is_positive else np.abs(point)
