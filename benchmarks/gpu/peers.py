"""Other ways to the same minimum, with every point that they looked at and when.

Each peer minimises P = sum_i c l(z_i, y_i) + ||w||^2 / 2 of a logistic regression with a free
intercept by L-BFGS. What it looked at is judged later, so that its own tolerance decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import scipy.optimize
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.solvers.rows.cpu_rows import as_array

__all__ = ["Path", "peers_of"]

_MOST_STEPS = 1000
_PLACE = "cuda"


class _OutOfTime(Exception):
    """Ends a fit that has had its share."""


@dataclass
class Path:
    """The points of a fit, in the order of time.

    Attributes
    ----------
    limit_s : float
        Seconds after which the fit ends.
    started_s : float
        When it began.
    points : list of (float, array)
        Seconds since then, and a vector: the coefficients, the intercept last.
    """

    limit_s: float
    started_s: float = field(default_factory=time.perf_counter)
    points: list[tuple[float, Any]] = field(default_factory=list)

    def add(self, point: Any) -> None:
        """Keep a point; end the fit where its time is over."""
        now_s = time.perf_counter() - self.started_s
        self.points.append((now_s, point))
        if now_s > self.limit_s:
            raise _OutOfTime


def peers_of(dataset: Dataset) -> dict[str, Callable[[float], Path]]:
    """Return what runs here on these data, by name.

    Parameters
    ----------
    dataset : Dataset
        Dense float32 rows, or rows of as many ones each.

    Returns
    -------
    dict
        Each call is one fit, which ends after as many seconds. Copies to the device were made
        before, as were those of our fits with resident data.
    """
    X_host = as_array(dataset)
    peers = {"scikit-learn lbfgs, CPU": lambda limit_s: _sklearn(X_host, dataset, limit_s)}
    try:
        import torch
    except ImportError:
        return peers
    if not torch.cuda.is_available():
        return peers
    on_device = _torch_margins(torch, dataset)
    y = torch.from_numpy(dataset.labels).to(_PLACE)
    size = dataset.matrix.shape[1] + 1
    peers["PyTorch L-BFGS, GPU"] = lambda limit_s: _torch(
        torch, on_device, y, size, dataset, limit_s
    )
    # It dispatches only where SciPy was imported with this in the environment.
    if isinstance(dataset.matrix, DenseMatrix) and os.environ.get("SCIPY_ARRAY_API") == "1":
        X = torch.from_numpy(dataset.matrix.values).to(_PLACE)
        peers["scikit-learn lbfgs, PyTorch on the GPU"] = lambda limit_s: _sklearn(
            X, dataset, limit_s, labels=y, dispatches=True
        )
    return peers


def _sklearn(
    X: Any, dataset: Dataset, limit_s: float, *, labels: Any = None, dispatches: bool = False
) -> Path:
    """Fit scikit-learn's estimator, and watch what SciPy's minimiser evaluates for it."""
    minimize = scipy.optimize.minimize
    path = Path(limit_s)

    def watched(function: Callable[..., Any], start: np.ndarray, **options: Any) -> Any:
        def evaluated(point: np.ndarray, *args: Any) -> Any:
            answer = function(point, *args)
            path.add(np.array(point))
            return answer

        return minimize(evaluated, start, **options)

    model = LogisticRegression(C=dataset.weight, tol=1e-10, max_iter=_MOST_STEPS)
    with (
        warnings.catch_warnings(),
        mock.patch.object(scipy.optimize, "minimize", watched),
        config_context(array_api_dispatch=dispatches),
    ):
        warnings.simplefilter("ignore")
        path.started_s = time.perf_counter()
        with contextlib.suppress(_OutOfTime):
            model.fit(X, dataset.labels if labels is None else labels)
    return path


def _torch_margins(torch: Any, dataset: Dataset) -> Callable[[Any], Any]:
    """Return a differentiable function from (w, b) to the margins, rows on the device."""
    matrix = dataset.matrix
    if isinstance(matrix, CompressedMatrix):
        if matrix.values is not None:
            raise TypeError("expected rows of ones")
        columns = torch.from_numpy(matrix.indices.reshape(matrix.shape[0], -1)).to(_PLACE)

        def of_bags(point: Any) -> Any:
            bags = torch.nn.functional.embedding_bag(columns, point[:-1, None], mode="sum")
            return bags[:, 0] + point[-1]

        return of_bags
    if not isinstance(matrix, DenseMatrix):
        raise TypeError(f"expected dense or compressed rows, got {type(matrix).__name__}")
    X = torch.from_numpy(matrix.values).to(_PLACE)
    return lambda point: X @ point[:-1] + point[-1]


def _torch(
    torch: Any,
    margins: Callable[[Any], Any],
    y: Any,
    size: int,
    dataset: Dataset,
    limit_s: float,
) -> Path:
    point = torch.zeros(size, device=_PLACE, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [point], max_iter=_MOST_STEPS, tolerance_grad=0.0, tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip
    torch.cuda.synchronize()
    path = Path(limit_s)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = dataset.weight * torch.nn.functional.softplus(-y * margins(point)).sum()
        total = loss + 0.5 * (point[:-1] ** 2).sum()
        total.backward()
        torch.cuda.synchronize()
        path.add(point.detach().clone())
        return total

    with contextlib.suppress(_OutOfTime):
        optimiser.step(closure)
    path.points = [(passed_s, found.cpu().numpy()) for passed_s, found in path.points]
    return path
