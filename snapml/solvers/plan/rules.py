"""Which solver for which data: the rules of ``solver="auto"``.

They follow what was measured (benchmarks/results/second_order_summary.csv); each gives its reason,
which ends up in the estimator's ``solver_``. docs/algorithms.md, section 10.
"""

from __future__ import annotations

import math

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.dual_ascent import softmax_ascent
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.interior_point import small_rows, working_rows
from snapml.solvers.newton import small_newton
from snapml.solvers.newton.curvature import MOST_DENSE_COLUMNS, MOST_JOINT_COLUMNS
from snapml.solvers.newton.sample_size import products_of_dense_factor, products_of_factors
from snapml.solvers.plan import out_of_core, support
from snapml.solvers.plan.support import is_streamed
from snapml.solvers.rows.cpu_rows import squared_norms
from snapml.solvers.rows.scaled_rows import have_sparse_products

__all__ = [
    "choose",
    "choose_ascent",
    "is_better_apart",
    "products_before_call",
    "products_before_span",
    "products_worth_a_trial",
]

# Up to here a Hessian of sampled rows costs no more than a few reads of the data.
_FEW_COLUMNS = 512
# Mean of c_i ||x_i||^2 max l'' up to which coordinate ascent needs few epochs.
_EASY_STIFFNESS = 5.0
# The same for losses with corners on few rows, or on dense ones, whose systems are quick; and the
# columns of which systems cost nothing.
_CORNERED_STIFFNESS, _CORNERED_COLUMNS = 2.0, 8
# The same for tubes, beside the size of their targets; and per column.
_TUBE_STIFFNESS, _TUBE_A_COLUMN = 0.15, 0.02
# Epochs on so small data.
_TINY_PATIENCE = 80.0
# Entries up to which every method is quick, and the exact one best; and up to which an interior
# point method takes most of its time to begin.
_SMALL, _TINY = 200_000, 20_000
# Up to here a Hessian costs no more than a read of as many rows.
_NARROW = 64
# Epochs that coordinate ascent may still need before the quasi-Newton method takes over.
_DENSE_PATIENCE, _SPARSE_PATIENCE, _TALL_PATIENCE = 12.0, 120.0, 15.0
# The same for the hinge of few sparse columns in memory, whose Hessians are made entry by entry.
_SHORT_PATIENCE = 15.0
# The same for sparse rows of many columns on several shards: merged steps gain less an epoch, and
# products with the Hessian as much as on one.
_MERGED_PATIENCE = 10.0
# For the hinge in many dense columns, per column: a Hessian costs so much more than an epoch.
_PATIENCE_A_COLUMN = 0.125
# Rows a column up to which most rows of the squared hinge may be beside the margin; and how patient
# coordinate ascent is there, per column: of dense rows, of those that one call would take, and of
# fewer rows than columns: no more than these, nor than systems of the rows cost, but so many.
_FEW_ROWS_A_COLUMN, _SHORT_A_COLUMN, _CALL_A_COLUMN, _WIDE_A_COLUMN = 8.0, 0.04, 0.1, 0.5
_LEAST_WIDE = 60.0
# Epochs, per column, that the systems of an interior point method cost; of sparse rows, the speed
# of an epoch's entries beside those of a dense system; and where their products stay sparse, epochs
# for each entry of a row, and a column's share in a factor.
_SYSTEMS_A_COLUMN, _SPARSE_SPEED = 0.5, 0.1
_SYSTEMS_AN_ENTRY, _FACTOR_OF_A_COLUMN = 5.0, 0.02
# What an interior point method takes on few rows: steps, and nanoseconds a product of its systems;
# beside it one of the first epochs, by rows, dense and sparse entries. Below so many nanoseconds in
# all nothing is quicker.
_ITERATIONS, _NS_A_PRODUCT, _CHEAP_NS = 22.0, 0.125, 1e6
_NS_AN_EPOCH, _NS_A_ROW, _NS_AN_ENTRY, _NS_A_SPARSE_ENTRY = 4e4, 100.0, 1.0, 5.0
# Where rows fill less than this share of the columns, they undo few of each other's steps. A method
# that takes more than so many epochs is worth a try of them, and so many are as a rule enough.
_SPARSE, _DEAR, _MOST_TRIED = 1 / 3, 10.0, 25.0
# Nanoseconds that the stages of a continuation take at least on rows that are fewer than columns.
_NS_OF_STAGES = 2e7
# The same in the span of dense rows, whose products BLAS makes.
_NS_OF_SPAN, _NS_A_BLAS_PRODUCT = 1.5e7, 0.04
# Coefficients of several classes, and rows a column, from which on and up to which a Hessian of few
# columns costs more than epochs; and how many of these may be left.
_JOINT_COEFS, _JOINT_ROWS, _JOINT_PATIENCE = 400, 2, 40.0
# Nanoseconds of a Hessian's sparse terms and of a factor's, and of an epoch of a smooth loss, its
# rows and sparse entries; how many epochs make a Hessian dear, and how many dense columns.
_NS_A_TERM, _NS_OF_FACTOR = 1.0, 0.1
_NS_OF_SMOOTH, _NS_A_SMOOTH_ROW, _NS_A_SMOOTH_ENTRY = 1e4, 250.0, 2.0
_DEAR_HESSIAN, _LEAST_SHORT = 30.0, 150
# Sparse rows of fewer columns than this share of their number are tall; beyond this stiffness
# the first epochs lead them astray.
_TALL, _STIFF = 0.67, 150.0
# Dense columns from which on products with the Hessian are tried before it is formed, and for how
# many times what that takes; of more rows a column a sample is as good.
_MANY_DENSE, _TRIAL_OF_FACTORS, _SHORT = 640, 2.0, 3.0
# Factors, with their Gram matrices, that products are to be as quick as before one call makes them.
_FACTORS_OF_CALL = 4.0
# Rows that show the stiffness, and from how many chunks of a store they come.
_STIFFNESS_ROWS, _STIFFNESS_CHUNKS = 256, 8


