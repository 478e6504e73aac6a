"""Arguments that would lead a sweep outside its arrays are refused, and say why."""

import subprocess
import sys

import numpy as np
import pytest

from snapml import _native
from snapml.problems import Hinge, Logistic, Squared

from .shards import Shard

FLOAT64 = np.dtype(np.float64)


def make_shard(**changed):
    """Return the arguments of a call about 77 x 9 rows, with some of the shard's replaced."""
    shard = Shard(Squared(), FLOAT64)
    arrays = dict(
        labels=shard.labels,
        row_weights=shard.row_weights,
        weight=1.0,
        row_norms_sq=shard.norms,
        duals=shard.duals,
        shared=shard.shared,
        tau=0.0,
        offset=0.0,
    )
    return shard.pool, shard.rows, "Squared", _native.Shard.make(**(arrays | changed))


def run_epoch(shard, **changed):
    options = dict(
        replicas=None,
        sigma=1.0,
        outer=1.0,
        relaxation=1.0,
        rounds=1,
        block_rows=16,
        seed=0,
        epoch=0,
    )
    return _native.dual_epoch(*shard, **(options | changed))


SWEEPS = {
    "dual_epoch": run_epoch,
    "dual_mass": lambda shard: _native.dual_mass(*shard),
    "exact_sweep": lambda shard: _native.exact_sweep(
        *shard, 1.0, 1.0, np.empty(77), np.empty((1, 10))
    ),
    "loss_value": lambda shard: _native.loss_value(*shard, np.zeros(77), 0.0),
    "loss_slope": lambda shard: _native.loss_slope(*shard, np.zeros(77), 0.0),
}


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("name", ["labels", "row_weights", "row_norms_sq", "duals", "shared"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: array[:-1], "elements, got"),
        (lambda array: np.append(array, 0.0), "elements, got"),
        (lambda array: array.astype(np.float32), "another dtype"),
        (lambda array: np.repeat(array, 2)[::2], "got strides"),
        (lambda array: array[::-1], "got strides"),
    ],
    ids=["short", "long", "float32", "strided", "reversed"],
)
def test_shard_arrays_that_do_not_fit_are_refused(sweep, name, change, message):
    shard = Shard(Squared(), FLOAT64)
    arrays = dict(
        labels=shard.labels,
        row_weights=shard.row_weights,
        row_norms_sq=shard.norms,
        duals=shard.duals,
        shared=shard.shared,
    )
    broken = make_shard(**{name: change(arrays[name])})
    with pytest.raises(ValueError, match=f"{name}: .*{message}"):
        SWEEPS[sweep](broken)


@pytest.mark.parametrize("name", ["duals", "shared"])
def test_state_that_cannot_be_written_is_refused(name):
    array = np.zeros(77 if name == "duals" else 10)
    array.flags.writeable = False
    with pytest.raises(TypeError):
        make_shard(**{name: array})


@pytest.mark.parametrize("sweep", SWEEPS)
def test_unknown_loss_is_refused(sweep):
    pool, rows, _, shard = make_shard()
    message = r"expected a loss with a coordinate step \(.*Hinge, .*\), got 'LogCosh'"
    with pytest.raises(ValueError, match=message):
        SWEEPS[sweep]((pool, rows, "LogCosh", shard))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("loss_value", (np.zeros(76), 0.0)),
        ("loss_value", (np.zeros(77, dtype=np.float32), 0.0)),
        ("loss_slope", (np.zeros(78), 0.0)),
        ("loss_slope", (np.zeros(154)[::2], 0.0)),
        ("exact_sweep", (1.0, 1.0, np.zeros(76), np.zeros((1, 10)))),
        ("exact_sweep", (1.0, 1.0, np.zeros(77), np.zeros((1, 9)))),
        ("exact_sweep", (1.0, 1.0, np.zeros(77), np.zeros((2, 10)))),
        ("exact_sweep", (1.0, 1.0, np.zeros(77), np.zeros((1, 10), dtype=np.float32))),
    ],
)
def test_outputs_that_do_not_fit_are_refused(function, arguments):
    with pytest.raises(ValueError, match="expected a contiguous vector"):
        getattr(_native, function)(*make_shard(), *arguments)


