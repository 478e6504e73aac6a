"""What a solver asks of the place where a shard of the data lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.quadratic_model import Model

__all__ = ["ColumnEngine", "Engine", "Movable", "PrimalEngine", "WorkingSet", "own_curvatures"]


class SeveralEpochs(Protocol):
    """Runs epochs as `Engine.dual_epoch` does, a free intercept's multiplier following each."""

    def __call__(
        self, first: int, n_epochs: int, before: float, factor: float, most: float
    ) -> list[float]:
        """Return the gaps of so many epochs from `first` on, or fewer.

        They end where the gap that they predict, times a factor, is small enough
        (`Progress.next_goal`), or where the call would be a long one.
        """


class Engine(Protocol):
    """A shard of the data on some device, its dual variables, and the shared vector.

    Sums that an engine returns are over its own rows; the solver adds them over the shards.
    """

    problem: Problem
    shared: np.ndarray
    """The shared vector of n_features + 1 numbers; the last belongs to the intercept's column."""

    duals: np.ndarray
    """States of the shard's dual variables, one a row."""

    has_warm_start: bool
    """Whether the states do not stand for beta = 0, so that the shared vector must follow them."""

    n_stored: int
    """Entries that one sweep reads."""

    free_visits: int
    """Entries that a fit may visit in all before it counts as work: a few milliseconds."""

    mean_stiffness: float
    """Mean of c_i times mean of ||x_i||^2."""

    tau: float
    """Value of the intercept's constant column; 0 without an intercept."""

    offset: float
    """Multiplier of the constraint sum(beta) = 0 of an unpenalised intercept."""

    @property
    def description(self) -> str:
        """Where and how epochs run, for `FitResult.description`."""

    def agree(self, communicator: Communicator) -> None:
        """Choose with the other shards what all of them must have in common."""

    def dual_epoch(self, epoch: int, outer_sigma: float) -> float:
        """Visit every row; return the sum of the rows' gaps as each was visited first."""

    @property
    def several_epochs(self) -> SeveralEpochs | None:
        """Runs epochs of the only shard in one call; None where nothing is gained."""

    def keep_states(self) -> None:
        """Remember the states: the line to what they become begins there."""

    def line_slope(self, step: float) -> float:
        """Return how the dual's loss terms, less the multiplier's, rise at `step` on that line."""

    def go_to(self, step: float) -> None:
        """Move the states to `step` on that line."""

    def dual_mass(self) -> tuple[float, float]:
        """Return the sums of the positive and of the negative dual variables beta_i."""

    def exact_sweep(self, positive_scale: float, negative_scale: float) -> tuple[float, np.ndarray]:
        """Return the dual's loss terms and X^T beta' in float64; keep the margins."""

    def set_shared(self, adjoint: np.ndarray) -> None:
        """Set the shared vector to what the sums X^T beta and sum(beta) say."""

    def lengthen(self, factor: float) -> None:
        """Multiply the shared vector; it is no longer what the dual variables say."""

    def loss_value(self, shift: float) -> float:
        """Return sum_i c_i l(z_i + shift, y_i) on the kept margins."""

    def loss_slope(self, shift: float) -> tuple[float, float]:
        """Return the first two derivatives of `loss_value`."""

    def penalty_value(self, vector: np.ndarray) -> float:
        """Return R(vector) in float64."""

    def penalty_conjugate(self, vector: np.ndarray) -> float:
        """Return R*(vector) in float64."""


