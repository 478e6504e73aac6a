"""The hinge on a card by each of its two ways: a continuation of smoothed hinges, and epochs."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement
from snapml import LinearSVC
from snapml.kernels import Device
from snapml.solvers.plan import device_choice
from snapml.solvers.rows.cpu_rows import array_of

__all__ = ["compare_hinges"]

_TOL = 1e-3
_WAYS = {"continuation": "pqn", "coordinate ascent": "sdca", "the default": "auto"}


def compare_hinges(
    make: Callable[[], Device],
    shapes: Sequence[Shape],
    strengths: Sequence[float],
    seed: int,
    limit_s: float = 5.0,
) -> Iterator[Measurement]:
    """Time fits of `LinearSVC(loss="hinge")` until their gap is certified.

    Parameters
    ----------
    make : callable
        Returns a new device on the card.
    shapes : sequence of Shape
        Of the rows.
    strengths : sequence of float
        Values of C.
    seed : int
        Of the random numbers.
    limit_s : float, default=5.0
        Most seconds of a fit.

    Yields
    ------
    Measurement
        Seconds, the copy of the rows to the card among them; beside those of the continuation. The
        note has the gap that a fit ended with. The default is good where it is no more than twice
        as slow as the better of both.
    """
    own = functools.cache(lambda _: make())
    with mock.patch.object(device_choice, "make_device", own):
        for shape in shapes:
            _, dataset = logistic(shape, seed)
            X = array_of(dataset.matrix)
            for C in strengths:
                yield from _compare(X, dataset.labels, C, str(shape), limit_s)


def _compare(X: Any, y: np.ndarray, C: float, shape: str, limit_s: float) -> Iterator[Measurement]:
    seconds: dict[str, float] = {}
    for name, solver in _WAYS.items():
        model = LinearSVC(loss="hinge", C=C, solver=solver, tol=_TOL, device_ids=[0])
        model.set_params(max_iter=10_000, max_time_s=limit_s)
        model.fit(X[:1000], y[:1000])  # compiles, and loads kernels
        started_s = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the time was over, which the note says
            model.fit(X, y)
        seconds[name] = time.perf_counter() - started_s
        best = min(seconds.values())
        is_good = seconds[name] <= 2.0 * best if solver == "auto" else None
        gap = float(model.gap_ / model.objective_)
        note = f"{model.n_iter_} reads, gap {gap:.1e} of the objective; {model.solver_}"
        case = f"{shape}, C = {C:g}"
        reference = seconds["continuation"]
        yield Measurement("hinges", name, case, seconds[name], "s", reference, is_good, note)
