"""The named problems: which data, which loss, which penalty, which C.

The objective is that of the whole project (``docs/notation.md``)::

    P(w, b) = sum_i C * l(x_i.w + b, y_i) + R(w),   R(w) = rho ||w||_1 + (1 - rho)/2 ||w||^2

with l the logistic loss log(1 + exp(-m)), the hinge [1 - m]+, the squared hinge [1 - m]+^2
(m = y z, y = -1 or +1), the squared loss (z - y)^2 / 2, or, with one vector w_k a class, the
multinomial loss log(sum_k exp(z_k)) - z_y. rho is ``l1_ratio``; it is 0 but where the name says
otherwise.

A problem's name is that of its data and a suffix of `TASK_OF_SUFFIX`: ``text`` (logistic),
``text_hinge``, ``text_lasso``. With rho > 0 the solution is zero up to a critical C; such a
problem's strength is given as a share of it, C = critical C / share, as one gives alpha as a share
of alpha_max. Only training data exist here: the benchmark compares optimisers on the same
objective, not generalisation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.real_data import REAL_SETS, binary_labels, class_numbers, load_real_set
from benchmarks.synthetic_data import (
    Matrix,
    class_labels,
    dense_spectrum,
    logistic_labels,
    lognormal_mixed_scales,
    particle_collisions,
    planted_margins,
    unit_rows,
    zipf_text,
)

SEED = 0
DEFAULT_STRENGTH = 0.1
_N_PLANTED_CLASSES = 10


class Task(NamedTuple):
    """A loss and the share of the L1 norm in the penalty."""

    loss: str
    l1_ratio: float = 0.0


TASK_OF_SUFFIX = {
    "": Task("logistic"),
    "_hinge": Task("hinge"),
    "_squared_hinge": Task("squared_hinge"),
    "_ridge": Task("squared"),
    "_multinomial": Task("multinomial"),
    "_l1": Task("logistic", 1.0),
    "_l1l2": Task("logistic", 0.5),
    "_lasso": Task("squared", 1.0),
    "_elastic_net": Task("squared", 0.5),
}


class ProblemUnavailableError(RuntimeError):
    """A problem cannot be generated here; the message says why."""


@dataclass(frozen=True)
class Problem:
    """A generated problem: data, loss and penalty.

    Parameters
    ----------
    name : str
        Name in the registry.
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        float32; csr with int32 indices, or C-ordered.
    y : ndarray of shape (n_rows,)
        int32 labels from 0, or float32 targets for the squared loss.
    loss : str
        'logistic', 'hinge', 'squared_hinge', 'squared' or 'multinomial'.
    C : float
        Weight of every row's loss.
    fit_intercept : bool
        Whether an unpenalised intercept is fitted.
    scale : float
        Share of the full size.
    seed : int
        Seed of the generator.
    l1_ratio : float
        Share of the L1 norm in the penalty, in [0, 1].
    strength : float or None
        The critical C over C, where the problem was posed by that.
    """

    name: str
    X: Matrix
    y: NDArray[Any]
    loss: str
    C: float
    fit_intercept: bool
    scale: float
    seed: int = SEED
    l1_ratio: float = 0.0
    strength: float | None = None

    @property
    def is_classification(self) -> bool:
        """Whether the labels are classes."""
        return self.loss != "squared"

    @property
    def is_sparse(self) -> bool:
        """Whether X is a csr matrix."""
        return bool(sparse.issparse(self.X))

    @property
    def n_nonzeros(self) -> int:
        """Stored values of X."""
        return int(self.X.nnz) if self.is_sparse else int(self.X.size)

    @cached_property
    def n_classes(self) -> int:
        """Classes of the multinomial loss; 2 for the other losses of classification, else 0."""
        if self.loss == "multinomial":
            return int(self.y.max()) + 1
        return 2 if self.is_classification else 0

    @property
    def coef_shape(self) -> tuple[int, ...]:
        """Shape of the coefficients: one vector, or one a class."""
        n_features = int(self.X.shape[1])
        return (self.n_classes, n_features) if self.loss == "multinomial" else (n_features,)

    @property
    def alpha(self) -> float:
        """1 / (n C): the penalty's weight beside the mean of the loss, as many libraries have it.

        P = n C (mean of the loss + alpha R).
        """
        return 1.0 / (self.C * int(self.X.shape[0]))

    @property
    def signed_labels(self) -> NDArray[np.float64]:
        """What the loss takes as y: -1 and +1, the targets, or the numbers of the classes."""
        y = self.y.astype(np.float64)
        return 2.0 * y - 1.0 if self.n_classes == 2 and self.loss != "multinomial" else y

    def rows(self, index: NDArray[np.intp] | slice) -> Problem:
        """Return the same problem on some of the rows.

        Parameters
        ----------
        index : ndarray or slice
            Rows to keep.

        Returns
        -------
        Problem
            Copy with fewer rows.
        """
        return replace(self, X=self.X[index], y=self.y[index])


@dataclass(frozen=True)
class Recipe:
    """How to make a named problem.

    Parameters
    ----------
    data : str
        Key of `DATA_MAKERS` or of `real_data.REAL_SETS`.
    task : Task
        Loss and penalty.
    C : float
        Weight of every row's loss.
    fit_intercept : bool
        False by default for the comparison across libraries, because IBM's Snap ML and
        LIBLINEAR penalise the intercept: with one, they solve another problem.
    """

    data: str
    task: Task
    C: float = 1.0
    fit_intercept: bool = False


def _scaled(count: int, scale: float, smallest: int) -> int:
    """Return a number of rows or columns at a given scale."""
    return max(smallest, round(count * scale))


def _make_click_log(rng: np.random.Generator, scale: float) -> tuple[Matrix, NDArray[Any]]:
    """Make the one-hot click log, 39 ones a row; rows and columns shrink together."""
    try:
        from snapml.data import make_click_log
    except ImportError as error:
        raise ProblemUnavailableError(f"snapml.data.make_click_log: {error}") from error
    X, y = make_click_log(
        n_rows=_scaled(1_000_000, scale, 1000),
        n_features=_scaled(1_000_000, scale, 1000),
        n_fields=39,
        random_state=SEED,
        dtype=np.float32,
    )
    # csr_matrix, not csr_array: two of the libraries accept nothing else.
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return sparse.csr_matrix(parts, shape=X.shape), np.asarray(y).astype(np.int32)


def _make_click_log_unit(rng: np.random.Generator, scale: float) -> tuple[Matrix, NDArray[Any]]:
    """Scale the same rows to unit length, LIBSVM's convention for the Criteo data."""
    X, y = _make_click_log(rng, scale)
    return unit_rows(X), y


