"""Optional real data: files in a folder beside the checkout, and one set of scikit-learn's.

The files are public sets (LIBSVM data, UCI, MNIST, 20 Newsgroups). They are not part of this
repository; where the folder or a file is absent, the problem is skipped with that reason.
"""

from __future__ import annotations

import gzip
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.synthetic_data import Matrix, unit_rows

DATA_DIRECTORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class RealSet:
    """Where a real classification task comes from.

    Parameters
    ----------
    file_name : str
        In `DATA_DIRECTORY`: svmlight text (``.svm.xz``), arrays X and y (``.npz``), or a table
        whose last column is the label (``.csv.gz``). Empty: scikit-learn's breast cancer set.
    n_features : int
        Columns; svmlight files can end before the last one.
    is_zero_based : bool
        Whether an svmlight file's column numbers start at 0.
    positive_labels : tuple of float
        Labels of class 1 in the task of two classes; all others are class 0.
    is_tf_idf : bool
        Whether counts are turned into unit rows of tf-idf weights.
    has_many_classes : bool
        Whether the labels make a multinomial task as well.
    """

    file_name: str
    n_features: int
    is_zero_based: bool
    positive_labels: tuple[float, ...]
    is_tf_idf: bool = False
    has_many_classes: bool = False


REAL_SETS: dict[str, RealSet] = {
    "a9a": RealSet("a9a.train.svm.xz", 123, False, (1.0,)),
    "w8a": RealSet("w8a.svm.xz", 300, False, (1.0,)),
    "frappe": RealSet("frappe.train.svm.xz", 5382, True, (1.0,)),
    "rcv1_small": RealSet("rcv1_small.train.svm.xz", 47236, False, (1.0,)),
    "news20_binary_500": RealSet("news20_binary_500.svm.xz", 246096, False, (1.0,)),
    # Labels 1..5 of the 20 Newsgroups are the comp.* groups.
    "news20_comp": RealSet(
        "20news_bydate.train.svm.xz", 130107, False, (1.0, 2.0, 3.0, 4.0, 5.0), is_tf_idf=True
    ),
    # Dense tables as they come, nothing scaled.
    "breast_cancer": RealSet("", 30, False, (1.0,)),
    "cover_286k": RealSet("cover_286k.npz", 10, False, (1.0,)),
    "covtype_20k": RealSet("covtype_20k.npz", 54, False, (2.0,), has_many_classes=True),
    "credit_default": RealSet("credit_default_24k.csv.gz", 23, False, (1.0,)),
    # Two classes: digits 5 to 9 against 0 to 4.
    "mnist_t10k": RealSet(
        "mnist_t10k.npz", 784, False, (5.0, 6.0, 7.0, 8.0, 9.0), has_many_classes=True
    ),
}


def load_real_set(
    recipe: RealSet, rng: np.random.Generator, scale: float
) -> tuple[Matrix, NDArray[Any]]:
    """Read a real set, shuffle its rows and keep the share `scale` of them.

    Rows are shuffled because some of the files are sorted by class.

    Parameters
    ----------
    recipe : RealSet
        What to read.
    rng : numpy.random.Generator
        Source of the row order.
    scale : float
        Share of the rows to keep, at most 1.

    Returns
    -------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        float32 values.
    labels : ndarray of shape (n_rows,)
        As the file has them.

    Raises
    ------
    FileNotFoundError
        If the file is not there.
    """
    if recipe.file_name and not (DATA_DIRECTORY / recipe.file_name).is_file():
        raise FileNotFoundError(f"{recipe.file_name} is not in the data folder beside the checkout")
    X, labels = _read(recipe)
    rows = rng.permutation(X.shape[0])[: max(200, round(min(scale, 1.0) * X.shape[0]))]
    return _as_float32(X[rows], recipe.is_tf_idf), labels[rows]


def binary_labels(recipe: RealSet, labels: NDArray[Any]) -> NDArray[np.int32]:
    """Return the labels 0 and 1 of the task of two classes.

    Parameters
    ----------
    recipe : RealSet
        Whose labels.
    labels : ndarray of shape (n_rows,)
        As the file has them.

    Returns
    -------
    ndarray of shape (n_rows,)
        int32.
    """
    return np.isin(labels, recipe.positive_labels).astype(np.int32)


def class_numbers(labels: NDArray[Any]) -> NDArray[np.int32]:
    """Return the numbers of the classes, from 0, in the order of their labels.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        As the file has them.

    Returns
    -------
    ndarray of shape (n_rows,)
        int32.
    """
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _read(recipe: RealSet) -> tuple[Matrix, NDArray[Any]]:
    """Read one file, whatever its format."""
    # Imported here: the other modules of the benchmark do not need scikit-learn.
    from sklearn.datasets import load_breast_cancer, load_svmlight_file

    if not recipe.file_name:
        X, labels = load_breast_cancer(return_X_y=True)
        return X, labels
    path = DATA_DIRECTORY / recipe.file_name
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["X"], arrays["y"]
    if path.suffix == ".gz":
        with gzip.open(path, "rt") as stream:
            table = np.loadtxt(stream, delimiter=",", skiprows=1)
        return table[:, :-1], table[:, -1]
    with lzma.open(path) as stream:
        X, labels = load_svmlight_file(
            stream, n_features=recipe.n_features, zero_based=recipe.is_zero_based
        )
    return X, labels


def _as_float32(X: Matrix, is_tf_idf: bool) -> Matrix:
    """Return C-ordered float32, or csr with float32 values and int32 indices."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float32)
    X = sparse.csr_matrix(X)
    if is_tf_idf:
        X = _tf_idf(X)
    X.sort_indices()
    parts = (X.data.astype(np.float32), X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return sparse.csr_matrix(parts, shape=X.shape)


def _tf_idf(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Smoothed idf times counts, rows of unit length (scikit-learn's defaults)."""
    document_counts = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log((1.0 + counts.shape[0]) / (1.0 + document_counts)) + 1.0
    weighted = counts.astype(np.float64)
    weighted.data *= idf[counts.indices]
    return unit_rows(weighted)
