"""Searches whose models share reads on the card, beside one fit there after the other."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement
from snapml import LogisticRegression
from snapml.data import DenseMatrix
from snapml.kernels import Device
from snapml.model_selection import GridSearchCV
from snapml.solvers.plan import device_choice
from snapml.solvers.rows.cpu_rows import array_of

__all__ = ["compare_searches"]

_COSTS = np.logspace(-4, -1, 5)
_N_FOLDS = 3
_ALLOWED = 1e-3  # between the scores of both, which end at tolerances


def compare_searches(
    make: Callable[[], Device], shapes: Sequence[Shape], seed: int
) -> Iterator[Measurement]:
    """Time searches over five values of C in three folds, and compare their scores.

    Parameters
    ----------
    make : callable
        Returns a new device on the card.
    shapes : sequence of Shape
        Of the rows.
    seed : int
        Of the random numbers.

    Yields
    ------
    Measurement
        Seconds of the shared search beside those of single fits, and the largest difference of a
        mean score.
    """
    own = functools.cache(lambda _: make())
    with mock.patch.object(device_choice, "make_device", own):
        for shape in shapes:
            yield from _compare(shape, seed)


def _compare(shape: Shape, seed: int) -> Iterator[Measurement]:
    _, dataset = logistic(shape, seed)
    X = dataset.matrix.values if isinstance(dataset.matrix, DenseMatrix) else None
    rows = csr_matrix(array_of(dataset.matrix)) if X is None else X
    model = LogisticRegression(device_ids=[0], tol=1e-4)
    found, seconds = {}, {}
    for name, tol in (("shared", 1e-6), ("one by one", 0.0), ("shared again", 1e-6)):
        search = GridSearchCV(model, {"C": _COSTS}, cv=_N_FOLDS, refit=False, search_tol=tol)
        started_s = time.perf_counter()
        found[name] = search.fit(rows, dataset.labels)
        seconds[name] = time.perf_counter() - started_s
    case = f"{shape}, {len(_COSTS)} values of C, {_N_FOLDS} folds"
    n_shared = found["shared"].n_shared_
    is_shared = n_shared == len(_COSTS) * _N_FOLDS
    note = f"{n_shared} fits shared; the reference is one fit after the other on the card"
    reference = seconds["one by one"]
    yield Measurement(
        "searches", "shared", case, seconds["shared again"], "s", reference, is_shared, note
    )
    scores = [found[name].cv_results_["mean_test_score"] for name in ("shared", "one by one")]
    difference = float(np.abs(scores[0] - scores[1]).max())
    is_good = difference <= _ALLOWED
    yield Measurement("searches", "difference of scores", case, difference, "", _ALLOWED, is_good)
