# Made by tests/native/stub.py with nanobind 3.1.0.
"""CPU engine: sweeps over rows, compiled."""

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import NDArray

class ThreadPool:
    def __init__(self, size: int) -> None: ...
    @property
    def size(self) -> int: ...

class Rows:
    @staticmethod
    def dense(values: Any) -> Rows: ...
    @staticmethod
    def compressed(
        pool: ThreadPool,
        indptr: Any,
        indices: Any,
        values: Any | None,
        constant: float,
        is_float64: bool,
        n_cols: int,
        is_checked: bool = False,
    ) -> Rows: ...
    def centre(self, mean: Any) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cols(self) -> int: ...
    @property
    def is_constant(self) -> bool: ...
    def has_duplicates(self) -> bool: ...

def inspect_rows(
    pool: ThreadPool, rows: Rows, row_norms_sq: NDArray[Any] | None
) -> tuple[bool, bool, float]: ...
def margins(
    pool: ThreadPool, rows: Rows, coef: NDArray[Any], intercept: float, out: NDArray[Any]
) -> None: ...
def get_thread_limit() -> int: ...

compiler: str

def core_loss(loss: str, quantity: str, x: float, y: float, is_float64: bool) -> float: ...
def loss_traits() -> dict[str, Any]: ...
def loss_quantities(
    loss: str, quantity: str, x: NDArray[Any], y: NDArray[Any], out: NDArray[Any]
) -> None: ...
def loss_corners(
    loss: str,
    index: int,
    labels: NDArray[Any],
    at: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
) -> None: ...
def core_scalar(name: str, x: float, is_float64: bool) -> float: ...
def core_step(
    loss: str, state: float, z: float, y: float, stiffness: float, is_float64: bool
) -> tuple[float, float, float]: ...
def core_softmax_step(
    z: Sequence[float], log_p: Sequence[float], stiffness: float
) -> tuple[float, list[float]]: ...
def core_line(
    loss: str, first: float, last: float, y: float, step: float, is_float64: bool
) -> tuple[float, float]: ...
def core_permutation(seed: int, stream: int, size: int) -> list[int]: ...
def core_block_order(seed: int, stream: int, block: int, count: int) -> list[int]: ...
def core_philox(seed: int, stream: int, counter: int) -> list[int]: ...

class Shard:
    @staticmethod
    def make(
        labels: NDArray[Any],
        row_weights: NDArray[Any] | None,
        weight: float,
        row_norms_sq: NDArray[Any] | None,
        duals: NDArray[Any],
        shared: NDArray[Any],
        tau: float,
        offset: float,
        row_offsets: NDArray[Any] | None = None,
    ) -> Shard: ...
    @property
    def offset(self) -> float: ...
    @offset.setter
    def offset(self, arg: float, /) -> None: ...

def dual_epoch(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    replicas: NDArray[Any] | None,
    sigma: float,
    outer: float,
    relaxation: float,
    rounds: int,
    block_rows: int,
    seed: int,
    epoch: int,
    picked: NDArray[Any] | None = None,
    row_gaps: NDArray[Any] | None = None,
    at_rest: NDArray[Any] | None = None,
) -> tuple[float, float, float]: ...
def sweep_moving_rows(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    replicas: NDArray[Any] | None,
    sigma: float,
    outer: float,
    relaxation: float,
    rounds: int,
    block_rows: int,
    seed: int,
    epoch: int,
    at_rest: NDArray[Any],
    enough: float,
    most_entries: int,
) -> tuple[float, float]: ...
def several_epochs(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    relaxation: float,
    block_rows: int,
    seed: int,
    epoch: int,
    is_free: bool,
    at_rest: NDArray[Any] | None,
    most_moving: float,
    enough: float,
    most_moving_entries: int,
    before: float,
    factor: float,
    target: float,
    gaps: NDArray[Any],
) -> int: ...
def dual_mass(pool: ThreadPool, rows: Rows, loss: str, shard: Shard) -> tuple[float, float]: ...
def exact_sweep(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    shard: Shard,
    positive_scale: float,
    negative_scale: float,
    margins: NDArray[Any],
    adjoints: NDArray[Any],
) -> float: ...
def loss_value(
    pool: ThreadPool, rows: Rows, loss: str, shard: Shard, margins: NDArray[Any], shift: float
) -> float: ...
def loss_slope(
    pool: ThreadPool, rows: Rows, loss: str, shard: Shard, margins: NDArray[Any], shift: float
) -> tuple[float, float]: ...
def line_slope(
    pool: ThreadPool, rows: Rows, loss: str, shard: Shard, kept: NDArray[Any], step: float
) -> float: ...
def go_to(
    pool: ThreadPool, rows: Rows, loss: str, shard: Shard, kept: NDArray[Any], step: float
) -> None: ...
def penalty_value(pool: ThreadPool, w: NDArray[Any]) -> float: ...
def penalty_conjugate(pool: ThreadPool, v: NDArray[Any]) -> float: ...