def test_replicas_must_hold_a_copy_for_every_worker():
    shard = Shard(Logistic(), FLOAT64, n_threads=2)
    for replicas in (np.empty((1, 10)), np.empty((2, 9)), np.empty((2, 10), dtype=np.float32)):
        with pytest.raises(ValueError, match="replicas"):
            run_epoch(shard.arguments, replicas=replicas, sigma=2.0)


@pytest.mark.parametrize("coef", [np.zeros(8), np.zeros(10), np.zeros(9, np.float32)])
def test_coefficients_that_do_not_fit_are_refused(coef):
    shard = Shard(Squared(), FLOAT64)
    with pytest.raises(ValueError, match="coef"):
        _native.margins(shard.pool, shard.rows, coef, 0.0, np.empty(77))


@pytest.mark.parametrize("out", [np.zeros(76), np.zeros(77, np.float32)])
def test_margins_that_do_not_fit_are_refused(out):
    shard = Shard(Squared(), FLOAT64)
    with pytest.raises(ValueError, match="out"):
        _native.margins(shard.pool, shard.rows, np.zeros(9), 0.0, out)


def test_norms_that_do_not_fit_are_refused():
    shard = Shard(Squared(), FLOAT64)
    for norms in (np.zeros(76), np.zeros(77, np.float32)):
        with pytest.raises(ValueError, match="row_norms_sq"):
            _native.inspect_rows(shard.pool, shard.rows, norms)


@pytest.mark.parametrize("function", ["penalty_value", "penalty_conjugate"])
@pytest.mark.parametrize("vector", [np.zeros(3, dtype=np.int64), np.zeros(6)[::2]])
def test_penalty_of_another_kind_of_vector_is_refused(function, vector):
    with pytest.raises(ValueError, match="expected a contiguous vector"):
        getattr(_native, function)(_native.ThreadPool(1), vector)


@pytest.mark.parametrize(
    "changed",
    [
        dict(rounds=0),
        dict(rounds=-1),
        dict(sigma=0.5),
        dict(sigma=np.nan),
        dict(outer=0.0),
        dict(outer=np.nan),
        dict(relaxation=0.5),
        dict(relaxation=1.5),
        dict(relaxation=np.nan),
        dict(block_rows=0),
        dict(block_rows=17),
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(changed):
    with pytest.raises(ValueError, match="expected"):
        run_epoch(make_shard(), **changed)


def test_more_rounds_than_a_counter_holds_are_refused_or_run():
    """In a process of its own: where it is not refused, it may end in a signal or not at all."""
    script = """
import numpy as np
from snapml import _native
X = np.ones((40, 3)); y = np.ones(40); pool = _native.ThreadPool(2); shared = np.zeros(4)
shard = _native.Shard.make(y, None, 1.0, np.full(40, 3.0), y.copy(), shared, 0.0, 0.0)
rows = _native.Rows.dense(X)
try:
    _native.dual_epoch(pool, rows, "Squared", shard, replicas=np.empty((2, 4)), sigma=2.0,
                       outer=1.0, relaxation=1.0, rounds=2**32, block_rows=16, seed=0, epoch=0)
except ValueError:
    pass
else:
    assert shared.any(), "no row was visited"
"""
    try:  # what takes time are the imports: a minute, where the processor is an emulated one
        process = subprocess.run([sys.executable, "-c", script], timeout=300, capture_output=True)
    except subprocess.TimeoutExpired:
        pytest.fail("the epoch did not end")
    assert process.returncode == 0, process.stderr.decode()


@pytest.mark.parametrize("size", [-3, 0, 1])
def test_pool_has_at_least_one_thread(size):
    assert _native.ThreadPool(size).size == 1


def test_unknown_quantity_is_refused():
    with pytest.raises(ValueError, match="unknown quantity 'prox'"):
        _native.core_loss(Hinge().core_name, "prox", 0.0, 1.0, True)
