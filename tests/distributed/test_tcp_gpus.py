"""Tasks of a fit on emulated GPUs, connected by TCP, each on a thread; without Spark."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from kernels.emulator.memory import watched
from kernels.emulator.strict_arrays import StrictDevice

from snapml.distributed import device_ranks
from snapml.distributed.spark.tasks import gpus
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.solvers.plan import device_choice
from snapml.solvers.rows import gpu_primal_engine

from .spark_tasks import answers, given
from .test_tcp import on_ranks
from .threaded_nccl import ThreadedNccl


class Device(StrictDevice):
    """An emulated GPU with a name of its own, which may have NCCL."""

    def __init__(self, nccl=None):
        super().__init__()
        self.nccl = nccl


def data(n_classes):
    """Return rows of two tasks, uneven and sorted by their labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    margins = X[:, : max(1, n_classes)] + 0.3 * rng.normal(size=(90, max(1, n_classes)))
    y = margins.argmax(axis=1).astype(float) if n_classes else 2.0 * margins[:, 0]
    order = np.argsort(y, kind="stable")
    return [(X[part], y[part]) for part in (order[:20], order[20:])]


REQUESTS = {
    "logistic": (FitRequest("logistic", "f", "l", reg_params=(0.1, 0.01)), 2),
    "multinomial": (FitRequest("multinomial", "f", "l", reg_params=(0.1,)), 3),
    "linear": (FitRequest("linear", "f", "l", reg_params=(0.2,)), 0),
    "hinge": (FitRequest("svm", "f", "l", reg_params=(0.1,)), 2),
    "sdca": (FitRequest("logistic", "f", "l", reg_params=(0.05,), solver="sdca"), 2),
    "lasso": (
        FitRequest("linear", "f", "l", reg_params=(0.1,), elastic_net_params=(1.0,)),
        0,
    ),
}


def request_of(name):
    request, n_classes = REQUESTS[name]
    nets = request.elastic_net_params * len(request.reg_params)
    tol = {"hinge": 1e-2, "sdca": 1e-5}.get(name, 1e-8)
    return replace(request, elastic_net_params=nets, tol=tol, max_iter=1000), data(n_classes)


SAYS = {
    "pinned": "through pinned host memory (rank 0 has no NCCL)",
    "nccl": "sums of 2 ranks by NCCL",
    "shared": "through pinned host memory (ranks 0 and 1 share a GPU)",
}


@pytest.fixture(params=SAYS)
def way(request, monkeypatch):
    """Put emulated GPUs in the place of the machine's; return how their sums go."""
    nccl = None if request.param == "pinned" else ThreadedNccl()
    found = {number: Device(nccl) for number in range(3)}
    if request.param == "shared":
        found[1] = found[0]
    monkeypatch.setattr(device_choice, "make_device", found.__getitem__)
    return SimpleNamespace(name=request.param, devices=found, nccl=nccl)


@pytest.mark.parametrize("count", [3, 63, 1000])
def test_sums_on_gpus_are_added_in_the_order_of_ranks(way, monkeypatch, count):
    monkeypatch.setattr(device_ranks, "_MOST_STAGED", 300)
    addends = np.random.default_rng(0).normal(size=(2, count)) * [[1.0], [1e10]]

    def work(mesh):
        communicator = TcpCommunicator(mesh)
        device = way.devices[mesh.rank]
        with device.use():
            ranks = communicator.with_device(device)
            total = ranks.allreduce_sum(device.to_device(addends[mesh.rank]))
            found = device.to_host(total)
        communicator.close()
        return found, ranks.description

    for total, description in on_ranks(2, work):
        np.testing.assert_array_equal(total, addends[0] + addends[1])
        assert description.endswith(SAYS[way.name])
    assert way.nccl is None or way.nccl.n_open == 0


