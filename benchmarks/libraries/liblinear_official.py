"""Adapter of LIBLINEAR through its own Python package, `liblinear-official`.

Objective
    ``-s 0`` and ``-s 7`` (logistic, primal and dual), ``-s 2`` and ``-s 1`` (squared hinge,
    primal and dual, no 1/2) and ``-s 3`` (hinge, dual) minimise 1/2 ||w||^2 + C sum l, which is
    P. ``-s 6`` minimises ||w||_1 + C sum l, P with l1_ratio = 1. ``-s 11`` with ``-p 0`` minimises
    1/2 ||w||^2 + C' sum (z - y)^2, so C' = C/2 for the squared loss. An intercept
    would be a penalised column: problems with one are refused.
Knobs
    ``-e`` is the only one. Its meaning differs per solver (a relative gradient norm for
    0, 2, 6 and 11; the largest violation in the dual for 1, 3 and 7), hence one ladder each.
    LIBLINEAR's limits of iterations are fixed in its code. Where a dual solver reaches its limit
    it goes on with the primal one of the same loss; the hinge has none, so that on badly scaled
    rows ``-s 3`` ends short of its tolerance.
Time
    The package copies a csr matrix into LIBLINEAR's array of (index, value) nodes by a Python
    loop over rows unless numba is installed. That loop is the binding's, not LIBLINEAR's, so the
    nodes are filled here by a few NumPy statements, once per fit. ``seconds`` contains this;
    ``prepare_seconds`` says how much it is.
Threads
    Always one; the package is not the multi-core variant.
"""

from __future__ import annotations

import ctypes
import time
from importlib import metadata

import numpy as np
from liblinear.liblinear import feature_node
from liblinear.liblinear import problem as LiblinearProblem
from liblinear.liblinearutil import train
from scipy import sparse

from benchmarks.libraries import Fit, Setting, is_large_and_dense, tolerance_ladder
from benchmarks.problems import Problem

# (loss, l1_ratio) -> (solver option, loosest and tightest -e) of every solver of that problem
_SOLVERS = {
    ("logistic", 0.0): (("-s 0", 1.0, 1e-8), ("-s 7", 3.0, 1e-7)),
    ("logistic", 1.0): (("-s 6", 1.0, 1e-8),),
    ("squared_hinge", 0.0): (("-s 2", 1.0, 1e-8), ("-s 1", 3.0, 1e-7)),
    ("hinge", 0.0): (("-s 3", 3.0, 1e-7),),
    ("squared", 0.0): (("-s 11", 0.3, 1e-8),),
}


class Adapter:
    """Trains by LIBLINEAR's C library."""

    name = "liblinear"

    def version(self) -> str:
        """Version of the package, which is LIBLINEAR's."""
        return metadata.version("liblinear-official")

    def obstacle(self, problem: Problem) -> str:
        """LIBLINEAR penalises the intercept, and has neither elastic net nor lasso nor softmax."""
        if problem.fit_intercept:
            return "the intercept is penalised"
        if (problem.loss, problem.l1_ratio) not in _SOLVERS:
            return f"no {problem.loss} with l1_ratio={problem.l1_ratio:g}"
        return ""

    def settings(self, problem: Problem) -> list[Setting]:
        """One ladder of ``-e`` for every solver of the loss."""
        return [
            setting
            for solver, loosest, tightest in _SOLVERS[problem.loss, problem.l1_ratio]
            if solver not in ("-s 7", "-s 1") or not is_large_and_dense(problem)
            for setting in tolerance_ladder(solver, loosest, tightest)
        ]

    def fit(self, problem: Problem, setting: Setting, n_threads: int) -> Fit:
        """Convert to nodes, train, and copy the weights out of the C model."""
        start = time.perf_counter()
        nodes = _make_nodes(problem)
        prepare_seconds = time.perf_counter() - start
        c_weight = problem.C / 2.0 if problem.loss == "squared" else problem.C
        options = f"{setting.solver} -c {c_weight!r} -e {setting.tol!r} -p 0 -B -1 -q"
        model = train(nodes, options)
        coef = np.ctypeslib.as_array(model.w, (problem.X.shape[1],)).astype(np.float64)
        # LIBLINEAR's weights score its first label, usually that of the first row.
        if problem.is_classification and model.get_labels()[0] == -1:
            coef = -coef
        return Fit(coef, 0.0, {"prepare_seconds": prepare_seconds})

    def close(self) -> None:
        """Nothing to release."""


def _make_nodes(problem: Problem) -> LiblinearProblem:
    """Fill LIBLINEAR's problem structure from a csr or dense matrix, without a loop."""
    X = sparse.csr_matrix(problem.X)
    X.sort_indices()
    n_rows, n_features = X.shape
    # Every row ends with two extra nodes: room for a bias, and the end mark (index -1).
    nodes = np.empty(X.nnz + 2 * n_rows, dtype=feature_node)
    nodes["index"] = -1
    row_starts = X.indptr.astype(np.int64) + 2 * np.arange(n_rows + 1)
    is_value = np.ones(nodes.size, dtype=bool)
    is_value[row_starts[1:] - 1] = False
    is_value[row_starts[1:] - 2] = False
    nodes["index"][is_value] = X.indices + 1
    nodes["value"][is_value] = X.data
    result = LiblinearProblem.__new__(LiblinearProblem)
    result.l, result.n, result.bias = n_rows, n_features, -1.0
    # The structure holds bare pointers: the attributes keep what they point to alive.
    result.x_space, result.rowptr = nodes, row_starts
    result.labels = problem.signed_labels
    result.y = result.labels.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    addresses = nodes.ctypes.data + row_starts[:-1].astype(np.uint64) * nodes.itemsize
    result.row_pointers = addresses.astype(np.uint64)
    result.x = result.row_pointers.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(feature_node)))
    return result
