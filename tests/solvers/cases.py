"""Small problems of every kind, as the library and as the reference see them."""

from dataclasses import dataclass, field, replace
from functools import cache

from reference.data import make_labels, make_rows, make_weights
from reference.losses import ORACLES
from reference.objective import Objective, Optimum, find_optimum
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Loss, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule


@dataclass(frozen=True)
class Case:
    """One training problem with weighted rows; `offset` is added to every entry."""

    loss: Loss = field(default_factory=Logistic)
    intercept: Intercept = Intercept.NONE
    dtype: str = "float64"
    is_sparse: bool = False
    n_rows: int = 60
    n_features: int = 5
    scale: float = 1.0
    offset: float = 0.0
    seed: int = 0
    intercept_scaling: float = 2.0

    @property
    def problem(self) -> Problem:
        return Problem(self.loss, self.intercept, self.intercept_scaling)

    @property
    def objective(self) -> Objective:
        """The reference's view: dense rows in float64."""
        density = 0.5 if self.is_sparse else 1.0
        shape = self.n_rows, self.n_features
        X = make_rows(*shape, density=density, scale=self.scale, seed=self.seed)
        y = make_labels(X, labels=self.loss.labels, seed=self.seed)
        return Objective(
            ORACLES[self.loss.core_name],
            X + self.offset,
            y,
            make_weights(self.n_rows, seed=self.seed),
            self.intercept.value,
            self.intercept_scaling,
        )

    @property
    def optimum(self) -> Optimum:
        return _optimum(replace(self, dtype="float64"))

    def dataset(self, rows: slice = slice(None)) -> Dataset:
        """Return the library's view of some of the rows."""
        objective = self.objective
        X = objective.X[rows].astype(self.dtype)
        if self.is_sparse:
            stored = csr_matrix(X)
            matrix = CompressedMatrix(stored.indptr, stored.indices, stored.shape[1], stored.data)
        else:
            matrix = DenseMatrix(X)
        labels, weights = (a[rows].astype(self.dtype) for a in (objective.y, objective.c))
        return Dataset(matrix, labels, weights, 1.0)

    def engine(self, rows: slice = slice(None), **options: object) -> CpuEngine:
        return CpuEngine(self.problem, self.dataset(rows), **options)

    def fit(self, *, tol: float, max_iter: int, **options: object) -> FitResult:
        rule = StoppingRule(tol, max_iter)
        return solve(self.engine(**options), SerialCommunicator(), rule)

    def suboptimality(self, result: FitResult) -> float:
        """Return P at the returned model less its minimum, both by the reference."""
        objective = self.objective.primal(result.coef, result.intercept)
        return objective - self.optimum.objective


@cache
def _optimum(case: Case) -> Optimum:
    return find_optimum(case.objective)