@pytest.mark.parametrize(
    ("way", "name"),
    [
        *((way, name) for way in SAYS for name in ("logistic", "multinomial")),
        *(("nccl", name) for name in ("linear", "hinge", "sdca", "lasso")),
    ],
    indirect=["way"],
)
def test_tasks_on_gpus_have_the_model_of_those_on_cpus(way, monkeypatch, name):
    monkeypatch.setattr(gpu_primal_engine, "_LEAST_DEVICE_VECTOR", 1)
    request, parts = request_of(name)
    there = replace(request, use_gpu=True)
    with watched() as memory:
        own, other = answers(there, parts, [["0"], ["1"]])
        assert memory.peak > 0 == memory.alive
    assert own.keys() == {"outcomes"}, own
    expected = answers(request, parts)[0]["outcomes"]
    for mine, theirs, found in zip(own["outcomes"], expected, other["outcomes"], strict=True):
        mine, theirs, found = FitOutcome(**mine), FitOutcome(**theirs), FitOutcome(**found)
        np.testing.assert_array_equal(mine.coef, found.coef)
        assert mine.has_converged
        assert mine.objective - mine.gap <= theirs.objective * (1.0 + 1e-12)
        assert theirs.objective - theirs.gap <= mine.objective * (1.0 + 1e-12)
        np.testing.assert_allclose(mine.coef, theirs.coef, atol=0.1 if name == "hinge" else 1e-2)
        assert "emulated device" in mine.solver
        assert SAYS[way.name] in mine.solver
        assert "emulated device" not in theirs.solver
    assert all(way.devices[number].n_emptied > 0 for number in (0, 1))
    assert way.nccl is None or way.nccl.n_open == 0


