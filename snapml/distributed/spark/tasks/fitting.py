"""The fits of a task's rows, together with those of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from snapml.data import Dataset
from snapml.distributed.checkpoints import Checkpoints
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.objective import Columns, outcome_of, problem_of
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.spark.tasks.targets import Targets, targets_of
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.observer import SILENT, Observer
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule

__all__ = ["fit"]

# Spark's LinearRegression(solver="auto") solves normal equations up to so many columns.
_MOST_NORMAL_COLUMNS = 4096
# The curvature of a model's penalty is that of the model, to so little; each round finds two or
# more digits of it.
_MOST_ROUNDS, _SAME_CURVATURE = 20, 1e-8


def fit(
    rows: LocalRows,
    n_features: int,
    request: FitRequest,
    communicator: Communicator,
    devices: tuple[int, ...] = (),
) -> list[FitOutcome]:
    """Fit the models of a request together with the other tasks.

    Parameters
    ----------
    rows : LocalRows
        Of this task; of use no more.
    n_features : int
        Number of columns.
    request : FitRequest
        What to fit.
    communicator : Communicator
        The tasks.
    devices : tuple of int, default=()
        Numbers of this task's GPUs; none trains on the CPU.

    Returns
    -------
    list of FitOutcome
        One a pair of penalties, the same on all tasks.

    Raises
    ------
    ValueError, NotImplementedError, ArithmeticError
        If rows or parameters are not as described.
    """
    columns = _columns(rows, n_features, request, communicator)
    matrix = rows.matrix(communicator, n_features, columns.scale, request.n_threads or 1)
    weights = rows.weights()
    weight = 1.0 / columns.weight_sum if weights is None else 1.0
    shares = np.full(rows.n_rows, weight) if weights is None else weights / columns.weight_sum
    targets = targets_of(request, columns.n_classes, rows, shares, communicator)
    own = None if weights is None else shares.astype(matrix.dtype)
    labels = targets.labels.astype(matrix.dtype)
    dataset = Dataset(matrix, labels, own, weight, targets.offsets)
    observer = _observer(request, communicator, devices)
    rule = StoppingRule(tol=request.tol, max_iter=request.max_iter, observer=observer)
    settings = Settings(request.solver, request.n_threads, device_ids=devices)
    penalised = _Penalised(dataset, shares, columns, targets, communicator, rule, settings)
    curvature = targets.mean_curvature(shares, np.zeros(len(labels)), communicator)
    outcomes, start = [], Start()
    for number in range(len(request.reg_params)):
        outcome, curvature, start = penalised.fit(request, number, curvature, start)
        outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Penalised:
    """Fits of one penalty after another to the same rows."""

    dataset: Dataset
    shares: np.ndarray
    columns: Columns
    targets: Targets
    communicator: Communicator
    rule: StoppingRule
    settings: Settings

    def fit(
        self, request: FitRequest, number: int, curvature: float, start: Start
    ) -> tuple[FitOutcome, float, Start]:
        """Return the model of a pair of penalties, its mean curvature, and where to go on.

        The curvature is that of the model which it leads to: Poisson's and Gamma's is known before.
        """
        n_iter, is_settled = 0, False
        for _ in range(_MOST_ROUNDS):
            used = curvature
            problem = problem_of(request, number, self.columns, self.targets, used)
            result = choice.fit(
                problem, self.dataset, self.communicator, self.rule, self.settings, start
            )
            start = Start(coef=result.point(problem.bias_column))
            n_iter += result.n_iter
            if self.targets.family is None or request.reg_params[number] == 0.0:
                is_settled = True
                break
            n_threads = self.settings.n_threads or 1
            moved = self.targets.moved(self.dataset.matrix, result, n_threads)
            curvature = self.targets.mean_curvature(self.shares, moved, self.communicator)
            is_settled = abs(curvature - used) <= _SAME_CURVATURE * used
            if is_settled or not result.has_converged:
                break
        result = replace(result, n_iter=n_iter, has_converged=result.has_converged and is_settled)
        made = outcome_of(problem, result, self.columns, self.targets, used)
        return made, curvature, start


def _observer(
    request: FitRequest, communicator: Communicator, devices: tuple[int, ...]
) -> Observer:
    """Return what keeps the state of the fit; an attempt that Spark starts again finds it."""
    if request.checkpoint_dir is None:
        return SILENT
    if len(devices) > 1:
        raise NotImplementedError(
            f"checkpointDir: expected one GPU a task, got {len(devices)}: use as many numWorkers"
        )
    path = Path(request.checkpoint_dir) / "state"
    every = f"{request.checkpoint_interval:f}s"
    try:
        return Checkpoints(path, every, {}, communicator, begins_anew=True)
    except (FileNotFoundError, PermissionError) as error:
        raise ValueError(
            "checkpointDir: expected a folder that the driver and all executors see and may write "
            f"into, got on an executor: {error}"
        ) from error


def _columns(
    rows: LocalRows, n_features: int, request: FitRequest, communicator: Communicator
) -> Columns:
    """Agree on classes, scales and sums."""
    n_classes = 0 if request.model in ("linear", "glm") else _n_classes(rows, request, communicator)
    n_samples = int(sum(communicator.exchange(rows.n_rows)))
    label_moments = rows.label_moments()
    weight_sum = float(sum(communicator.exchange(label_moments.weight)))
    if not weight_sum > 0.0:
        raise ValueError(f"weightCol={request.weight_col!r}: expected a positive sum, got 0")
    is_unbiased = request.deviations == "sample"
    if request.deviations == "auto":
        is_unbiased = n_features > _MOST_NORMAL_COLUMNS
    scale = None
    if request.standardization:
        moments = rows.moments(n_features, request.n_threads or 1)
        variance = moments.agreed(communicator, is_unbiased=is_unbiased)[1]
        with np.errstate(divide="ignore"):
            scale = np.where(variance > 0.0, 1.0 / np.sqrt(variance), 0.0)
    labels = label_moments.agreed(communicator, is_unbiased=is_unbiased)
    mean, spread = (float(found[0]) for found in labels)
    label_scale = math.sqrt(spread) or abs(mean) or 1.0
    return Columns(n_classes, scale, label_scale, weight_sum, n_samples)


def _n_classes(rows: LocalRows, request: FitRequest, communicator: Communicator) -> int:
    found = communicator.exchange(rows.label_range())
    least, largest = min(one[0] for one in found), max(one[1] for one in found)
    name = f"labelCol={request.label_col!r}"
    n_classes = max(2, int(largest) + 1)
    if n_classes > 2 and request.model in ("binomial", "svm"):
        raise ValueError(f"{name}: expected two classes, 0 and 1, got labels up to {largest:g}")
    if least == largest:
        raise ValueError(f"{name}: expected at least two classes, got only {least:g}")
    return n_classes
