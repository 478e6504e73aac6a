"""The named problems: which data, which loss, which C.

The objective is that of the whole project (``docs/notation.md``)::

    P(w, b) = sum_i C * l(x_i.w + b, y_i) + 1/2 ||w||^2

with l the logistic loss log(1 + exp(-m)), the hinge [1 - m]+, the squared hinge [1 - m]+^2
(m = y z, y = -1 or +1) or the squared loss (z - y)^2 / 2 (ridge, C = 1/alpha).

A problem's name is that of its data, with ``_hinge``, ``_squared_hinge`` or ``_ridge`` added
for a loss other than the logistic one: ``text``, ``text_hinge``. Only training data exist
here: the benchmark compares optimisers on the same objective, not generalisation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.real_data import REAL_SETS, load_real_set
from benchmarks.synthetic_data import (
    Matrix,
    dense_spectrum,
    logistic_labels,
    planted_margins,
    unit_rows,
    zipf_text,
)

SEED = 0
LOSS_OF_SUFFIX = {
    "": "logistic",
    "_hinge": "hinge",
    "_squared_hinge": "squared_hinge",
    "_ridge": "squared",
}


class ProblemUnavailableError(RuntimeError):
    """A problem cannot be generated here; the message says why."""


@dataclass(frozen=True)
class Problem:
    """A generated problem: data, loss and regularisation.

    Parameters
    ----------
    name : str
        Name in the registry.
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        float32; csr with int32 indices, or C-ordered.
    y : ndarray of shape (n_rows,)
        int32 labels 0 and 1, or float32 targets for the squared loss.
    loss : str
        'logistic', 'hinge', 'squared_hinge' or 'squared'.
    C : float
        Weight of every row's loss.
    fit_intercept : bool
        Whether an unpenalised intercept is fitted.
    scale : float
        Share of the full size.
    seed : int
        Seed of the generator.
    """

    name: str
    X: Matrix
    y: NDArray[Any]
    loss: str
    C: float
    fit_intercept: bool
    scale: float
    seed: int = SEED

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

    @property
    def signed_labels(self) -> NDArray[np.float64]:
        """float64 labels -1 and +1, or the targets of the squared loss."""
        y = self.y.astype(np.float64)
        return 2.0 * y - 1.0 if self.is_classification else y

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
    loss : str
        Name of the loss.
    C : float
        Weight of every row's loss.
    fit_intercept : bool
        False by default for the comparison across libraries, because IBM's Snap ML and
        LIBLINEAR penalise the intercept: with one, they solve another problem.
    """

    data: str
    loss: str
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


# A maker returns labels where its data come with labels, else None: then they are planted.
DATA_MAKERS: dict[str, Callable[[np.random.Generator, float], tuple[Matrix, Any]]] = {
    "click_log": _make_click_log,
    "click_log_unit": _make_click_log_unit,
    "text": _make_text,
    "dense_tall": _make_dense_tall,
    "dense_wide": _make_dense_wide,
}

RECIPES: dict[str, Recipe] = {
    data + suffix: Recipe(data, loss)
    for data in (*DATA_MAKERS, *REAL_SETS)
    for suffix, loss in LOSS_OF_SUFFIX.items()
    if not (data in REAL_SETS and loss == "squared")
}

DEFAULT_PROBLEMS = tuple(DATA_MAKERS)


def make_problem(name: str, scale: float = 1.0, C: float | None = None) -> Problem:
    """Generate or read a named problem.

    Parameters
    ----------
    name : str
        Key of `RECIPES`.
    scale : float, default=1.0
        Share of the full size, in (0, 1].
    C : float, default=None
        Overrides the recipe's C.

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
    rng = np.random.default_rng(SEED)
    X, labels = _make_data(recipe.data, rng, scale)
    if recipe.loss == "squared":
        margins = planted_margins(rng, X)
        labels = (margins + rng.standard_normal(margins.size)).astype(np.float32)
    elif labels is None:
        labels = logistic_labels(rng, planted_margins(rng, X))
    return Problem(
        name, X, labels, recipe.loss, recipe.C if C is None else C, recipe.fit_intercept, scale
    )


def _make_data(
    data: str, rng: np.random.Generator, scale: float
) -> tuple[Matrix, NDArray[Any] | None]:
    """Call the maker of synthetic data or the reader of real data."""
    if data in DATA_MAKERS:
        return DATA_MAKERS[data](rng, scale)
    try:
        return load_real_set(REAL_SETS[data], rng, scale)
    except FileNotFoundError as error:
        raise ProblemUnavailableError(str(error)) from error


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
