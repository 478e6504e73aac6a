"""The primal engine's kernels under sanitizers, and every kernel in one of both such tests.

One small process for all of them: under TSan a thread of the emulator costs a millisecond.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from snapml.kernels.device.program import kernel_dir

from .emulator.build import environment_of

LAUNCHES = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kernels.emulator import EmulatedDevice
from scipy.sparse import csr_matrix
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.kernels import CompressedRows
from snapml.kernels.losses.many_losses import ManyMarginLosses
from snapml.kernels.products.many_rows import ManyRows
from snapml.kernels.matrices.widen import widened
from snapml.problems import Logistic, Problem
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine

files = set()

class Listed(EmulatedDevice):
    def launch(self, kernel, *args):
        files.add(kernel.program.file)
        super().launch(kernel, *args)

rng = np.random.default_rng(0)
X = rng.normal(size=(12, 9))
stored = csr_matrix(np.where(rng.random(X.shape) < 0.4, X, 0.0))
sparse = CompressedMatrix(stored.indptr, stored.indices, 9, stored.data)
for matrix, shared_bytes in ((DenseMatrix(X), 2**16), (DenseMatrix(X), 4096), (sparse, 2**16)):
    device = Listed(1, 2, seed=1, n_workers=2, shared_bytes_per_block=shared_bytes)
    dataset = Dataset(matrix, np.sign(rng.normal(size=12)), rng.random(12), 1.0)
    engine = GpuPrimalEngine(Problem(Logistic()), dataset, device)
    engine.fused_pass(np.ones((1, 10)), wants_stiffness=True)
    engine.accept()
    engine.fused_pass(np.zeros((1, 10)))
    engine.line_point(0.5)
    engine.hessian_product(np.ones((1, 10)))
    engine.curvatures()
    engine.weighted_squares(rng.random((1, 12)))
    rows = slice(0, 12)
    engine.column_sums(rows, engine.column_sums(rows))
    engine.scale_rows(rows, np.ones(9), np.ones(9), rng.random(12), np.empty((12, 10)))
device = Listed(1, 2, seed=1, n_workers=2)
widened(device, np.arange(50, dtype=np.uint16).reshape(5, 10))
column = np.ones(10, np.float32)
widened(device, np.arange(50, dtype=np.uint8).reshape(5, 10), column, column)
rows = CompressedRows(stored.indptr, stored.indices, stored.data, 9)
ManyRows(device, rows, 3).product(np.ones((9, 32)), is_squared=True)
ones, zeros = np.ones((12, 2), np.float32), np.zeros(32, np.int32)
many = ManyMarginLosses(device, "Logistic", ones, ones, zeros, zeros, zeros.astype(np.float32))
many.ahead(*many.tangents(np.ones((12, 32), np.float32))[1:], zeros.astype(np.float32))
print(*sorted(files))
"""
PRIMAL = {"dense_pass", "losses", "many_losses", "many_rows", "ranked_rows", "ranking", "reduce",
          "row_checks", "rows", "scaling", "transposed", "widen"}  # fmt: skip
# Of test_descent_sanitized.py.
DUAL = {"adjoint", "column_descent", "coordinate_descent", "dense_rounds", "objective"}


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizer_has_nothing_to_report(sanitizer):
    command = [sys.executable, "-c", LAUNCHES, str(Path(__file__).parents[1])]
    environment = environment_of(sanitizer)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout + done.stderr == " ".join(sorted(PRIMAL)) + "\n"


def test_no_kernel_is_left_out():
    assert {path.stem for path in kernel_dir().glob("*/*.cu")} == PRIMAL | DUAL
