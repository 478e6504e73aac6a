"""Optional real data: svmlight files in a folder beside the checkout.

The files are public sets (LIBSVM data, RCV1, 20 Newsgroups). They are not part of this
repository; where the folder or a file is absent, the problem is skipped with that reason.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.synthetic_data import unit_rows

DATA_DIRECTORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class RealSet:
    """Where a real binary task comes from.

    Parameters
    ----------
    file_name : str
        svmlight text, xz-compressed, in `DATA_DIRECTORY`.
    n_features : int
        Columns; passed on because the last ones can be empty.
    is_zero_based : bool
        Whether column numbers start at 0.
    positive_labels : tuple of float
        Labels of class 1; all others are class 0.
    is_tf_idf : bool
        Whether counts are turned into unit rows of tf-idf weights.
    """

    file_name: str
    n_features: int
    is_zero_based: bool
    positive_labels: tuple[float, ...]
    is_tf_idf: bool = False


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
}


def load_real_set(
    recipe: RealSet, rng: np.random.Generator, scale: float
) -> tuple[sparse.csr_matrix, NDArray[np.int32]]:
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
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        float32 values, int32 indices.
    y : ndarray of shape (n_rows,)
        int32 labels 0 or 1.

    Raises
    ------
    FileNotFoundError
        If the file is not there.
    """
    # Imported here: the other modules of the benchmark do not need scikit-learn.
    from sklearn.datasets import load_svmlight_file

    path = DATA_DIRECTORY / recipe.file_name
    if not path.is_file():
        raise FileNotFoundError(f"{recipe.file_name} is not in the data folder beside the checkout")
    with lzma.open(path) as stream:
        X, labels = load_svmlight_file(
            stream, n_features=recipe.n_features, zero_based=recipe.is_zero_based
        )
    rows = rng.permutation(X.shape[0])[: max(200, round(min(scale, 1.0) * X.shape[0]))]
    X = sparse.csr_matrix(X[rows])
    if recipe.is_tf_idf:
        X = _tf_idf(X)
    X.sort_indices()
    parts = (X.data.astype(np.float32), X.indices.astype(np.int32), X.indptr.astype(np.int32))
    y = np.isin(labels[rows], recipe.positive_labels).astype(np.int32)
    return sparse.csr_matrix(parts, shape=X.shape), y


def _tf_idf(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Smoothed idf times counts, rows of unit length (scikit-learn's defaults)."""
    document_counts = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log((1.0 + counts.shape[0]) / (1.0 + document_counts)) + 1.0
    weighted = counts.astype(np.float64)
    weighted.data *= idf[counts.indices]
    return unit_rows(weighted)