@pytest.mark.parametrize("way", ["pinned", "nccl"], indirect=True)
def test_one_task_without_memory_ends_both_and_leaves_nothing(way):
    request, parts = request_of("logistic")
    with watched() as memory:
        answers(replace(request, use_gpu=True), parts, [["0"], ["1"]])
        n_allocations = memory.n_allocations
    for n_allowed in range(0, n_allocations, n_allocations // 8):
        emptied = way.devices[1].n_emptied
        with watched(n_allowed) as memory:
            found = answers(replace(request, use_gpu=True), parts, [["0"], ["1"]])
            assert memory.alive == 0, n_allowed
        texts = [one["error"] for one in found]
        assert all("MemoryError" in text for text in texts), texts
        assert sorted(text.startswith("rank ") for text in texts) == [False, True]
        assert way.devices[1].n_emptied > emptied
        assert way.nccl is None or way.nccl.n_open == 0


@pytest.mark.parametrize("way", ["pinned", "nccl"], indirect=True)
def test_a_gpu_that_breaks_raises_there_and_ends_the_other_task(way, monkeypatch):
    plain = way.devices[1].to_host
    calls = iter(range(10**6))

    def breaking(array, out=None):
        if next(calls) == 12:
            raise RuntimeError("the GPU has fallen off the bus")
        return plain(array, out)

    monkeypatch.setattr(way.devices[1], "to_host", breaking)
    request, parts = request_of("logistic")
    own, other = answers(replace(request, use_gpu=True), parts, [["0"], ["1"]])
    assert own == {"error": "rank 1: RuntimeError: the GPU has fallen off the bus"}
    assert isinstance(other, RuntimeError)
    assert "fallen off the bus" in str(other)


@pytest.mark.parametrize("way", ["nccl"], indirect=True)
@pytest.mark.parametrize(
    ("addresses", "memory_limit"), [([["0", "2"], ["1"]], None), ([["0"], ["1"]], 1000)]
)
def test_tasks_may_have_several_gpus_and_rows_on_disk(way, addresses, memory_limit):
    request, parts = request_of("logistic")
    request = replace(request, memory_limit=memory_limit)
    own, other = answers(replace(request, use_gpu=True), parts, addresses)
    expected = answers(request, parts)[0]["outcomes"]
    for mine, found, theirs in zip(own["outcomes"], other["outcomes"], expected, strict=True):
        np.testing.assert_array_equal(mine["coef"], found["coef"])
        np.testing.assert_allclose(mine["coef"], theirs["coef"], atol=1e-2)
        assert mine["solver"].count("emulated device") == len(addresses[0])
        assert mine["has_converged"]
        assert "sums of 2 ranks by NCCL" in mine["solver"]


@pytest.mark.parametrize("way", ["pinned"], indirect=True)
@pytest.mark.parametrize("memory_limit", [None, 1000])
def test_tasks_smooth_the_hinge_together(way, memory_limit):
    request, parts = request_of("hinge")
    request = replace(request, solver="pqn", memory_limit=memory_limit)
    own, other = answers(replace(request, use_gpu=True), parts, [["0"], ["1"]])
    expected = answers(request, parts)[0]["outcomes"]
    for mine, found, theirs in zip(own["outcomes"], other["outcomes"], expected, strict=True):
        np.testing.assert_array_equal(mine["coef"], found["coef"])
        np.testing.assert_allclose(mine["coef"], theirs["coef"], atol=1e-2)
        assert "smoothed hinges, emulated device" in mine["solver"]
        assert mine["has_converged"]


@pytest.mark.parametrize("way", ["pinned"], indirect=True)
def test_what_no_gpu_solves_is_said_in_the_terms_of_spark(way):
    request, parts = request_of("hinge")
    change = {"use_gpu": True, "solver": "sdca", "memory_limit": 1000}
    found = answers(replace(request, **change), parts, [["0"], ["1"]])
    for one in found:
        assert one["error"].startswith("NotImplementedError: useGpu=True: ")
        assert one["error"].endswith("in Spark, useGpu=False")


REQUEST = FitRequest("logistic", "f", "l", use_gpu=True)


@pytest.mark.parametrize(
    ("device_ids", "expected"), [((4, 5, 6), [4, 4, 5, 6]), ((0, 0, 0), [0] * 4)]
)
def test_tasks_of_a_host_take_the_named_gpus_in_turn(monkeypatch, device_ids, expected):
    monkeypatch.setattr(device_choice, "make_device", lambda number: None)
    request = replace(REQUEST, device_ids=device_ids)
    found = [gpus.placed(request, given("9"), ["a", "b", "a", "a"], rank) for rank in range(4)]
    assert found == [(number,) for number in expected]


def test_tasks_take_all_gpus_that_spark_gives(monkeypatch):
    monkeypatch.setattr(device_choice, "make_device", lambda number: None)
    assert gpus.placed(REQUEST, given("3", "1"), ["a"], 0) == (3, 1)
    assert gpus.placed(replace(REQUEST, use_gpu=False), given("3"), ["a"], 0) == ()


@pytest.mark.parametrize("way", ["pinned"], indirect=True)
@pytest.mark.parametrize(
    ("addresses", "device_ids", "says"),
    [
        ([["0"], None], None, "1 on 127.0.0.1: expected a GPU from Spark, got none: set spark."),
        ([["0"], ["GPU-1"]], None, "1 on 127.0.0.1: expected numbers of GPUs from spark."),
        ([None, None], (0,), "0 on 127.0.0.1: deviceIds=[0]: expected a GPU for each of the 2 "),
    ],
)
def test_tasks_without_a_gpu_are_refused_on_all(way, addresses, device_ids, says):
    request, parts = request_of("logistic")
    request = replace(request, use_gpu=True, device_ids=device_ids)
    own, other = answers(request, parts, addresses)
    assert own == other
    assert own["error"].startswith(f"useGpu=True: task {says}")


def test_a_missing_gpu_or_package_is_said_with_the_task(monkeypatch):
    def refuse(number):
        raise RuntimeError(f"device_ids=[{number}] needs CuPy: pip install")

    monkeypatch.setattr(device_choice, "make_device", refuse)
    request, parts = request_of("logistic")
    own, other = answers(replace(request, use_gpu=True, device_ids=(0, 1)), parts)
    says = "useGpu=True: task 0 on 127.0.0.1: device_ids=[0] needs CuPy: pip install"
    assert own["error"] == other["error"] == says
