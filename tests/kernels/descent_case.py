"""Rows, labels and weights on an emulated device, and an epoch's launches over them."""

from dataclasses import dataclass, field

import numpy as np
from reference.data import make_labels, make_rows, make_weights
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml.kernels.descent.coordinate_descent import CoordinateDescent, Step
from snapml.kernels.losses.objective import RowSums
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows
from snapml.kernels.matrices.row_checks import inspect_rows
from snapml.kernels.sums.shared_vector import FixedVector, FloatVector
from snapml.problems import Logistic, Loss

from .emulator import EmulatedDevice
from .slow_rounds import SlowRounds

LAYOUTS = ["dense", "centred", "int32", "int64", "constant"]
CONSTANT_ENTRY = 0.75


def make_device_matrix(X, layout, dtype):
    """Return dense rows in a layout, as kernels take them."""
    X = X.astype(dtype)
    if layout == "dense":
        return DeviceMatrix(DenseRows(np.ascontiguousarray(X)))
    if layout == "centred":
        return DeviceMatrix(DenseRows(np.ascontiguousarray(X)), X.sum(axis=0) / max(1, len(X)))
    stored = csr_matrix(X)
    index = np.int64 if layout == "int64" else np.int32
    values = None if layout == "constant" else stored.data
    offsets, indices = stored.indptr.astype(index), stored.indices.astype(index)
    rows = CompressedRows(offsets, indices, values, X.shape[1], CONSTANT_ENTRY, dtype)
    return DeviceMatrix(rows)


@dataclass
class DescentCase:
    """One shard; `descent_X` are the rows that the descent works on, intercept's column last."""

    loss: Loss = field(default_factory=Logistic)
    layout: str = "int32"
    dtype: str = "float64"
    n_rows: int = 45
    n_features: int = 7
    tau: float = 0.5
    offset: float = 0.25
    scale: float = 1.0
    is_weighted: bool = True
    device: EmulatedDevice = field(default_factory=EmulatedDevice)
    entries: np.ndarray | None = None

    def __post_init__(self):
        X = self._rows() if self.entries is None else self.entries
        self.n_rows, self.n_features = X.shape
        self.X = X
        self.matrix = make_device_matrix(X, self.layout, np.dtype(self.dtype))
        self.y = make_labels(X, labels=self.loss.labels)
        self.c = make_weights(self.n_rows) if self.is_weighted else np.full(self.n_rows, 0.5)
        self.labels = self.y.astype(self.dtype)
        weights = self.c.astype(self.dtype) if self.is_weighted else None
        self.oracle = ORACLES[self.loss.core_name]
        self.sums = RowSums(self.device, self.loss.core_name, self.labels, weights, 0.5)
        self.duals = self.sums.start_states()
        self.facts = inspect_rows(self.device, self.matrix, weights, 0.5)
        mean = 0.0 if self.matrix.mean is None else self.matrix.mean.astype(np.float64)
        self.descent_X = np.hstack([X - mean, np.full((self.n_rows, 1), self.tau)])
        self.descent = CoordinateDescent(
            self.device,
            self.matrix,
            self.loss.core_name,
            self.labels,
            self.facts.norms_sq,
            weights,
            0.5,
        )
        self.fixed = FixedVector(self.device)
        self.float = FloatVector(self.device, np.dtype(self.dtype))
        for vector in (self.fixed, self.float):
            vector.load(np.zeros(self.n_features + 1), 100.0)

    def _rows(self):
        density = 1.0 if self.layout in ("dense", "centred") else 0.4
        X = make_rows(self.n_rows, self.n_features, density=density, scale=self.scale)
        return np.where(X != 0, CONSTANT_ENTRY, 0.0) if self.layout == "constant" else X

    @property
    def slow(self):
        """The oracle at beta = 0."""
        return SlowRounds(self.loss, self.descent_X, self.y, self.c)

    @property
    def beta(self):
        """The dual variables in float64."""
        return self.c * self.oracle.dual(self.duals.astype(np.float64), self.y)

    def run(self, epoch=0, *, rows=1, at_once=False, stiffness=1.0, outer=1.0, seed=0):
        """Run one epoch; return order, sums, and the shared vector in float64."""
        step = Step(self.tau, self.offset, stiffness, outer)
        order = self.descent.order(seed, epoch, 4)
        if at_once:
            sums = self.descent.at_once(order, rows, step, self.duals, self.float)
            return order, sums, self.float.wide()
        sums = self.descent.in_rounds(order, rows, step, self.duals, self.fixed)
        return order, sums, self.fixed.wide()