class ManyTargets:
    @staticmethod
    def make(
        labels: NDArray[Any],
        weights: NDArray[Any],
        label_columns: NDArray[Any],
        weight_columns: NDArray[Any],
        factors: NDArray[Any],
    ) -> ManyTargets: ...

class SoftmaxDual:
    @staticmethod
    def make(
        row_weights: NDArray[Any] | None,
        weight: float,
        log_p: NDArray[Any],
        shared: NDArray[Any],
        offsets: NDArray[Any],
        tau: float,
    ) -> SoftmaxDual: ...

def softmax_epoch(
    pool: ThreadPool,
    rows: Rows,
    dual: SoftmaxDual,
    replicas: NDArray[Any] | None,
    sigma: float,
    relaxation: float,
    rounds: int,
    block_rows: int,
    seed: int,
    epoch: int,
    picked: NDArray[Any] | None,
    row_gaps: NDArray[Any] | None,
) -> tuple[float, float]: ...
def many_products(
    pool: ThreadPool, rows: Rows, n_models: int, vectors: NDArray[Any], out: NDArray[Any]
) -> None: ...
def many_adjoints(
    pool: ThreadPool,
    rows: Rows,
    n_models: int,
    scales: NDArray[Any],
    squares_entries: bool,
    out: NDArray[Any],
    is_part: bool = False,
) -> None: ...
def many_hessians(
    pool: ThreadPool,
    rows: Rows,
    n_models: int,
    curvatures: NDArray[Any],
    vectors: NDArray[Any],
    out: NDArray[Any],
    is_part: bool = False,
) -> None: ...
def many_losses(
    pool: ThreadPool,
    loss: str,
    targets: ManyTargets,
    margins: NDArray[Any],
    moves: NDArray[Any] | None,
    steps: NDArray[Any] | None,
    slopes: NDArray[Any] | None,
    curvatures: NDArray[Any] | None,
    losses: NDArray[Any],
) -> None: ...
def many_softmax_losses(
    pool: ThreadPool,
    targets: ManyTargets,
    n_classes: int,
    margins: NDArray[Any],
    moves: NDArray[Any] | None,
    steps: NDArray[Any] | None,
    slopes: NDArray[Any] | None,
    curvatures: NDArray[Any] | None,
    losses: NDArray[Any],
) -> None: ...
def many_dots(
    pool: ThreadPool, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]
) -> None: ...
def many_bends(
    pool: ThreadPool,
    search: NDArray[Any],
    penalty: NDArray[Any],
    product: NDArray[Any],
    out: NDArray[Any],
) -> None: ...
def many_residuals(
    pool: ThreadPool,
    steps: NDArray[Any],
    product: NDArray[Any],
    residual: NDArray[Any],
    out: NDArray[Any],
) -> None: ...
def many_mixes(
    pool: ThreadPool,
    factors: NDArray[Any],
    source: NDArray[Any],
    target: NDArray[Any],
    scales_target: bool,
) -> None: ...
def many_softmax_curve(
    pool: ThreadPool,
    n_models: int,
    n_classes: int,
    n_rows: int,
    curvatures: NDArray[Any],
    moved: NDArray[Any],
) -> None: ...

class Targets:
    @staticmethod
    def make(
        labels: NDArray[Any],
        row_weights: NDArray[Any] | None,
        weight: float,
        n_outputs: int,
        is_softmax: bool,
        bias_column: float,
        row_offsets: NDArray[Any] | None = None,
    ) -> Targets: ...

