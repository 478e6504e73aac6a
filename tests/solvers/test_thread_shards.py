"""Shards of rows on threads of one process: their sums, and what happens if one fails."""

from functools import partial

import numpy as np
import pytest
from kernels.emulator.strict_arrays import StrictDevice

from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.newton import quasi_newton
from snapml.solvers.plan.thread_shards import row_shards, solve_together
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.stopping import StoppingRule

from .cases import Case
from .primal_engines import GPUS, on_cpu


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_shards_of_rows_are_the_rows(is_sparse):
    dataset = Case(Logistic(), is_sparse=is_sparse, n_rows=10).dataset()
    shards = row_shards(dataset, 3)
    assert [shard.matrix.shape[0] for shard in shards] == [3, 3, 4]
    whole = [on_cpu(Problem(Logistic()), part).host_rows() for part in (dataset, *shards)]
    dense = [rows.toarray() if is_sparse else rows for rows in whole]
    np.testing.assert_array_equal(np.vstack(dense[1:]), dense[0])
    np.testing.assert_array_equal(np.hstack([s.labels for s in shards]), dataset.labels)
    np.testing.assert_array_equal(np.hstack([s.row_weights for s in shards]), dataset.row_weights)


def devices_of(n_devices):
    """Return a device for each of three shards."""
    devices = [StrictDevice() for _ in range(n_devices)]
    return [devices[k % n_devices] for k in range(3)]


@pytest.mark.parametrize("n_devices", [1, 3])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("on_gpu", GPUS.values(), ids=GPUS)
def test_shards_on_devices_hold_one_model(on_gpu, is_sparse, n_devices):
    case = Case(Logistic(), Intercept.FREE, is_sparse=is_sparse, n_rows=120)
    coefs = []

    def solve(shard, device, communicator):
        with device.use():
            engine = on_gpu(case.problem, shard, device=device)
            result = quasi_newton.solve(engine, communicator, StoppingRule(1e-8, 100))
        coefs.append(result.coef.tobytes())
        return result

    devices = devices_of(n_devices)
    shards = zip(row_shards(case.dataset(), 3), devices, strict=True)
    result, *_ = solve_together([partial(solve, *both) for both in shards], devices)
    assert len(set(coefs)) == 1
    assert case.suboptimality(result) <= result.gap


@pytest.mark.parametrize("n_devices", [1, 3])
def test_sum_over_devices_is_that_in_the_order_of_ranks(n_devices):
    """Each may change its addend as soon as it has the sum: all others have read it by then."""
    rng = np.random.default_rng(0)
    addends = rng.normal(size=(20, 3, 1000)) * 10.0 ** rng.integers(-8, 8, (20, 3, 1000))
    sums, devices = [], devices_of(n_devices)

    def solve(rank, communicator):
        device, own = devices[rank], []
        with device.use():
            for addend in addends[:, rank]:
                array = device.to_device(addend)
                total = communicator.allreduce_sum(array)
                assert n_devices == 1 or device.n_done == device.n_queued  # it has read the others
                array *= np.nan
                own.append(device.to_host(total))
        sums.append(own)

    solve_together([partial(solve, rank) for rank in range(3)], devices)
    in_order = addends[:, 0] + addends[:, 1] + addends[:, 2]
    assert not np.array_equal(in_order, addends[:, 2] + addends[:, 1] + addends[:, 0])
    for own in sums:
        np.testing.assert_array_equal(own, in_order)


def test_array_of_a_device_needs_to_be_said_whose():
    def solve(communicator):
        communicator.allreduce_sum(StrictDevice().to_device(np.ones(2)))

    with pytest.raises(TypeError, match="expected an array of the host"):
        solve_together([solve, solve])


def test_sum_that_all_came_to_reaches_those_who_wake_after_an_error():
    """A hundred times: the slow shards must see the sum, and fail for their own reason."""

    def solve(rank, communicator):
        for _ in range(3):
            total = communicator.allreduce_sum(np.array([1.0]))
        assert total[0] == 4.0
        raise (NonFiniteError if rank == 3 else ValueError)(f"shard {rank}")

    for _ in range(100):
        with pytest.raises(NonFiniteError, match="shard 3"):
            solve_together([partial(solve, rank) for rank in range(4)])


@pytest.mark.parametrize("failing", [0, 2])
def test_shards_do_not_wait_for_one_that_failed(failing):
    def solve(rank, communicator):
        if rank == failing:
            raise MemoryError("no room")
        communicator.allreduce_sum(np.zeros(2))

    with pytest.raises(MemoryError, match="no room"):
        solve_together([partial(solve, rank) for rank in range(4)])
