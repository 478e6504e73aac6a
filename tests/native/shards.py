"""A shard in every layout the extension reads, with plain float64 copies of all it holds."""

from dataclasses import dataclass, field

import numpy as np
from reference.data import in_float32, make_labels, make_rows, make_weights
from reference.losses import ORACLES
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.problems import Loss


def _strided(X: np.ndarray) -> np.ndarray:
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _reversed(X: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


DENSE = {
    "row-major": np.ascontiguousarray,
    "column-major": np.asfortranarray,
    "strided": _strided,
    "reversed": _reversed,
    "read-only": _read_only,
}
COMPRESSED = {"compressed-int32": np.int32, "compressed-int64": np.int64}
# All stored entries alike, given as values, and not given at all.
CONSTANT = {"constant": True, "without-values": False}
LAYOUTS = (*DENSE, "centred", *COMPRESSED, *CONSTANT)
CONSTANT_ENTRY = 0.75


def make_native_rows(
    X: np.ndarray, layout: str, pool: _native.ThreadPool
) -> tuple[_native.Rows, np.ndarray]:
    """Return the extension's rows in a layout, and the mean that the descent subtracts."""
    no_mean = np.zeros(X.shape[1], dtype=X.dtype)
    if layout in DENSE:
        return _native.Rows.dense(DENSE[layout](X)), no_mean
    if layout == "centred":
        rows = _native.Rows.dense(X)
        mean = X.mean(axis=0)
        rows.centre(mean)
        return rows, mean
    matrix = csr_matrix(X)
    index = COMPRESSED.get(layout, np.int32)
    values = None if layout == "without-values" else matrix.data
    constant = CONSTANT_ENTRY if values is None else np.nan
    indptr, indices = matrix.indptr.astype(index), matrix.indices.astype(index)
    is_float64 = X.dtype == np.float64
    rows = _native.Rows.compressed(pool, indptr, indices, values, constant, is_float64, X.shape[1])
    return rows, no_mean


@dataclass
class Shard:
    """Rows, labels, weights, states and shared vector, native and as NumPy arrays.

    `X` are the rows as the user gave them, `descent_X` those that the descent works on; the last
    column of either is the intercept's, of value `tau`. `entries` replaces the generated rows.
    """

    loss: Loss
    dtype: np.dtype
    layout: str = "row-major"
    n_threads: int = 1
    n_rows: int = 77
    n_features: int = 9
    tau: float = 0.0
    offset: float = 0.0
    is_weighted: bool = True
    scale: float = 1.0
    seed: int = 0
    entries: np.ndarray | None = None
    pool: _native.ThreadPool = field(init=False)

    def __post_init__(self) -> None:
        X = self._generated_rows() if self.entries is None else self.entries
        self.n_rows, self.n_features = X.shape
        y = make_labels(X, labels=self.loss.labels, seed=self.seed)
        X, self.labels = X.astype(self.dtype), y.astype(self.dtype)
        self.pool = _native.ThreadPool(self.n_threads)
        self.rows, mean = make_native_rows(X, self.layout, self.pool)
        weights = make_weights(self.n_rows, seed=self.seed) if self.is_weighted else None
        self.c = np.full(self.n_rows, 0.5) if weights is None else weights
        self.row_weights = None if weights is None else weights.astype(self.dtype)
        self.norms = None if self.rows.is_constant else np.empty(self.n_rows, dtype=self.dtype)
        self.facts = _native.inspect_rows(self.pool, self.rows, self.norms)
        starts = [
            _native.core_loss(self.loss.core_name, "start", 0.0, float(label), True)
            for label in self.labels
        ]
        self.duals = np.array(starts, dtype=self.dtype)
        self.shared = np.zeros(self.n_features + 1, dtype=self.dtype)
        self.native = _native.Shard.make(
            self.labels,
            self.row_weights,
            0.5,
            self.norms,
            self.duals,
            self.shared,
            self.tau,
            self.offset,
        )
        column = np.full((self.n_rows, 1), self.tau)
        self.X = np.hstack([X.astype(np.float64), column])
        self.descent_X = np.hstack([(X - mean).astype(np.float64), column])
        self.y = self.labels.astype(np.float64)
        self.oracle = ORACLES[self.loss.core_name]

    def _generated_rows(self) -> np.ndarray:
        density = 1.0 if self.layout in (*DENSE, "centred") else 0.4
        shape = self.n_rows, self.n_features
        X = make_rows(*shape, density=density, scale=self.scale, seed=self.seed)
        return np.where(X != 0, CONSTANT_ENTRY, 0.0) if self.layout in CONSTANT else X

    @property
    def arguments(self) -> tuple[_native.ThreadPool, _native.Rows, str, _native.Shard]:
        """What every call of the extension about this shard begins with."""
        return self.pool, self.rows, self.loss.core_name, self.native

    @property
    def beta(self) -> np.ndarray:
        """The dual variables in float64."""
        return self.c * self.oracle.dual(self.duals.astype(np.float64), self.y)

    @property
    def dual_objective(self) -> float:
        """D(beta) without a constraint on the sum of beta, in float64."""
        used = self.c > 0
        c, beta = self.c[used], self.beta[used]
        v = self.descent_X.T @ self.beta
        conjugates = c * self.oracle.conjugate(-beta / c, self.y[used])
        return float(-conjugates.sum() - self.offset * self.beta.sum() - v @ v / 2)

    def run_epoch(
        self,
        epoch: int = 0,
        *,
        sigma: float | None = None,
        outer: float = 1.0,
        relaxation: float = 1.0,
        rounds: int = 1,
        block_rows: int = 16,
        seed: int = 0,
        has_replicas: bool = True,
        picked: np.ndarray | None = None,
        row_gaps: np.ndarray | None = None,
        at_rest: np.ndarray | None = None,
    ) -> tuple[float, float, float]:
        """Run one epoch; return the running gap, the next sigma and the largest one needed.

        `sigma` defaults to the safe one.
        """
        replicas = None
        if has_replicas and self.n_threads > 1:
            replicas = np.full((self.n_threads, len(self.shared)), np.nan, dtype=self.dtype)
        return _native.dual_epoch(
            *self.arguments,
            replicas,
            sigma=float(self.n_threads) if sigma is None else sigma,
            outer=outer,
            relaxation=relaxation,
            rounds=rounds,
            block_rows=block_rows,
            seed=seed,
            epoch=epoch,
            picked=picked,
            row_gaps=row_gaps,
            at_rest=at_rest,
        )

    def scatter(self, seed: int = 0) -> None:
        """Set states and shared vector to legal numbers that have nothing to do with each other."""
        rng = np.random.default_rng([4, seed])
        numbers = in_float32(rng.normal(size=self.n_rows))
        states = ORACLES[self.loss.core_name].states
        if states is not None:
            numbers = np.clip(np.abs(numbers), *states)
        elif self.loss.core_name == "SquaredHinge":
            numbers = self.y * (1 - np.abs(numbers))
        elif self.loss.core_name == "Huber":
            numbers = self.y + np.clip(numbers, -1, 1)
        self.duals[:] = numbers
        self.shared[:] = in_float32(rng.normal(size=len(self.shared)))