def is_better_apart(problem: Problem, dataset: Dataset, settings: Settings) -> bool:
    """Return whether separate outputs are best solved one by one: where coordinate ascent is.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows and the outputs' labels.
    settings : Settings
        Which solver is asked for.

    Returns
    -------
    bool
        False where outputs share each read of the data.
    """
    if problem.loss.is_joint or dataset.labels.ndim == 1:
        return False
    if not (problem.penalty.is_smooth and problem.loss.is_smooth):
        return True  # one step length for all outputs at once does not suit the hinge's corners
    if settings.solver != "auto":
        return settings.solver == "sdca"
    if is_streamed(dataset):
        return False  # reads cost most there, and all outputs share them
    if small_newton.is_small(problem, dataset.matrix, dataset.matrix.shape[0]):
        return True  # each is one call
    return dataset.matrix.shape[1] > _FEW_COLUMNS and problem.penalty.l2 > 0.0


def products_worth_a_trial(engine: PrimalEngine, communicator: Communicator) -> float | None:
    """Return how many products with the Hessian of dense rows to try before it is factored.

    Where columns are not too much alike, fewer are needed than a factor costs; where they are, that
    is what is lost.

    Parameters
    ----------
    engine : PrimalEngine
        The rows.
    communicator : Communicator
        The other shards.

    Returns
    -------
    float or None
        None where a trial is not worth it: of few columns, or where curvature jumps or is constant.
    """
    problem = engine.problem
    # A quadratic loss needs one Hessian, which costs less than a trial that fails.
    is_plain = problem.loss.kinks == "none" and not problem.loss.is_quadratic
    is_plain = is_plain and problem.penalty.l2 > 0.0 and engine.is_single
    is_here = communicator.size == 1 and not engine.is_streamed and engine.device is None
    is_short = engine.n_rows <= _SHORT * engine.n_features
    if not (is_plain and is_here and is_short) or engine.is_sparse:
        return None
    if engine.n_features < _MANY_DENSE:
        return None
    price = products_of_factors(engine, float(engine.n_rows), float(engine.n_stored))
    return _TRIAL_OF_FACTORS * price


def products_before_call(engine: PrimalEngine) -> float:
    """Return how many products with the Hessian to try before one call makes all of it.

    As a rule they suffice. Where columns are nearly dependent, or weigh next to nothing, as counts
    beside indicators do under a weak penalty, they do not, and are few beside what they would be.

    Parameters
    ----------
    engine : PrimalEngine
        Rows that `small_newton.may_finish`.

    Returns
    -------
    float
        About what the call will take.
    """
    price = products_of_factors(engine, float(engine.n_rows), float(engine.n_stored))
    return _FACTORS_OF_CALL * price


