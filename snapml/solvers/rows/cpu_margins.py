"""Labels, weights, offsets and margins of rows on the CPU, beside the matrix of a primal method."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.cpu_formulas import loss_quantity

__all__ = ["CpuMargins"]


class CpuMargins:
    """The margins of two points: the present one, and that of the last pass.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Labels and weights; of the rows only their number is used.
    pool : ThreadPool
        Threads that work.

    Raises
    ------
    ValueError
        If class numbers lie outside the classes.
    """

    def __init__(self, problem: Problem, dataset: Dataset, pool: _native.ThreadPool) -> None:
        self.problem = problem
        self.dataset = dataset
        self.n_rows = dataset.matrix.shape[0]
        self.n_outputs = problem.n_outputs(dataset.labels.shape)
        self.is_single = self.n_outputs == 1 and dataset.labels.ndim == 1
        self.bias_column = problem.bias_column
        self._pool = pool
        self._targets = self._make_targets(dataset)
        self._margins = np.zeros((self.n_outputs, self.n_rows))
        self._trial = np.empty((self.n_outputs, self.n_rows))

    @property
    def margins(self) -> np.ndarray:
        """Margins of the present point, shape (n_outputs, n_rows)."""
        return self._margins

    def pass_over(
        self,
        rows: _native.Rows,
        coef: np.ndarray,
        gradients: np.ndarray,
        *,
        wants_stiffness: bool,
        is_part: bool = False,
    ) -> tuple[float, float]:
        """Read the rows once: margins, loss and gradient; the margins are kept for `accept`.

        Parameters
        ----------
        rows : Rows
            The rows that the labels belong to.
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            The point.
        gradients : ndarray of shape (n_threads, n_outputs, n_features + 1), float64
            The first becomes the gradient; the others are scratch. Of a part of the rows, each
            thread adds to its own instead.
        wants_stiffness : bool
            Whether to add up ``c_i ||x_i||^2`` on the way.
        is_part : bool, default=False
            Whether `gradients` hold what other rows have left, to be summed over the threads by
            the caller.

        Returns
        -------
        loss, stiffness : float
            As `PrimalEngine.fused_pass` has them.
        """
        loss, stiffness = _native.fused_pass(
            self._pool,
            rows,
            self.problem.loss.core_name,
            self._targets,
            np.ascontiguousarray(coef, dtype=np.float64),
            wants_stiffness,
            self._trial,
            gradients,
            is_part,
        )
        return float(loss), float(stiffness)

    def accept(self) -> None:
        """Make the margins of the last pass those of the present point."""
        self._margins, self._trial = self._trial, self._margins

    def product_over(
        self,
        rows: _native.Rows,
        direction: np.ndarray,
        products: np.ndarray,
        *,
        is_part: bool = False,
    ) -> None:
        """Read the rows once: the loss's Hessian at the present point times a direction.

        Parameters
        ----------
        rows : Rows
            The rows that the labels belong to.
        direction : ndarray of shape (n_outputs, n_features + 1), float64
            In the coefficients.
        products : ndarray of shape (n_threads, n_outputs, n_features + 1), float64
            As the gradients of `pass_over`; the first becomes the product.
        is_part : bool, default=False
            As for `pass_over`.
        """
        _native.hessian_product(
            self._pool,
            rows,
            self.problem.loss.core_name,
            self._targets,
            self._margins,
            np.ascontiguousarray(direction, dtype=np.float64),
            products,
            is_part,
        )

    def line_point(self, step: float) -> tuple[float, float]:
        """Return loss and slope between the present point and the last pass's.

        Parameters
        ----------
        step : float
            0 is the present point, 1 the other.

        Returns
        -------
        loss, slope : float
            The loss, and its derivative in the step.
        """
        value, slope = _native.line_point(
            self._pool,
            self.problem.loss.core_name,
            self._targets,
            self._margins,
            self._trial,
            step,
        )
        return float(value), float(slope)

    def curvatures(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return c_i l''(z_i) at the present point, or the probabilities of the softmax.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64, or None
            Rows to look at; None means all.

        Returns
        -------
        ndarray of shape (n_outputs, n_rows or n_taken), float64
            Curvatures of separate outputs; probabilities (without c_i) of the softmax.
        """
        margins, targets = self._margins, self._targets
        if rows is not None:
            targets = self._make_targets(self.dataset.of_rows(self.dataset.matrix, rows))
            margins = np.ascontiguousarray(margins[:, rows])
        out = np.empty_like(margins)
        name = self.problem.loss.core_name
        _native.curvatures(self._pool, name, targets, margins, out)
        return out

    def gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return l'(z_i) of separate outputs at the present point, for a few rows."""
        z = self._margins[:, rows]
        labels = np.broadcast_to(self.dataset.labels[..., rows], z.shape)
        return loss_quantity(self.problem.loss, "gradient", z, labels)

    def _make_targets(self, dataset: Dataset) -> _native.Targets:
        weights, offsets = (
            None if array is None else np.ascontiguousarray(array)
            for array in (dataset.row_weights, dataset.offsets)
        )
        return _native.Targets.make(
            np.ascontiguousarray(dataset.labels),
            weights,
            dataset.weight,
            self.n_outputs,
            self.problem.loss.is_joint,
            self.bias_column,
            offsets,
        )