class PrimalEngine(Protocol):
    """A shard of the data on some device, as a primal method sees it.

    Coefficients and gradients are arrays of `vectors` of shape (n_outputs, n_features + 1),
    float64, the last column being the intercept's. Sums are over the engine's own rows.
    """

    problem: Problem
    dtype: np.dtype
    n_rows: int
    n_features: int
    n_stored: int
    n_outputs: int
    n_threads: int

    is_single: bool
    """Whether labels and model are those of one output, without an axis for outputs."""

    bias_column: float
    """Value of the intercept's constant column; 0 without an intercept."""

    rows_per_row: float
    """How many rows each row of this engine stands for: above 1 in a sample."""

    device: Any
    """The `Device` where the rows are; None for the host."""

    xp: Any
    """The array module of what stays where the rows are: ``numpy``, or what has its functions."""

    vectors: Any
    """The array module of coefficients and gradients: ``numpy``, or `xp` where that is faster."""

    block_entries: int
    """Entries of a dense copy of some rows that is large enough, and no burden on memory."""

    is_streamed: bool
    """Whether rows are read from elsewhere, so that no copy of all of them must be asked for."""

    @property
    def description(self) -> str:
        """Where and how passes run, for `FitResult.description`."""

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""

    def fused_pass(self, coef: Any, *, wants_stiffness: bool = False) -> tuple[float, Any, float]:
        """Return loss, its gradient and sum_i c_i ||x_i||^2; keep the margins aside."""

    def accept(self) -> None:
        """Make the point of the last pass the present one."""

    def line_point(self, step: float) -> tuple[float, float]:
        """Return loss and slope between the present point and that of the last pass."""

    def hessian_product(self, direction: Any) -> Any:
        """Return the loss's Hessian at the present point times `direction`, by one read."""

    def leave_flat_rows(self, share: float) -> None:
        """Let products at the present point leave rows out that change next to nothing.

        With the penalty's curvature, which must not be zero, the Hessian changes by at most `share`
        along every direction. Nothing happens where this saves no time.
        """

    def curvatures(self, rows: np.ndarray | None = None) -> Any:
        """Return c_i l''(z_i) at the present point, or the softmax's probabilities.

        Those of a few rows come to the host, those of all stay where the rows are.
        """

    def gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return l'(z_i) of a few rows at the present point."""

    @property
    def margins(self) -> Any:
        """The margins of the present point, shape (n_outputs, n_rows), where the rows are."""

    def losses_at(self, margins: Any) -> tuple[float, Any]:
        """Return the loss at margins of separate outputs, and c_i l' in their shape."""

    def restated(self, problem: Problem, factor: float, offsets: Any) -> PrimalEngine:
        """Return an engine of another problem on the same rows, which are not copied.

        Their weights are those of this engine times a factor; offsets are where the rows are.
        """

    def labels(self, rows: np.ndarray | None = None) -> Any:
        """Return y_i of a few rows on the host, or of all where they are, along the last axis."""

    @property
    def total_weight(self) -> float:
        """Sum of c_i."""

    def offsets(self, rows: np.ndarray | None = None) -> Any:
        """Return o_i of a few rows on the host, or of all where they are. None without any."""

    def row_weights(self, rows: np.ndarray | None = None) -> Any:
        """Return c_i of a few rows on the host, or of all where the rows are."""

    def weighted_rows(self, rows: np.ndarray, factors: np.ndarray) -> Any:
        """Return the sums of a few rows times factors, one sum an output, as `vectors`."""

    def dense_rows(self, rows: Any) -> Any:
        """Return the rows of a slice or of an index array of `xp` as a dense array of `xp`."""

    def column_sums(self, rows: Any, centre: Any = None) -> Any:
        """Return sums of some rows' entries, or of their squared distances from a centre (`xp`)."""

    def scale_rows(self, rows: Any, mean: Any, scale: Any, weights: Any, out: Any) -> None:
        """Write sqrt(weight) times some rows in centred and scaled columns, and the intercept's."""

    def host_rows(self) -> Any:
        """Return all rows on the host, as an ndarray or SciPy's CSR matrix."""

    def to_rows(self, array: Any) -> Any:
        """Return an array of the host or of `xp` where the rows are."""

    def to_vectors(self, array: Any) -> Any:
        """Return an array of the host or of `xp` where the vectors are."""

    def to_host(self, array: Any) -> np.ndarray:
        """Return an array of the host or of `xp` on the host."""

    def weighted_squares(self, weights: Any) -> Any:
        """Return sum_i weights_ki x_ij^2 as `vectors`, for weights where the rows are."""

    def column_grams(self, columns: Any, weights: Any) -> Any:
        """Return sum_i weights_ki x_i x_i^T of some columns and the intercept's; all are `xp`'s."""

    def add_grams(
        self, parts: Sequence[Any], rows_of: Callable[[Any, Any], Any], room: Any, gram: Any
    ) -> None:
        """Add rows^T rows of all parts to a matrix of `xp`; a device may round float32 factors.

        `rows_of(part, room)` returns those of a part, in `room` or in an array like it.
        """

    def sample(self, n_rows: int, communicator: Communicator | None = None) -> Any:
        """Return an engine on a copy of rows that stand for all shards'."""

    def check_finite(self) -> None:
        """Raise `NonFiniteError` if the matrix holds NaN or infinity."""