def products_before_span(problem: Problem, dataset: Dataset) -> float | None:
    """Return how many products with the Hessian of wide rows to try before their span is made.

    Where columns are not too much alike, fewer are needed than the span costs.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows in memory that are fewer than their columns.

    Returns
    -------
    float or None
        None where a trial is not worth it: of few rows, whose problem in the span is one call; or
        where curvature jumps, is constant or has no bound.
    """
    loss, matrix, n_rows = problem.loss, dataset.matrix, dataset.matrix.shape[0]
    is_plain = loss.kinks == "none" and math.isfinite(loss.curvature_bound)
    is_plain = is_plain and not loss.is_quadratic and problem.penalty.l2 > 0.0
    if not (is_plain and isinstance(matrix, DenseMatrix)):
        return None
    if small_newton.is_small(problem, DenseMatrix(_unread(n_rows, n_rows)), n_rows):
        return None
    if matrix.shape[1] > _SHORT * n_rows:
        return None
    n_outputs = problem.n_outputs((n_rows,))
    times = _TRIAL_OF_FACTORS if n_outputs == 1 else 1.0
    return times * products_of_dense_factor(matrix.shape[1], n_rows, n_outputs)


def _unread(n_rows: int, n_columns: int) -> np.ndarray:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(np.float64(0.0), (n_rows, n_columns))


def choose(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    start: Start,
) -> tuple[str, str, float]:
    """Return what suits a problem.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards, which choose the same.
    settings : Settings
        Which solver is asked for.
    start : Start
        Where the fit begins.

    Returns
    -------
    solver : {"sdca", "pqn", "wsd", "ipm"}
        The solver.
    reason : str
        Why this one.
    patience : float
        Epochs that coordinate ascent may still need before another solver takes over.
    """
    never, n_features = math.inf, dataset.matrix.shape[1]
    if support.is_cornered(problem):
        return _choose_for_corners(problem, dataset, communicator, settings)
    if not problem.penalty.is_smooth:
        return "wsd", "an L1 penalty or a constraint leaves few columns to work on", never
    if settings.solver != "auto":
        return settings.solver, "as asked for", never
    if not problem.loss.is_smooth:
        return _choose_for_hinge(problem, dataset, communicator)
    if problem.loss.is_joint or dataset.labels.ndim == 2:
        return "pqn", "all outputs share each read of the data", never
    if not math.isfinite(problem.loss.curvature_bound):
        return "pqn", "the curvature of its loss has no bound", never
    if not problem.loss.has_dual_step:
        return "pqn", "its loss has no dual step", never
    if problem.penalty.l2 <= 0.0:
        return "pqn", "there is no penalty", never
    goes_on = start.coef is not None and start.duals is None
    if not goes_on and _is_nearly_separable(problem, dataset, communicator):
        patience = _patience_of_sweeps(problem, dataset, communicator)
        return "sdca", "few rows a column, of which most may rest", patience
    if n_features <= _FEW_COLUMNS:
        return "pqn", f"{n_features} columns are few", never
    if goes_on:
        return "pqn", "it continues from coefficients", never
    if (
        problem.loss.is_quadratic
        and support.is_sparse(dataset)
        and _may_rest(dataset, communicator)
    ):
        return "pqn", "one step of a quadratic loss is all", never
    if support.is_sparse(dataset):
        return _choose_for_sparse(problem, dataset, communicator)
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if stiffness > _EASY_STIFFNESS:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", never
    return "sdca", f"rows are short for this regularisation ({stiffness:.2g})", _DENSE_PATIENCE


