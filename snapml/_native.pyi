"""Typed face of the compiled CPU engine (snapml/native/bindings.cpp)."""

from typing import Any

import numpy as np

class ThreadPool:
    """Threads of one fit; all have ended once it is gone."""

    def __init__(self, size: int) -> None: ...
    @property
    def size(self) -> int: ...

class Rows:
    """A checked view of a matrix; keeps its arrays alive."""

    @staticmethod
    def dense(values: np.ndarray[Any, Any]) -> Rows: ...
    @staticmethod
    def compressed(
        pool: ThreadPool,
        indptr: np.ndarray[Any, Any],
        indices: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any] | None,
        constant: float,
        is_float64: bool,
        n_cols: int,
    ) -> Rows: ...
    def centre(self, mean: np.ndarray[Any, Any]) -> None: ...
    def has_duplicates(self) -> bool: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cols(self) -> int: ...
    @property
    def is_constant(self) -> bool: ...

class Shard:
    """The arrays of a dual problem's shard."""

    offset: float
    @staticmethod
    def make(
        labels: np.ndarray[Any, Any],
        row_weights: np.ndarray[Any, Any] | None,
        weight: float,
        row_norms_sq: np.ndarray[Any, Any] | None,
        duals: np.ndarray[Any, Any],
        shared: np.ndarray[Any, Any],
        tau: float,
        offset: float,
    ) -> Shard: ...

class Targets:
    """The arrays of a primal problem's shard: K outputs that share the rows."""

    @staticmethod
    def make(
        labels: np.ndarray[Any, Any],
        row_weights: np.ndarray[Any, Any] | None,
        weight: float,
        n_outputs: int,
        is_softmax: bool,
        bias_column: float,
    ) -> Targets: ...

def fused_pass(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    targets: Targets,
    coef: np.ndarray[Any, Any],
    wants_stiffness: bool,
    margins: np.ndarray[Any, Any],
    gradients: np.ndarray[Any, Any],
) -> tuple[float, float]: ...
def line_point(
    pool: ThreadPool,
    loss: str,
    targets: Targets,
    margins: np.ndarray[Any, Any],
    trial: np.ndarray[Any, Any],
    step: float,
) -> tuple[float, float]: ...
def curvatures(
    pool: ThreadPool,
    loss: str,
    targets: Targets,
    margins: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def inspect_rows(
    pool: ThreadPool, rows: Rows, row_norms_sq: np.ndarray[Any, Any] | None
) -> tuple[bool, bool, float]: ...
def dual_epoch(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    replicas: np.ndarray[Any, Any] | None,
    sigma: float,
    outer: float,
    relaxation: float,
    rounds: int,
    block_rows: int,
    seed: int,
    epoch: int,
) -> tuple[float, float, float]: ...
def dual_mass(pool: ThreadPool, rows: Rows, loss: str, shard: Shard) -> tuple[float, float]: ...
def exact_sweep(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    positive_scale: float,
    negative_scale: float,
    margins: np.ndarray[Any, Any],
    adjoints: np.ndarray[Any, Any],
) -> float: ...
def loss_value(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    margins: np.ndarray[Any, Any],
    shift: float,
) -> float: ...
def loss_slope(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    margins: np.ndarray[Any, Any],
    shift: float,
) -> tuple[float, float]: ...
def penalty_value(pool: ThreadPool, w: np.ndarray[Any, Any]) -> float: ...
def penalty_conjugate(pool: ThreadPool, v: np.ndarray[Any, Any]) -> float: ...
def margins(
    pool: ThreadPool,
    rows: Rows,
    coef: np.ndarray[Any, Any],
    intercept: float,
    out: np.ndarray[Any, Any],
) -> None: ...
def get_thread_limit() -> int: ...
def core_loss(loss: str, quantity: str, x: float, y: float, is_float64: bool) -> float: ...
def core_step(
    loss: str, state: float, z: float, y: float, stiffness: float, is_float64: bool
) -> tuple[float, float, float]: ...
def core_permutation(seed: int, stream: int, size: int) -> list[int]: ...
def core_block_order(seed: int, stream: int, block: int, count: int) -> list[int]: ...
def core_philox(seed: int, stream: int, counter: int) -> list[int]: ...