def own_curvatures(engine: PrimalEngine, rows: np.ndarray | None = None) -> Any:
    """Return the rows' curvatures along each output alone, at the engine's present point.

    Parameters
    ----------
    engine : PrimalEngine
        Rows and point.
    rows : ndarray of shape (n_taken,), int64, or None, default=None
        Rows to look at; None means all.

    Returns
    -------
    array of shape (n_outputs, n_rows or n_taken), float64
        c_i l''(z_i), of the softmax c_i p (1 - p); of a few rows on the host, of all as `xp`.
    """
    curvatures = engine.curvatures(rows)
    if engine.problem.loss.is_joint:
        return engine.row_weights(rows) * curvatures * (1.0 - curvatures)
    return curvatures


class Movable(Protocol):
    """Some columns whose coefficients move.

    Coefficients are on the host, vectors over the rows where the rows are.
    """

    columns: np.ndarray
    """Which ones, in the order of the coefficients."""

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""


class WorkingSet(Movable, Protocol):
    """Some columns, and how to minimise the penalised quadratic model on them."""

    @property
    def is_most_of_data(self) -> bool:
        """Whether a read of all columns costs little more than one of these."""

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model to within about `target`."""


class ColumnEngine(Protocol):
    """A shard of the data on some device, as working-set descent sees it: by its columns.

    Coefficients and slopes are float64 arrays of the host, one number a column; vectors over the
    rows are float64 arrays of `xp`. A penalised intercept is one more column, of constant value,
    behind the matrix's own. Sums are over the engine's own rows.
    """

    problem: Problem
    dtype: np.dtype
    n_rows: int
    n_features: int
    n_cols: int
    n_stored: int

    tau: float
    """Value of a penalised intercept's column; 0 where there is none."""

    xp: Any
    """The array module of vectors over the rows: ``numpy``, or what has its functions."""

    @property
    def description(self) -> str:
        """Where it runs, for `FitResult.description`."""

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""

    @property
    def total_weight(self) -> float:
        """Sum of c_i."""

    @property
    def offsets(self) -> Any:
        """o_i, a vector over the rows that is added to their margins; None without any."""

    def product(self, coef: np.ndarray) -> Any:
        """Return X coef, the margins without a free intercept and offsets."""

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return X^T vector; refuse a matrix that is not finite."""

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i c_i x_ij and sum_i c_i x_ij^2 of every column."""

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that row i holds, and its entries, on the host."""

    def loss_sums(
        self, margins: Any, shift: float, gradients: Any = None, curvatures: Any = None
    ) -> np.ndarray:
        """Return the loss and its first two derivatives in the shift.

        Fills vectors over the rows with c_i l' and c_i l'' where they are given.
        """

    def dual_terms(self, gradients: Any, scale: float) -> float:
        """Return -sum_i c_i l*(-beta_i / c_i) at beta_i = -scale * gradients_i."""

    def working_set(self, columns: np.ndarray) -> WorkingSet:
        """Return a set that holds `columns`, and what was packed before where that saves work."""