def choose_ascent(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    settings: Settings,
    start: Start,
) -> tuple[str, str, float] | None:
    """Return what `choose` does, where coordinate ascent comes before all other methods.

    Even before those that are one call: a Hessian of the columns costs more than epochs.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights.
    communicator : Communicator
        The other shards.
    settings : Settings
        Which solver is asked for.
    start : Start
        Where the fit begins.

    Returns
    -------
    tuple or None
        None where `choose` is to be asked.
    """
    if settings.solver != "auto" or start.coef is not None:
        return None
    if problem.loss.is_joint:
        if not _is_joint_ascent(problem, dataset, communicator):
            return None
        if dataset.matrix.shape[1] <= _FEW_COLUMNS:
            return "sdca", "few sparse rows a column", _JOINT_PATIENCE
        return "sdca", "sparse rows of many columns", _SPARSE_PATIENCE
    if not _is_ascent_first(problem, dataset, communicator):
        return None
    if support.is_sparse(dataset):
        return "sdca", "few sparse rows a column", _epochs_of_hessian(dataset)
    return "sdca", "few rows a column, short for this regularisation", _MOST_TRIED


def _is_joint_ascent(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether several classes of sparse rows are a case for coordinate ascent.

    In fewer columns than rows Newton's steps take few products, each for all classes at once; and
    the intercept of a class without weight is far away, where multipliers get slowly.
    """
    if not softmax_ascent.suits(problem, dataset, communicator):
        return False
    n_rows, n_features = dataset.matrix.shape
    size = problem.loss.n_outputs * (n_features + 1)
    if n_features <= _FEW_COLUMNS:
        is_wide = size >= _JOINT_COEFS and n_rows <= _JOINT_ROWS * n_features
    else:
        is_wide = size > MOST_JOINT_COLUMNS and not _is_tall(dataset, communicator)
    if not is_wide:
        return False
    numbers = dataset.labels.astype(np.int64)
    masses = np.bincount(numbers, dataset.row_weights, minlength=problem.loss.n_outputs)
    return bool(masses.all())


def _is_ascent_first(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether a Hessian of few columns costs more than epochs over rows, which are few.

    Of smooth losses of one output with an L2 penalty, in memory: of sparse rows whose Hessian is
    dear, and of dense ones that are short for their penalty.
    """
    loss, penalty, matrix = problem.loss, problem.penalty, dataset.matrix
    is_plain = loss.kinks == "none" and loss.has_dual_step and not loss.is_quadratic
    has_ascent = is_plain and penalty.is_smooth and penalty.l2 > 0.0 and dataset.labels.ndim == 1
    if not has_ascent or communicator.size > 1 or matrix.shape[1] > _FEW_COLUMNS:
        return False
    if isinstance(matrix, CompressedMatrix):
        is_few = not _is_tall(dataset, communicator)
        return is_few and _epochs_of_hessian(dataset) >= _DEAR_HESSIAN
    is_few = matrix.shape[0] <= _JOINT_ROWS * matrix.shape[1]
    if not (isinstance(matrix, DenseMatrix) and is_few and matrix.shape[1] >= _LEAST_SHORT):
        return False
    return _sampled_stiffness(problem, dataset, communicator) <= _EASY_STIFFNESS


def _epochs_of_hessian(dataset: Dataset) -> float:
    """Return how many epochs over sparse rows take as long as a Hessian of all columns."""
    n_rows, n_features = dataset.matrix.shape
    n_stored = float(dataset.matrix.n_stored)
    terms = n_stored**2 / max(1, n_rows)
    hessian_ns = _NS_A_TERM * terms + _NS_OF_FACTOR * n_features**3 / 3.0
    return hessian_ns / (_NS_OF_SMOOTH + _NS_A_SMOOTH_ROW * n_rows + _NS_A_SMOOTH_ENTRY * n_stored)


def _is_nearly_separable(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether rows in memory are so few that most may be beside the margin.

    Which rows curve then changes with each step, and coordinate ascent leaves those at rest alone.
    """
    n_features = dataset.matrix.shape[1]
    if problem.loss.kinks != "curvature" or not _may_rest(dataset, communicator):
        return False
    if n_features <= _NARROW:
        return False  # a Hessian costs next to nothing
    is_many = n_features > _FEW_COLUMNS
    if support.is_sparse(dataset) and is_many and not _is_tall(dataset, communicator):
        return False  # those have a rule of their own
    return _count_rows(dataset, communicator) <= _FEW_ROWS_A_COLUMN * n_features


def _patience_of_sweeps(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return how many sweeps over few rows a column are worth the Hessians of another method.

    Where rows are fewer than columns, or these fit in the cache, none has more than one thread.
    """
    n_rows, n_features = _count_rows(dataset, communicator), dataset.matrix.shape[1]
    if n_rows < n_features:
        epoch_ns = _epoch_ns(n_rows, n_rows * n_features, is_sparse=False)
        price = max(_LEAST_WIDE, _span_ns(n_rows, n_features) / epoch_ns)
        return min(_WIDE_A_COLUMN * n_features, price)
    if small_newton.is_small(problem, dataset.matrix, dataset.matrix.shape[0]):
        return _CALL_A_COLUMN * n_features
    return _SHORT_PATIENCE if support.is_sparse(dataset) else _SHORT_A_COLUMN * n_features


def _may_rest(dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether coordinate ascent leaves rows at rest alone: in memory, on one shard."""
    return communicator.size == 1 and not is_streamed(dataset)


def _choose_for_sparse(
    problem: Problem, dataset: Dataset, communicator: Communicator
) -> tuple[str, str, float]:
    """Coordinate ascent, unless many epochs meet few columns.

    Newton's method has a product with the Hessian for half the price of an epoch, and needs the
    fewer of them, the fewer columns there are. Of more, and where the curvature jumps, too many.
    """
    is_tall = _is_tall(dataset, communicator)
    if problem.loss.kinks == "curvature" and not is_tall:
        return "sdca", "sparse rows", math.inf
    # A product with the Hessian reads a store as an epoch does: it is no longer half the price.
    price = 2.0 if is_streamed(dataset) else 1.0
    if not is_tall:
        patience = _SPARSE_PATIENCE if communicator.size == 1 else _MERGED_PATIENCE
        return "sdca", "sparse rows", price * patience
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if stiffness > _STIFF:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", math.inf
    return "sdca", "sparse rows", price * _TALL_PATIENCE


def _is_tall(dataset: Dataset, communicator: Communicator) -> bool:
    return dataset.matrix.shape[1] <= _TALL * _count_rows(dataset, communicator)


def _count_rows(dataset: Dataset, communicator: Communicator) -> float:
    """Return the rows of all shards."""
    return float(communicator.allreduce_sum(np.array([float(dataset.matrix.shape[0])]))[0])


def _choose_for_hinge(
    problem: Problem, dataset: Dataset, communicator: Communicator
) -> tuple[str, str, float]:
    """Coordinate ascent finds the rows at the kink by itself, unless they are long."""
    if communicator.size == 1 and small_rows.is_small(problem, dataset.matrix):
        return _choose_on_few_rows(problem, dataset, communicator)
    if dataset.matrix.shape[1] > _FEW_COLUMNS:
        return "sdca", "many columns", _patience_of_many(problem, dataset, communicator)
    n_stored = communicator.allreduce_sum(np.array([float(dataset.matrix.n_stored)]))[0]
    may_rest = _may_rest(dataset, communicator)
    patience = _SHORT_PATIENCE
    if not may_rest:
        if n_stored <= _SMALL:
            return "pqn", "small data", math.inf
        patience = _SPARSE_PATIENCE if is_streamed(dataset) else 2.0 * _SHORT_PATIENCE
    n_rows, n_features = _count_rows(dataset, communicator), dataset.matrix.shape[1]
    if n_rows < n_features:
        price = _price_of_stages(dataset, n_rows, n_stored)
        if support.suits_systems(problem, dataset, communicator):
            price = _price_of_span(n_rows, n_features)
        return "sdca", "fewer rows than columns", price
    n_numbers = n_rows * n_features
    if support.is_sparse(dataset) and (
        n_stored > _SMALL or small_newton.SPARSER * n_stored <= n_numbers
    ):
        return "sdca", "sparse rows", patience
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    if stiffness > _EASY_STIFFNESS:
        return "pqn", f"rows are long for this regularisation ({stiffness:.2g})", math.inf
    reason = f"rows are short for this regularisation ({stiffness:.2g})"
    return "sdca", reason, patience


def _choose_for_corners(
    problem: Problem, dataset: Dataset, communicator: Communicator, settings: Settings
) -> tuple[str, str, float]:
    """Return the choice for a loss that is not rounded off.

    Systems of all columns cost as much as many epochs; where rows are short, few are needed.
    """
    n_features, never = dataset.matrix.shape[1], math.inf
    if settings.solver != "auto":
        return settings.solver, "as asked for", never
    if support.needs_interior(problem):
        return "ipm", "its loss has corners, and L2 is not all of its penalty", never
    if communicator.size == 1 and small_rows.is_small(problem, dataset.matrix):
        return _choose_on_few_rows(problem, dataset, communicator)
    if is_streamed(dataset):
        return "sdca", "reads of a store cost most", never
    is_spanned = support.is_spanned(problem, dataset, communicator)
    if n_features > working_rows.MOST_COLUMNS and not is_spanned:
        return "sdca", "many columns", never
    own = np.array([float(dataset.matrix.n_stored), float(dataset.matrix.shape[0])])
    n_stored, n_rows = communicator.allreduce_sum(own).tolist()
    is_sparse = support.is_sparse(dataset)
    price = _price_of_systems(n_rows, n_features, n_stored, is_sparse=is_sparse)
    if is_spanned:
        price = _price_of_span(n_rows, n_features)
    if n_rows < n_features:
        price = max(price, _price_of_stages(dataset, n_rows, n_stored))
    if n_features > _FEW_COLUMNS:
        return "sdca", "many columns", price
    if n_stored <= _TINY:
        return "sdca", "small data", max(price, _TINY_PATIENCE)
    if n_rows < n_features:
        return "sdca", "fewer rows than columns", price
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    most = _EASY_STIFFNESS if n_stored > _SMALL and is_sparse else _CORNERED_STIFFNESS
    if _is_tube(problem) and not is_sparse:
        most = _stiffness_of_tube(n_features)
    if stiffness <= most and n_features >= _CORNERED_COLUMNS:
        return "sdca", f"rows are short for this regularisation ({stiffness:.2g})", price
    return "ipm", "its loss has corners, which few rows are near to", never


def _choose_on_few_rows(
    problem: Problem, dataset: Dataset, communicator: Communicator
) -> tuple[str, str, float]:
    """Systems of few rows are one call; epochs cost less where rows are short."""
    small, never = "small data", math.inf
    n_features, is_sparse = dataset.matrix.shape[1], support.is_sparse(dataset)
    systems_ns = _ITERATIONS * small_rows.step_work(dataset.matrix) * _NS_A_PRODUCT
    if systems_ns < _CHEAP_NS or n_features < _CORNERED_COLUMNS:
        return "ipm", small, never
    n_rows, n_stored = dataset.matrix.shape[0], dataset.matrix.n_stored
    price = systems_ns / _epoch_ns(n_rows, n_stored, is_sparse=is_sparse)
    stiffness = _sampled_stiffness(problem, dataset, communicator)
    is_dear = is_sparse or n_features > _NARROW
    most = _EASY_STIFFNESS if is_dear else _CORNERED_STIFFNESS
    if _is_tube(problem) and not is_sparse:
        most = _stiffness_of_tube(n_features)
    if stiffness <= most:
        return "sdca", f"rows are short for this regularisation ({stiffness:.2g})", price
    if is_sparse and n_stored < _SPARSE * n_rows * n_features and price > _DEAR:
        return "sdca", "sparse rows", min(price, _MOST_TRIED)
    return "ipm", small, never


def _is_tube(problem: Problem) -> bool:
    return problem.loss.labels == "real"


def _stiffness_of_tube(n_features: int) -> float:
    """Return up to which stiffness the dual variables of dense rows are soon at their bounds.

    Residuals are then long beside what a row can do to them; the more columns there are, the more
    epochs systems of them are worth.
    """
    return max(_TUBE_STIFFNESS, _TUBE_A_COLUMN * n_features)


def _price_of_systems(n_rows: float, n_features: int, n_stored: float, *, is_sparse: bool) -> float:
    """Return how many epochs take as long as all systems of an interior point method."""
    if not is_sparse:
        return _SYSTEMS_A_COLUMN * n_features
    entries = max(1.0, n_stored) / max(1.0, n_rows)  # of a row
    if not have_sparse_products(n_rows, n_features, n_stored):
        return _SYSTEMS_A_COLUMN * _SPARSE_SPEED * n_features**2 / entries
    factor = _FACTOR_OF_A_COLUMN * n_features**3 / max(1.0, n_stored)
    return _SYSTEMS_AN_ENTRY * (entries + factor)


def _price_of_stages(dataset: Dataset, n_rows: float, n_stored: float) -> float:
    """Return how many epochs a continuation is worth on rows that are fewer than columns."""
    n_features, is_sparse = dataset.matrix.shape[1], support.is_sparse(dataset)
    price = _price_of_systems(n_rows, n_features, n_stored, is_sparse=is_sparse)
    return max(price, _NS_OF_STAGES / _epoch_ns(n_rows, n_stored, is_sparse=is_sparse))


def _price_of_span(n_rows: float, n_features: int) -> float:
    """Return twice the epochs that systems in the span of dense rows take: few are enough often."""
    span_ns = _NS_OF_SPAN + _span_ns(n_rows, n_features)
    return 2.0 * span_ns / _epoch_ns(n_rows, n_rows * n_features, is_sparse=False)


def _span_ns(n_rows: float, n_features: int) -> float:
    """Return the nanoseconds of half of the rows' products, and of the systems made of them."""
    basis, system = 0.5 * n_rows**2 * n_features, 0.67 * n_rows**3
    return _NS_A_BLAS_PRODUCT * (basis + _ITERATIONS * system)


def _epoch_ns(n_rows: float, n_stored: float, *, is_sparse: bool) -> float:
    """Return the nanoseconds of one of the first epochs of a loss with kinks."""
    an_entry = _NS_A_SPARSE_ENTRY if is_sparse else _NS_AN_ENTRY
    return _NS_AN_EPOCH + _NS_A_ROW * n_rows + an_entry * n_stored


def _patience_of_many(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return how many epochs of a hinge of many columns are worth the systems of another method.

    Of dense rows that is a continuation, whose Hessians of sparse rows would be of a block of the
    columns: there it is the interior point method. Fewer rows than columns leave most of a Hessian
    empty.
    """
    n_features = dataset.matrix.shape[1]
    n_rows = _count_rows(dataset, communicator)
    if support.is_spanned(problem, dataset, communicator):
        return _price_of_span(n_rows, n_features)
    if support.suits_systems(problem, dataset, communicator):
        n_stored = float(dataset.matrix.n_stored)
        return _price_of_systems(n_rows, n_features, n_stored, is_sparse=True)
    if support.is_sparse(dataset) or n_features > MOST_DENSE_COLUMNS:
        return math.inf
    price = 2.0 if is_streamed(dataset) else 1.0  # a step reads rows twice
    return price * _PATIENCE_A_COLUMN * n_features


def _sampled_stiffness(problem: Problem, dataset: Dataset, communicator: Communicator) -> float:
    """Return the mean of c_i ||x_i||^2 max l'' over a few rows of every shard.

    Where the loss has corners, that is beside its margins' size: the mean size of the labels, of
    which a free intercept takes the mean.
    """
    n_rows = dataset.matrix.shape[0]
    if isinstance(dataset.matrix, ChunkedMatrix):
        rows = out_of_core.spread_rows(dataset.matrix, _STIFFNESS_ROWS, _STIFFNESS_CHUNKS)
    else:
        rows = np.arange(0, n_rows, max(1, n_rows // _STIFFNESS_ROWS))
    sample = dataset.take(rows, 1.0)
    squares = squared_norms(sample.matrix).astype(np.float64)
    weights = sample.weight if sample.row_weights is None else sample.row_weights
    bound = problem.loss.curvature_bound
    curvature = bound if math.isfinite(bound) else 1.0
    # Shards of many rows count as such, though all look at as many.
    share = n_rows / max(1, len(rows))
    own = np.array([share * float(np.sum(weights * squares)), float(n_rows)])
    total, count = communicator.allreduce_sum(own).tolist()
    size = 1.0
    if problem.loss.n_corners and _is_tube(problem):
        size = _size_of_labels(problem, sample.labels, share, communicator)
    return curvature * total / max(1.0, count) / size


def _size_of_labels(
    problem: Problem, labels: np.ndarray, share: float, communicator: Communicator
) -> float:
    """Return the mean size of some labels; where an intercept is free, of what it leaves."""
    y = labels.astype(np.float64)
    if problem.intercept is Intercept.FREE:
        total, count = communicator.allreduce_sum(share * np.array([y.sum(), len(y)])).tolist()
        y = y - total / max(1.0, count)
    total, count = communicator.allreduce_sum(share * np.array([abs(y).sum(), len(y)])).tolist()
    return total / count if total > 0.0 else math.inf
