"""Typed face of the compiled CPU engine (snapml/native/bindings.cpp)."""

from typing import Any

import numpy as np

compiler: str  # which built this, and its version

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
        is_checked: bool = False,
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
        row_offsets: np.ndarray[Any, Any] | None = None,
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
        row_offsets: np.ndarray[Any, Any] | None = None,
    ) -> Targets: ...

class ManyTargets:
    """Labels and weights of many models: of each one column of the tables, and a factor."""

    @staticmethod
    def make(
        labels: np.ndarray[Any, Any],
        weights: np.ndarray[Any, Any],
        label_columns: np.ndarray[Any, Any],
        weight_columns: np.ndarray[Any, Any],
        factors: np.ndarray[Any, Any],
    ) -> ManyTargets: ...

def many_products(
    pool: ThreadPool,
    rows: Rows,
    n_models: int,
    vectors: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def many_adjoints(
    pool: ThreadPool,
    rows: Rows,
    n_models: int,
    scales: np.ndarray[Any, Any],
    squares_entries: bool,
    out: np.ndarray[Any, Any],
    is_part: bool = False,
) -> None: ...
def many_hessians(
    pool: ThreadPool,
    rows: Rows,
    n_models: int,
    curvatures: np.ndarray[Any, Any],
    vectors: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
    is_part: bool = False,
) -> None: ...
def many_losses(
    pool: ThreadPool,
    loss: str,
    targets: ManyTargets,
    margins: np.ndarray[Any, Any],
    moves: np.ndarray[Any, Any] | None,
    steps: np.ndarray[Any, Any] | None,
    slopes: np.ndarray[Any, Any] | None,
    curvatures: np.ndarray[Any, Any] | None,
    losses: np.ndarray[Any, Any],
) -> None: ...
def many_softmax_losses(
    pool: ThreadPool,
    targets: ManyTargets,
    n_classes: int,
    margins: np.ndarray[Any, Any],
    moves: np.ndarray[Any, Any] | None,
    steps: np.ndarray[Any, Any] | None,
    slopes: np.ndarray[Any, Any] | None,
    curvatures: np.ndarray[Any, Any] | None,
    losses: np.ndarray[Any, Any],
) -> None: ...
def many_softmax_curve(
    pool: ThreadPool,
    n_models: int,
    n_classes: int,
    n_rows: int,
    curvatures: np.ndarray[Any, Any],
    moved: np.ndarray[Any, Any],
) -> None: ...
def fused_pass(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    targets: Targets,
    coef: np.ndarray[Any, Any],
    wants_stiffness: bool,
    margins: np.ndarray[Any, Any],
    gradients: np.ndarray[Any, Any],
    is_part: bool = False,
) -> tuple[float, float]: ...
def hessian_product(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    targets: Targets,
    margins: np.ndarray[Any, Any],
    direction: np.ndarray[Any, Any],
    products: np.ndarray[Any, Any],
    is_part: bool = False,
) -> None: ...
def weighted_squares(
    pool: ThreadPool,
    rows: Rows,
    weights: np.ndarray[Any, Any],
    n_outputs: int,
    sums: np.ndarray[Any, Any],
) -> None: ...
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

class Columns:
    """Checked columns of a matrix; keeps their arrays alive."""

    @staticmethod
    def sparse(
        pool: ThreadPool,
        indptr: np.ndarray[Any, Any],
        indices: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any] | None,
        constant: float,
        is_float64: bool,
        n_rows: int,
    ) -> Columns: ...
    @staticmethod
    def dense(values: np.ndarray[Any, Any], n_rows: int) -> Columns: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cols(self) -> int: ...

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
    picked: np.ndarray[Any, Any] | None = None,
    row_gaps: np.ndarray[Any, Any] | None = None,
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
def line_slope(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    kept: np.ndarray[Any, Any],
    step: float,
) -> float: ...
def go_to(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    kept: np.ndarray[Any, Any],
    step: float,
) -> None: ...
def penalty_value(pool: ThreadPool, w: np.ndarray[Any, Any]) -> float: ...
def penalty_conjugate(pool: ThreadPool, v: np.ndarray[Any, Any]) -> float: ...
def margins(
    pool: ThreadPool,
    rows: Rows,
    coef: np.ndarray[Any, Any],
    intercept: float,
    out: np.ndarray[Any, Any],
) -> None: ...
def loss_derivatives(
    pool: ThreadPool,
    loss: str,
    labels: np.ndarray[Any, Any],
    row_weights: np.ndarray[Any, Any] | None,
    weight: float,
    margins: np.ndarray[Any, Any],
    shift: float,
    gradients: np.ndarray[Any, Any] | None,
    curvatures: np.ndarray[Any, Any] | None,
) -> tuple[float, float, float]: ...
def dual_terms(
    pool: ThreadPool,
    loss: str,
    labels: np.ndarray[Any, Any],
    row_weights: np.ndarray[Any, Any] | None,
    weight: float,
    gradients: np.ndarray[Any, Any],
    scale: float,
) -> float: ...
def adjoint_product(
    pool: ThreadPool,
    rows: Rows,
    vector: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def product(
    pool: ThreadPool,
    rows: Rows,
    coef: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def column_moments(
    pool: ThreadPool,
    rows: Rows,
    row_weights: np.ndarray[Any, Any] | None,
    weight: float,
    out: np.ndarray[Any, Any],
) -> None: ...
def pack_dense(
    pool: ThreadPool,
    rows: Rows,
    columns: np.ndarray[Any, Any],
    constant: float,
    by_columns: bool,
    out: np.ndarray[Any, Any],
) -> None: ...
def weighted_block(
    pool: ThreadPool,
    rows: Rows,
    first: int,
    count: int,
    mean: np.ndarray[Any, Any],
    root: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def count_entries(
    pool: ThreadPool,
    rows: Rows,
    positions: np.ndarray[Any, Any],
    n_kept: int,
    counts: np.ndarray[Any, Any],
) -> None: ...
def fill_columns(
    pool: ThreadPool,
    rows: Rows,
    positions: np.ndarray[Any, Any],
    n_kept: int,
    offsets: np.ndarray[Any, Any],
    indices: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any] | None,
) -> None: ...
def sparse_gram(
    pool: ThreadPool,
    rows: Rows,
    positions: np.ndarray[Any, Any],
    n_kept: int,
    constant_at: int,
    constant: float,
    curvatures: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def column_curvatures(
    columns: Columns,
    states: np.ndarray[Any, Any],
    weight: float,
    sums: np.ndarray[Any, Any],
    squares: np.ndarray[Any, Any],
) -> None: ...
def columns_adjoint(
    pool: ThreadPool,
    columns: Columns,
    vector: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def columns_product(
    columns: Columns,
    coef: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def column_descent(
    columns: Columns,
    states: np.ndarray[Any, Any],
    weight: float,
    slopes: np.ndarray[Any, Any],
    curvatures: np.ndarray[Any, Any],
    sums: np.ndarray[Any, Any] | None,
    total: float,
    coef: np.ndarray[Any, Any],
    l1: float,
    l2: float,
    is_positive: bool,
    max_sweeps: int,
    enough: float,
    among: np.ndarray[Any, Any] | None,
) -> tuple[int, bool]: ...
def gram_descent(
    gram: np.ndarray[Any, Any],
    ridge: np.ndarray[Any, Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: np.ndarray[Any, Any] | None,
    upper: np.ndarray[Any, Any] | None,
    coef: np.ndarray[Any, Any],
    gradient: np.ndarray[Any, Any],
    max_sweeps: int,
    enough: float,
) -> tuple[int, bool]: ...
def elastic_net_value(
    w: np.ndarray[Any, Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: np.ndarray[Any, Any] | None,
    upper: np.ndarray[Any, Any] | None,
) -> float: ...
def elastic_net_conjugate(
    v: np.ndarray[Any, Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: np.ndarray[Any, Any] | None,
    upper: np.ndarray[Any, Any] | None,
) -> float: ...
def svmlight_rows(
    text: np.ndarray[Any, Any], is_double: bool, is_wide: bool, least: int, n_threads: int
) -> list[tuple[Any, Any, Any, Any, int, int, int]] | tuple[int, int, str]: ...
def click_rows(
    text: np.ndarray[Any, Any],
    has_label: bool,
    n_numbers: int,
    n_categories: int,
    n_features: int,
    seed: int,
    n_threads: int,
) -> list[tuple[Any, Any, Any, int]] | tuple[int, int, str]: ...
def click_numbers(
    values: np.ndarray[Any, Any], field: int, n_features: int, seed: int
) -> np.ndarray[Any, Any]: ...
def click_categories(
    text: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
    field: int,
    n_features: int,
    seed: int,
) -> np.ndarray[Any, Any]: ...
def get_thread_limit() -> int: ...
def loss_traits() -> dict[str, dict[str, Any]]: ...
def loss_quantities(
    loss: str,
    quantity: str,
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...
def core_loss(loss: str, quantity: str, x: float, y: float, is_float64: bool) -> float: ...
def core_scalar(name: str, x: float, is_float64: bool) -> float: ...
def core_step(
    loss: str, state: float, z: float, y: float, stiffness: float, is_float64: bool
) -> tuple[float, float, float]: ...
def core_line(
    loss: str, first: float, last: float, y: float, step: float, is_float64: bool
) -> tuple[float, float]: ...
def joined_memory(parts: list[tuple[int, int]], n_more: int) -> np.ndarray[Any, Any]: ...
def core_permutation(seed: int, stream: int, size: int) -> list[int]: ...
def core_block_order(seed: int, stream: int, block: int, count: int) -> list[int]: ...
def core_philox(seed: int, stream: int, counter: int) -> list[int]: ...
def widen_bfloat16(narrow: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None: ...
def widen_uint8(
    narrow: np.ndarray[Any, Any],
    scales: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
) -> None: ...

class BinTable:
    """What bins mean, of the rows that have them."""

    @property
    def n_rows(self) -> int: ...
    @property
    def is_finite(self) -> bool: ...
    @property
    def n_bins(self) -> int: ...

class BinnedRows(BinTable):
    """Rows as bytes."""

class WideRows(BinTable):
    """Rows of two bytes an entry."""

class BinnedColumns(BinTable):
    """Columns as lists of rows and bins, without their bin of zero."""

class GrownTree:
    """Nodes that `write_tree` numbers and gives values."""

    @property
    def n_nodes(self) -> int: ...

def bin_columns(pool: ThreadPool, columns: Rows, max_bins: int) -> BinnedColumns: ...
def bin_rows(
    pool: ThreadPool, rows: Rows, max_bins: int, kept: np.ndarray[Any, Any] | None
) -> BinnedRows | WideRows: ...
def grow_tree(
    pool: ThreadPool,
    binned: BinTable,
    targets: np.ndarray[Any, Any],
    weights: np.ndarray[Any, Any] | None,
    n_classes: int,
    criterion: str,
    max_depth: int,
    min_samples_split: int,
    min_samples_leaf: int,
    min_weight: float,
    min_impurity_decrease: float,
    max_features: int,
    seed: int,
    max_leaf_nodes: int,
    most_values: int,
    most_histogram_bytes: int,
    monotonic: np.ndarray[Any, Any] | None,
    n_codes: np.ndarray[Any, Any] | None,
) -> GrownTree: ...
def write_tree(
    pool: ThreadPool,
    grown: GrownTree,
    targets: np.ndarray[Any, Any],
    weights: np.ndarray[Any, Any] | None,
    children_left: np.ndarray[Any, Any],
    children_right: np.ndarray[Any, Any],
    feature: np.ndarray[Any, Any],
    threshold: np.ndarray[Any, Any],
    impurity: np.ndarray[Any, Any],
    n_node_samples: np.ndarray[Any, Any],
    weighted_n_node_samples: np.ndarray[Any, Any],
    missing_go_to_left: np.ndarray[Any, Any],
    value: np.ndarray[Any, Any],
) -> tuple[int, np.ndarray[Any, Any]]: ...
def grow_exact_tree(
    pool: ThreadPool,
    rows: Rows,
    kept: np.ndarray[Any, Any] | None,
    targets: np.ndarray[Any, Any],
    weights: np.ndarray[Any, Any] | None,
    n_classes: int,
    criterion: str,
    max_depth: int,
    min_samples_split: int,
    min_samples_leaf: int,
    min_weight_leaf: float,
    min_impurity_decrease: float,
    max_features: int,
    seed: int,
    most_values: int,
) -> dict[str, Any]: ...
def find_leaves(
    pool: ThreadPool,
    rows: Rows,
    left_child: np.ndarray[Any, Any],
    right_child: np.ndarray[Any, Any],
    feature: np.ndarray[Any, Any],
    threshold: np.ndarray[Any, Any],
    missing_go_to_left: np.ndarray[Any, Any],
    leaves: np.ndarray[Any, Any],
) -> bool: ...
def find_leaves_of_codes(
    pool: ThreadPool,
    rows: Rows,
    left_child: np.ndarray[Any, Any],
    right_child: np.ndarray[Any, Any],
    feature: np.ndarray[Any, Any],
    threshold: np.ndarray[Any, Any],
    missing_go_to_left: np.ndarray[Any, Any],
    left_codes: np.ndarray[Any, Any],
    n_codes: np.ndarray[Any, Any],
    leaves: np.ndarray[Any, Any],
) -> None: ...