def _make_text(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make text-like rows, 40 of 30,000 words each; rows and columns shrink together."""
    n_rows = _scaled(60_000, scale, 500)
    n_features = _scaled(30_000, scale, 300)
    return zipf_text(rng, n_rows, n_features, n_per_row=40, exponent=1.05), None


def _make_dense_tall(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make raw measurements: 50 correlated columns, non-zero means, nothing normalised."""
    return dense_spectrum(rng, _scaled(100_000, scale, 500), 50, 0.75, mean_scale=0.5), None


def _make_dense_wide(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make unit rows of 2,000 correlated columns; both sides shrink by sqrt(scale)."""
    side = float(np.sqrt(scale))
    X = dense_spectrum(
        rng, _scaled(10_000, side, 500), _scaled(2_000, side, 100), 0.5, mean_scale=0.0
    )
    return unit_rows(X), None


def _make_dense_500(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make raw measurements: 500 correlated columns, non-zero means; both sides shrink."""
    side = float(np.sqrt(scale))
    n_rows, n_features = _scaled(100_000, side**1.5, 1000), _scaled(500, side**0.5, 50)
    return dense_spectrum(rng, n_rows, n_features, 0.5, mean_scale=0.5), None


def _make_dense_2000(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make 20,000 unit rows of 2,000 correlated columns; both sides shrink by sqrt(scale)."""
    side = float(np.sqrt(scale))
    X = dense_spectrum(
        rng, _scaled(20_000, side, 1000), _scaled(2_000, side, 100), 0.5, mean_scale=0.0
    )
    return unit_rows(X), None


def _make_higgs_like(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make 28 raw columns shaped like HIGGS's."""
    return particle_collisions(rng, _scaled(1_000_000, scale, 2000)), None


def _make_mixed_scales(rng: np.random.Generator, scale: float) -> tuple[Matrix, None]:
    """Make the hard case: log-normal columns of scales 1e-2 to 1e2, half of them 10 % dense."""
    return lognormal_mixed_scales(rng, _scaled(50_000, scale, 1000), 100, share_filled=0.1), None


# A maker returns labels where its data come with labels, else None: then they are planted.
DATA_MAKERS: dict[str, Callable[[np.random.Generator, float], tuple[Matrix, Any]]] = {
    "click_log": _make_click_log,
    "click_log_unit": _make_click_log_unit,
    "text": _make_text,
    "dense_tall": _make_dense_tall,
    "dense_wide": _make_dense_wide,
    "dense_500": _make_dense_500,
    "dense_2000": _make_dense_2000,
    "higgs_like": _make_higgs_like,
    "mixed_scales": _make_mixed_scales,
}

_HAS_OWN_LABELS = frozenset({"click_log", "click_log_unit"})


def _is_posed(data: str, task: Task) -> bool:
    """Whether the data have targets for the task, or can get planted ones."""
    if task.loss == "multinomial":
        many = data in REAL_SETS and REAL_SETS[data].has_many_classes
        return many or (data in DATA_MAKERS and data not in _HAS_OWN_LABELS)
    return not (data in REAL_SETS and task.loss == "squared")


RECIPES: dict[str, Recipe] = {
    data + suffix: Recipe(data, task)
    for data in (*DATA_MAKERS, *REAL_SETS)
    for suffix, task in TASK_OF_SUFFIX.items()
    if _is_posed(data, task)
}

DEFAULT_PROBLEMS = ("click_log", "click_log_unit", "text", "dense_tall", "dense_wide")

_GRID_DENSE = ("dense_tall", "dense_500", "dense_2000", "higgs_like", "mixed_scales")
# Named groups of problems for the command line.
PROBLEM_SETS: dict[str, tuple[str, ...]] = {
    "dense": _GRID_DENSE,
    "dense_svm": tuple(d + s for d in _GRID_DENSE for s in ("_squared_hinge", "_hinge")),
    "dense_ridge": tuple(d + "_ridge" for d in _GRID_DENSE),
    "real": ("breast_cancer", "cover_286k", "covtype_20k", "credit_default", "mnist_t10k"),
    "sparse": ("text", "a9a", "text_squared_hinge", "text_hinge", "text_ridge"),
    "l1": (
        *(d + s for d in ("text", "dense_500", "mixed_scales") for s in ("_l1", "_lasso")),
        "dense_500_elastic_net",
        "dense_500_l1l2",
        "text_elastic_net",
        "credit_default_l1",
    ),
    "multinomial": ("dense_tall_multinomial", "mnist_t10k_multinomial", "covtype_20k_multinomial"),
}
PROBLEM_SETS["grid"] = tuple(name for names in PROBLEM_SETS.values() for name in names)


def expand_names(names: Sequence[str]) -> list[str]:
    """Replace the names of sets by their problems.

    Parameters
    ----------
    names : sequence of str
        Keys of `RECIPES` and of `PROBLEM_SETS`.

    Returns
    -------
    list of str
        Keys of `RECIPES`, each once; problems over the same data follow each other.
    """
    flat = [name for given in names for name in PROBLEM_SETS.get(given, (given,))]
    order = list(dict.fromkeys(RECIPES[name].data for name in flat))
    return sorted(dict.fromkeys(flat), key=lambda name: order.index(RECIPES[name].data))


def make_problem(
    name: str, scale: float = 1.0, C: float | None = None, strength: float | None = None
) -> Problem:
    """Generate or read a named problem.

    Parameters
    ----------
    name : str
        Key of `RECIPES`.
    scale : float, default=1.0
        Share of the full size, in (0, 1].
    C : float, default=None
        Overrides the recipe's C.
    strength : float, default=None
        With an L1 norm in the penalty and without C: C is the critical C over this number,
        `DEFAULT_STRENGTH` by default. Else not used.

    Returns
    -------
    Problem
        The data and what to minimise over them.

    Raises
    ------
    ProblemUnavailableError
        If the data cannot be had here.
    """
    recipe = RECIPES[name]
    X, labels, rng = _make_data(recipe.data, scale)
    # The data are shared by all problems over them; so must be the state that follows.
    y = _make_targets(recipe, X, labels, copy.deepcopy(rng))
    loss, l1_ratio = recipe.task
    problem = Problem(name, X, y, loss, recipe.C, recipe.fit_intercept, scale, l1_ratio=l1_ratio)
    if C is not None:
        return replace(problem, C=C)
    return with_strength(problem, strength or DEFAULT_STRENGTH) if l1_ratio else problem


def make_variants(
    name: str, scale: float, weights: Sequence[float], strengths: Sequence[float]
) -> Iterator[Problem]:
    """Generate a named problem at several strengths of its penalty, weakest C first.

    Parameters
    ----------
    name : str
        Key of `RECIPES`.
    scale : float
        Share of the full size.
    weights : sequence of float
        Values of C; for penalties without an L1 norm.
    strengths : sequence of float
        Shares of the critical penalty; for those with one.

    Yields
    ------
    Problem
        All share one X and one y.
    """
    problem = make_problem(name, scale)
    if problem.l1_ratio:
        for strength in sorted(strengths, reverse=True):
            yield with_strength(problem, strength)
    else:
        for C in sorted(weights):
            yield replace(problem, C=C)


def with_strength(problem: Problem, strength: float) -> Problem:
    """Return the problem with C = critical C / strength.

    Below the critical C, l1_ratio / ||X^T l'(0)||_inf, the solution is zero.

    Parameters
    ----------
    problem : Problem
        Of logistic or squared loss, with an L1 norm in the penalty.
    strength : float
        Share of the critical penalty, in (0, 1).

    Returns
    -------
    Problem
        The same data, another C.
    """
    y = problem.signed_labels
    slopes = (-0.5 * y if problem.loss == "logistic" else -y).astype(np.float32)
    steepest = float(np.max(np.abs(problem.X.T @ slopes)))
    # Rounded: float32 sums differ between machines, and C should not.
    C = float(f"{problem.l1_ratio / (steepest * strength):.3g}")
    return replace(problem, C=C, strength=strength)


@lru_cache(maxsize=1)
def _make_data(data: str, scale: float) -> tuple[Matrix, NDArray[Any] | None, np.random.Generator]:
    """Call the maker of synthetic data or the reader of real data."""
    rng = np.random.default_rng(SEED)
    if data in DATA_MAKERS:
        X, labels = DATA_MAKERS[data](rng, scale)
        return X, labels, rng
    try:
        X, labels = load_real_set(REAL_SETS[data], rng, scale)
    except FileNotFoundError as error:
        raise ProblemUnavailableError(str(error)) from error
    return X, labels, rng


def _make_targets(
    recipe: Recipe, X: Matrix, labels: NDArray[Any] | None, rng: np.random.Generator
) -> NDArray[Any]:
    """Return the labels that come with the data, or planted ones."""
    loss = recipe.task.loss
    if loss == "squared":
        margins = planted_margins(rng, X)
        return (margins + rng.standard_normal(margins.size)).astype(np.float32)
    if loss == "multinomial":
        if labels is None:
            return class_labels(rng, X, _N_PLANTED_CLASSES)
        return class_numbers(labels)
    if labels is None:
        return logistic_labels(rng, planted_margins(rng, X))
    real = REAL_SETS.get(recipe.data)
    return labels if real is None else binary_labels(real, labels)


def save_arrays(problem: Problem, directory: Path) -> None:
    """Write X and y for another process: ``X.npz`` (csr) or ``X.npy``, and ``y.npy``.

    Parameters
    ----------
    problem : Problem
        What to write.
    directory : pathlib.Path
        Existing folder; older files in it are replaced.
    """
    for stale in ("X.npz", "X.npy"):
        (directory / stale).unlink(missing_ok=True)
    if problem.is_sparse:
        sparse.save_npz(directory / "X.npz", problem.X, compressed=False)
    else:
        np.save(directory / "X.npy", problem.X)
    np.save(directory / "y.npy", problem.y)


def load_arrays(directory: Path) -> tuple[Matrix, NDArray[Any]]:
    """Read what `save_arrays` wrote.

    Parameters
    ----------
    directory : pathlib.Path
        Folder of the files.

    Returns
    -------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        float32 data.
    y : ndarray of shape (n_rows,)
        Labels or targets.
    """
    is_sparse = (directory / "X.npz").is_file()
    X = sparse.load_npz(directory / "X.npz") if is_sparse else np.load(directory / "X.npy")
    return X, np.load(directory / "y.npy")