def fused_pass(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    targets: Targets,
    coef: NDArray[Any],
    wants_stiffness: bool,
    margins: NDArray[Any],
    gradients: NDArray[Any],
    is_part: bool = False,
) -> tuple[float, float]: ...
def hessian_product(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    targets: Targets,
    margins: NDArray[Any],
    direction: NDArray[Any],
    products: NDArray[Any],
    is_part: bool = False,
) -> None: ...
def weighted_squares(
    pool: ThreadPool, rows: Rows, weights: NDArray[Any], n_outputs: int, sums: NDArray[Any]
) -> None: ...
def centred_sums(
    pool: ThreadPool, rows: Rows, centre: NDArray[Any] | None, parts: NDArray[Any]
) -> None: ...
def scale_rows(
    rows: Rows,
    means: NDArray[Any],
    scales: NDArray[Any],
    weights: NDArray[Any] | None,
    bias: float,
    out: NDArray[Any],
) -> None: ...
def scale_gram(
    gram: NDArray[Any], mean: NDArray[Any], scale: NDArray[Any], bias: float
) -> None: ...
def line_point(
    pool: ThreadPool,
    loss: str,
    targets: Targets,
    margins: NDArray[Any],
    trial: NDArray[Any],
    step: float,
) -> tuple[float, float]: ...
def curvatures(
    pool: ThreadPool, loss: str, targets: Targets, margins: NDArray[Any], out: NDArray[Any]
) -> None: ...
def small_newton(
    rows: Rows,
    loss: str,
    n_classes: int,
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    row_offsets: NDArray[Any] | None,
    l1: float,
    l2: float,
    intercept: str,
    bias_column: float,
    tol: float,
    floor: float,
    most_passes: int,
    coef: NDArray[Any],
    history: NDArray[Any],
    points: NDArray[Any] | None,
) -> tuple[bool, int, int, float, float, float, float]: ...
def small_interior_point(
    rows: Rows,
    loss: str,
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    row_offsets: NDArray[Any] | None,
    l1: float,
    l2: float,
    intercept: str,
    bias_column: float,
    tol: float,
    floor: float,
    coef: NDArray[Any],
    slopes: NDArray[Any],
    history: NDArray[Any],
    points: NDArray[Any] | None,
) -> tuple[bool, int, float, float, float]: ...
def small_newton_path(
    rows: Rows,
    loss: str,
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    row_offsets: NDArray[Any] | None,
    l1: NDArray[Any],
    l2: NDArray[Any],
    intercept: str,
    bias_column: float,
    tol: float,
    most_passes: int,
    coef: NDArray[Any],
    facts: NDArray[Any],
) -> None: ...
def small_newton_groups(
    pool: ThreadPool,
    rows: Rows,
    loss: str,
    bounds: NDArray[Any],
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    l1: float,
    l2: float,
    intercept: str,
    bias_column: float,
    tol: float,
    most_passes: int,
    coef: NDArray[Any],
    facts: NDArray[Any],
) -> None: ...
def least_squares(
    pool: ThreadPool,
    rows: Rows,
    targets: NDArray[Any],
    row_weights: NDArray[Any] | None,
    is_centred: bool,
    alphas: NDArray[Any],
    coef: NDArray[Any],
    facts: NDArray[Any],
    gram: NDArray[Any] | None,
) -> tuple[bool, float, float]: ...
def row_sums(
    pool: ThreadPool,
    rows: Rows,
    targets: NDArray[Any],
    row_weights: NDArray[Any] | None,
    origin: NDArray[Any],
    products: NDArray[Any],
    sums: NDArray[Any],
) -> None: ...
def row_forms(pool: ThreadPool, rows: Rows, matrix: NDArray[Any], out: NDArray[Any]) -> None: ...
def elastic_net_on_rows(
    pool: ThreadPool,
    rows: Rows,
    targets: NDArray[Any],
    row_weights: NDArray[Any] | None,
    is_centred: bool,
    l1: float,
    l2: float,
    is_positive: bool,
    tol: float,
    coef: NDArray[Any],
    looks: NDArray[Any],
    points: NDArray[Any] | None,
) -> tuple[bool, int, float, float, float, float]: ...
def certify_squares(
    pool: ThreadPool,
    rows: Rows,
    targets: NDArray[Any],
    row_weights: NDArray[Any] | None,
    centre: NDArray[Any],
    has_intercept: bool,
    models: NDArray[Any],
    l1: NDArray[Any],
    l2: NDArray[Any],
    is_positive: bool,
    out: NDArray[Any],
) -> None: ...

