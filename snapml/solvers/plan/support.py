"""What this version solves where: one table, from which every refusal is made.

A task is what a problem asks a solver for, a place is where the rows are and what works on them.
`check` is asked once, before anything is copied or read.
"""

from __future__ import annotations

from enum import Enum, auto

from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset
from snapml.kernels import CompressedRows, ResidentMatrix
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent, softmax_ascent
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import working_rows
from snapml.solvers.newton.curvature import HOT_COLUMNS, MOST_DENSE_COLUMNS
from snapml.solvers.newton.row_space import is_far_wider
from snapml.solvers.rows.scaled_rows import have_sparse_products
from snapml.solvers.working_sets import working_set_descent

__all__ = [
    "check",
    "is_by_ascent",
    "is_cornered",
    "is_spanned",
    "is_sparse",
    "is_streamed",
    "needs_interior",
    "suits_systems",
]

# Columns up to which coefficients have bounds: descent on their Gram matrix keeps them.
_MOST_BOUNDED = 5000


class _Task(Enum):
    """What a problem asks for, in the words of a message."""

    SMOOTH = "a smooth loss, or one that can be smoothed"
    ASCENT = "coordinate ascent"
    INTERIOR = "the {loss} loss by solver='ipm', with an L1 penalty or without any"
    SPARSE = "an L1 penalty or positive coefficients"
    SPARSE_JOINT = "an L1 penalty on the multinomial loss"
    BOUNDED = "bounds"


class _Place(Enum):
    """Where rows are, and what works on them."""

    MEMORY = auto()
    STORE = auto()
    GPU = auto()
    GPUS = auto()
    STORE_TO_GPU = auto()
    RANKS = auto()


_WORDS = {
    _Place.MEMORY: "for rows in memory",
    _Place.STORE: "on a store",
    _Place.GPU: "on one GPU",
    _Place.GPUS: "on several GPUs",
    _Place.STORE_TO_GPU: "on a GPU from a store",
    _Place.RANKS: "on several ranks",
}

# Dense columns up to which the continuation's Hessians cost nothing, however few the rows are.
_FEW_COLUMNS = 64
_EVERYWHERE = frozenset(_Place)
_SUPPORT = {
    _Task.SMOOTH: _EVERYWHERE,
    # Epochs read random groups of rows: no stream to a device brings these.
    _Task.ASCENT: _EVERYWHERE - {_Place.STORE_TO_GPU},
    # The rows near a corner are gathered in the host's memory.
    _Task.INTERIOR: frozenset({_Place.MEMORY, _Place.RANKS}),
    # A working set lies packed on one device.
    _Task.SPARSE: _EVERYWHERE - {_Place.GPUS, _Place.STORE_TO_GPU},
    _Task.SPARSE_JOINT: frozenset({_Place.MEMORY, _Place.RANKS}),
    _Task.BOUNDED: frozenset({_Place.MEMORY}),
}


def is_streamed(dataset: Dataset) -> bool:
    """Return whether the rows come from a store."""
    return isinstance(dataset.matrix, ChunkedMatrix)


def is_by_ascent(problem: Problem, dataset: Dataset, settings: Settings) -> bool:
    """Return whether coordinate ascent runs on a GPU: if asked for, or for losses with a corner.

    Where these can be smoothed, a continuation reads dense rows tens or hundreds of times, and an
    epoch takes as long as 50 to 1,200 reads of them. Of sparse rows, and of dense ones too wide for
    a Hessian, the continuation asks for thousands of products, and an epoch takes as long as 150
    (benchmarks/results/hinge_reads.csv and gpu_check_h200.csv).
    """
    if settings.solver == "sdca" or is_cornered(problem):
        return True
    if problem.loss.is_smooth or settings.solver == "pqn" or is_streamed(dataset):
        return False
    return is_sparse(dataset) or dataset.matrix.shape[1] > MOST_DENSE_COLUMNS


def is_sparse(dataset: Dataset) -> bool:
    """Return whether rows are compressed, in memory, in a store or on a device."""
    matrix = dataset.matrix
    if isinstance(matrix, ChunkedMatrix):
        return matrix.is_sparse
    rows = matrix.rows if isinstance(matrix, ResidentMatrix) else matrix
    return isinstance(rows, CompressedMatrix | CompressedRows)


def is_cornered(problem: Problem) -> bool:
    """Return whether the loss has corners that nothing rounds off."""
    return problem.loss.n_corners > 0 and problem.loss.smoothed is None


def suits_systems(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether an interior point method goes on where coordinate ascent gets slow.

    Of the hinge, which can be smoothed, for sparse rows, and for dense ones that are few beside
    their columns: a Hessian of others costs no more, and their continuation needs fewer.
    """
    if is_cornered(problem):
        return True
    matrix = dataset.matrix
    if problem.loss.n_corners == 0 or communicator.size > 1:
        return False
    n_rows, n_features = matrix.shape
    if n_features > _FEW_COLUMNS and is_spanned(problem, dataset, communicator):
        return True
    is_many = HOT_COLUMNS < n_features <= min(n_rows, working_rows.MOST_COLUMNS)
    is_sparse = isinstance(matrix, CompressedMatrix)
    return is_sparse and is_many and have_sparse_products(n_rows, n_features, matrix.n_stored)


def is_spanned(problem: Problem, dataset: Dataset, communicator: Communicator) -> bool:
    """Return whether an interior point method works in the span of the rows, which are few.

    For the hinge wherever they are fewer than columns: what else there is are Hessians of these.
    """
    is_l2 = problem.penalty.is_smooth and problem.penalty.l2 > 0.0
    if not is_l2 or communicator.size > 1:
        return False
    times = 1.5 if is_cornered(problem) else 1.0
    return is_far_wider(dataset.matrix, working_rows.MOST_COLUMNS, times)


def needs_interior(problem: Problem) -> bool:
    """Return whether only the interior point method solves it: coordinate ascent needs L2 alone."""
    is_smooth = problem.penalty.is_smooth and problem.penalty.l2 > 0.0
    return is_cornered(problem) and not is_smooth


def check(
    problem: Problem, dataset: Dataset, communicator: Communicator, settings: Settings
) -> None:
    """Refuse what nothing solves, or nothing solves there; say what would work.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, in memory or in a store.
    communicator : Communicator
        The other shards.
    settings : Settings
        On which devices, and by which solver.

    Raises
    ------
    ValueError
        If the solver that was asked for cannot solve such a problem anywhere.
    NotImplementedError
        If this version has no way to solve it where it is asked for.
    """
    if is_cornered(problem):
        _check_cornered(problem, settings)
    elif settings.solver == "ipm":
        raise ValueError(
            f"solver: expected 'auto', 'sdca' or 'pqn' for the loss {problem.loss.struct}, got "
            "'ipm', which is for losses with corners"
        )
    elif not problem.penalty.is_smooth:
        working_set_descent.check_solver(settings.solver)
    elif settings.solver == "sdca" or (
        settings.device_ids and is_by_ascent(problem, dataset, settings)
    ):
        is_on_host = not settings.device_ids
        if not (is_on_host and softmax_ascent.suits(problem, dataset, communicator)):
            dual_coordinate_ascent.check_solvable(problem)
    task, place = _task(problem, dataset, settings), _place(dataset, communicator, settings)
    if place not in _SUPPORT[task]:
        raise _refusal(problem, task, place, settings)
    is_wide = dataset.matrix.shape[1] > working_rows.MOST_COLUMNS
    if task is _Task.INTERIOR and is_wide and not is_spanned(problem, dataset, communicator):
        raise NotImplementedError(
            f"{task.value.format(loss=problem.loss.struct)}: this version has it for at most "
            f"{working_rows.MOST_COLUMNS} columns, got {dataset.matrix.shape[1]}; use an L2 penalty"
        )
    if task is _Task.BOUNDED and dataset.matrix.shape[1] > _MOST_BOUNDED:
        raise NotImplementedError(
            f"bounds: this version has them for at most {_MOST_BOUNDED} columns, got "
            f"{dataset.matrix.shape[1]}"
        )


def _check_cornered(problem: Problem, settings: Settings) -> None:
    if settings.solver not in ("auto", "ipm", "sdca"):
        raise ValueError(
            f"solver: expected 'auto', 'ipm' or 'sdca' for the loss {problem.loss.struct}, got "
            f"{settings.solver!r}"
        )
    if settings.solver == "sdca" and needs_interior(problem):
        raise ValueError(
            "solver='sdca' needs an L2 penalty and no other: expected solver='auto' or 'ipm'"
        )


def _task(problem: Problem, dataset: Dataset, settings: Settings) -> _Task:
    if problem.penalty.bounds is not None:
        return _Task.BOUNDED
    if is_cornered(problem) and (settings.solver == "ipm" or needs_interior(problem)):
        return _Task.INTERIOR
    if not problem.penalty.is_smooth:
        return _Task.SPARSE_JOINT if problem.loss.is_joint else _Task.SPARSE
    return _Task.ASCENT if is_by_ascent(problem, dataset, settings) else _Task.SMOOTH


def _place(dataset: Dataset, communicator: Communicator, settings: Settings) -> _Place:
    """Return the place, of several the one that fewest tasks have."""
    if settings.device_ids and is_streamed(dataset):
        return _Place.STORE_TO_GPU
    if settings.device_ids:
        return _Place.GPUS if len(settings.device_ids) > 1 else _Place.GPU
    if is_streamed(dataset):
        return _Place.STORE
    return _Place.RANKS if communicator.size > 1 else _Place.MEMORY


def _refusal(
    problem: Problem, task: _Task, place: _Place, settings: Settings
) -> NotImplementedError:
    """Return the error that says what works: another place, or another task there."""
    has, ids = _SUPPORT[task], list(settings.device_ids)
    ways = []
    if task is _Task.INTERIOR:
        ways.append("an L2 penalty alone")
    if task is _Task.ASCENT and not is_cornered(problem):
        ways.append("solver='auto'")
    if task is _Task.SPARSE_JOINT and place in _SUPPORT[_Task.SPARSE]:
        ways.append("multi_class='ovr'")
    if place is _Place.GPUS and _Place.GPU in has:
        ways.append(f"device_ids=[{ids[0]}]")
    is_stored = place in (_Place.STORE, _Place.STORE_TO_GPU)
    if ids and (_Place.STORE if is_stored else _Place.MEMORY) in has:
        ways.append("device_ids=None")
    if is_stored:
        ways.append("ChunkedDataset.load() if the rows fit memory")
    if place is _Place.RANKS:
        ways.append("the class of one machine")
    where = " on a store" if is_stored else " on several ranks" if place is _Place.RANKS else ""
    asked = f" with device_ids={ids!r}{where}" if ids else where
    name = task.value.format(loss=problem.loss.core_name.lower())
    places = ", ".join(_WORDS[each] for each in _Place if each in has)
    return NotImplementedError(
        f"{name}{asked}: this version has it {places}; use {', or '.join(ways)}"
    )