class Columns:
    @staticmethod
    def sparse(
        pool: ThreadPool,
        indptr: Any,
        indices: Any,
        values: Any | None,
        constant: float,
        is_float64: bool,
        n_rows: int,
    ) -> Columns: ...
    @staticmethod
    def dense(values: Any, n_rows: int) -> Columns: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cols(self) -> int: ...

def loss_derivatives(
    pool: ThreadPool,
    loss: str,
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    margins: NDArray[Any],
    shift: float,
    gradients: NDArray[Any] | None,
    curvatures: NDArray[Any] | None,
) -> tuple[float, float, float]: ...
def dual_terms(
    pool: ThreadPool,
    loss: str,
    labels: NDArray[Any],
    row_weights: NDArray[Any] | None,
    weight: float,
    gradients: NDArray[Any],
    scale: float,
) -> float: ...
def adjoint_product(
    pool: ThreadPool, rows: Rows, vector: NDArray[Any], out: NDArray[Any]
) -> None: ...
def product(pool: ThreadPool, rows: Rows, coef: NDArray[Any], out: NDArray[Any]) -> None: ...
def column_moments(
    pool: ThreadPool, rows: Rows, row_weights: NDArray[Any] | None, weight: float, out: NDArray[Any]
) -> None: ...
def pack_dense(
    pool: ThreadPool,
    rows: Rows,
    columns: NDArray[Any],
    constant: float,
    by_columns: bool,
    out: NDArray[Any],
) -> None: ...
def weighted_block(
    pool: ThreadPool,
    rows: Rows,
    first: int,
    count: int,
    mean: NDArray[Any],
    root: NDArray[Any],
    out: NDArray[Any],
) -> None: ...
def count_entries(
    pool: ThreadPool, rows: Rows, positions: NDArray[Any], n_kept: int, counts: NDArray[Any]
) -> None: ...
def fill_columns(
    pool: ThreadPool,
    rows: Rows,
    positions: NDArray[Any],
    n_kept: int,
    offsets: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any] | None,
) -> None: ...
def sparse_gram(
    pool: ThreadPool,
    rows: Rows,
    positions: NDArray[Any],
    n_kept: int,
    constant_at: int,
    constant: float,
    curvatures: NDArray[Any],
    out: NDArray[Any],
) -> None: ...
def column_curvatures(
    columns: Columns, states: NDArray[Any], weight: float, sums: NDArray[Any], squares: NDArray[Any]
) -> None: ...
def columns_adjoint(
    pool: ThreadPool, columns: Columns, vector: NDArray[Any], out: NDArray[Any]
) -> None: ...
def columns_product(columns: Columns, coef: NDArray[Any], out: NDArray[Any]) -> None: ...
def column_descent(
    columns: Columns,
    states: NDArray[Any],
    weight: float,
    slopes: NDArray[Any],
    curvatures: NDArray[Any],
    sums: NDArray[Any] | None,
    total: float,
    coef: NDArray[Any],
    l1: float,
    l2: float,
    is_positive: bool,
    max_sweeps: int,
    enough: float,
    among: NDArray[Any] | None,
) -> tuple[int, bool]: ...
def gram_descent(
    gram: NDArray[Any],
    ridge: NDArray[Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: NDArray[Any] | None,
    upper: NDArray[Any] | None,
    coef: NDArray[Any],
    gradient: NDArray[Any],
    max_sweeps: int,
    enough: float,
) -> tuple[int, bool]: ...
def gram_path(
    gram: NDArray[Any],
    products: NDArray[Any],
    squares: float,
    l1: NDArray[Any],
    l2: NDArray[Any],
    is_positive: bool,
    tol: float,
    coef: NDArray[Any],
    facts: NDArray[Any],
) -> None: ...
def elastic_net_value(
    w: NDArray[Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: NDArray[Any] | None,
    upper: NDArray[Any] | None,
) -> float: ...
def elastic_net_conjugate(
    v: NDArray[Any],
    l1: float,
    l2: float,
    is_positive: bool,
    lower: NDArray[Any] | None,
    upper: NDArray[Any] | None,
) -> float: ...
def widen_bfloat16(narrow: NDArray[Any], out: NDArray[Any]) -> None: ...
def widen_uint8(
    narrow: NDArray[Any], scales: NDArray[Any], offsets: NDArray[Any], out: NDArray[Any]
) -> None: ...
def svmlight_rows(
    text: NDArray[Any], is_double: bool, is_wide: bool, least: int, n_threads: int
) -> Any: ...
def click_rows(
    text: NDArray[Any],
    has_label: bool,
    n_numbers: int,
    n_categories: int,
    n_features: int,
    seed: int,
    n_threads: int,
) -> Any: ...
def click_numbers(values: NDArray[Any], field: int, n_features: int, seed: int) -> Any: ...
def click_categories(
    text: NDArray[Any], offsets: NDArray[Any], field: int, n_features: int, seed: int
) -> Any: ...
def joined_memory(parts: Sequence[tuple[int, int]], n_more: int) -> Any: ...
def sparse_form(values: NDArray[Any], common: NDArray[Any] | None, most: int) -> Any: ...

class BinTable:
    @property
    def n_rows(self) -> int: ...
    @property
    def is_finite(self) -> bool: ...
    @property
    def n_bins(self) -> int: ...

class BinnedRows(BinTable):
    pass

class WideRows(BinTable):
    pass

class BinnedColumns(BinTable):
    pass

def bin_rows(
    pool: ThreadPool, rows: Rows, max_bins: int, kept: NDArray[Any] | None
) -> BinnedRows | WideRows: ...
def bin_columns(pool: ThreadPool, columns: Rows, max_bins: int) -> BinnedColumns: ...

class GrownTree:
    @property
    def n_nodes(self) -> int: ...

def write_tree(
    pool: ThreadPool,
    grown: GrownTree,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
    children_left: NDArray[Any],
    children_right: NDArray[Any],
    feature: NDArray[Any],
    threshold: NDArray[Any],
    impurity: NDArray[Any],
    n_node_samples: NDArray[Any],
    weighted_n_node_samples: NDArray[Any],
    missing_go_to_left: NDArray[Any],
    value: NDArray[Any],
) -> tuple[Any, ...]: ...
@overload
def grow_tree(
    pool: ThreadPool,
    binned: BinnedRows,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
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
    monotonic: NDArray[Any] | None,
    n_codes: NDArray[Any] | None,
) -> GrownTree: ...
@overload
def grow_tree(
    pool: ThreadPool,
    binned: WideRows,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
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
    monotonic: NDArray[Any] | None,
    n_codes: NDArray[Any] | None,
) -> GrownTree: ...
@overload
def grow_tree(
    pool: ThreadPool,
    binned: BinnedColumns,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
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
    monotonic: NDArray[Any] | None,
    n_codes: NDArray[Any] | None,
) -> GrownTree: ...
def find_leaves(
    pool: ThreadPool,
    rows: Rows,
    left_child: NDArray[Any],
    right_child: NDArray[Any],
    feature: NDArray[Any],
    threshold: NDArray[Any],
    missing_go_to_left: NDArray[Any],
    leaves: NDArray[Any],
) -> bool: ...
def find_leaves_of_codes(
    pool: ThreadPool,
    rows: Rows,
    left_child: NDArray[Any],
    right_child: NDArray[Any],
    feature: NDArray[Any],
    threshold: NDArray[Any],
    missing_go_to_left: NDArray[Any],
    left_codes: NDArray[Any],
    n_codes: NDArray[Any],
    leaves: NDArray[Any],
) -> None: ...
def grow_exact_tree(
    pool: ThreadPool,
    rows: Rows,
    kept: NDArray[Any] | None,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
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
