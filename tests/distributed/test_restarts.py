"""Fits that end at any pass and go on from their checkpoint, in one process without MPI."""

import logging

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.distributed.checkpoints import Checkpoints, passes_or_seconds
from snapml.distributed.phase_clock import PhaseClock
from snapml.distributed.signals import SignalWatch
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.problems import Hinge, Intercept, Logistic, Penalty, Problem, Softmax, Squared
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.interior_point import small_rows
from snapml.solvers.newton import small_newton
from snapml.solvers.observer import Observer
from snapml.solvers.plan import choice
from snapml.solvers.stopping import StoppingRule

from .test_tcp import on_ranks

L2, L1, NONE = Penalty(0.0, 1.0), Penalty(1.0, 0.0), Penalty(0.0, 0.0)


class EndedError(Exception):
    """Takes the place of a crash between two passes."""


class Watch(Observer):
    """Keeps checkpoints, and ends the fit at a pass."""

    def __init__(self, path, end_at, every=1, terms=None, communicator=None):
        communicator = communicator or SerialCommunicator()
        signals, clock = SignalWatch(), PhaseClock()
        self.checkpoints = Checkpoints(path, every, terms or {}, communicator, signals, clock)
        self.recognise = self.checkpoints.recognise
        self.decide = self.checkpoints.decide
        self.stage = self.checkpoints.stage
        write, stages = self.checkpoints._offered, self.checkpoints.stages
        self.has_ended = False

        def offered(communicator, state_of, is_new):
            write(communicator, state_of, is_new)
            if self.checkpoints.n_passes == end_at:
                raise EndedError

        stages.offered = offered


def dense(labels, n_rows=600, n_features=20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * np.logspace(0.0, 1.0, n_features)
    margins = X @ rng.normal(size=(n_features, 3)) / 10.0 + rng.normal(size=(n_rows, 3))
    return Dataset(DenseMatrix(X), labels(margins).astype(float), None, 1.0)


def sparse(n_features, cost=1.0):
    rng = np.random.default_rng(0)
    X = csr_matrix(random_array((2000, n_features), density=20 / n_features, rng=rng))
    y = np.where(X @ rng.normal(size=n_features) + 0.1 * rng.normal(size=2000) > 0.0, 1.0, -1.0)
    rows = CompressedMatrix(X.indptr, X.indices, n_features, X.data)
    return Dataset(rows, y, None, cost)


def signs(margins):
    return np.where(margins[:, 0] > 0.0, 1.0, -1.0)


def each(margins):
    return np.where(margins.argmax(axis=1) == np.arange(3)[:, None], 1.0, -1.0)


# Smooth problems of fewer entries are solved in one call, whose state nobody keeps.
CASES = {
    "quasi-Newton": (Problem(Logistic(), Intercept.FREE, 1.0, L2), dense(signs, 12000), "auto"),
    "columns": (Problem(Logistic(), Intercept.FREE, 1.0, L2), dense(signs, 9000, 150), "auto"),
    "unpenalised": (Problem(Logistic(), Intercept.FREE, 1.0, NONE), dense(signs), "auto"),
    "outputs": (Problem(Logistic(), Intercept.FREE, 1.0, L2), dense(each), "auto"),
    "softmax": (
        Problem(Softmax(3), Intercept.FREE, 1.0, L2),
        dense(lambda margins: margins.argmax(axis=1), 12000),
        "auto",
    ),
    "squares": (Problem(Squared(), Intercept.FREE, 1.0, L2), dense(lambda m: m[:, 0]), "pqn"),
    "products": (Problem(Logistic(), Intercept.FREE, 1.0, L2), sparse(6000, 100.0), "pqn"),
    "ascent": (Problem(Logistic(), Intercept.FREE, 1.0, L2), sparse(700), "sdca"),
    "hinges": (Problem(Hinge(), Intercept.PENALISED, 1.0, L2), dense(signs, 12000), "auto"),
    "hinges apart": (Problem(Hinge(), Intercept.PENALISED, 1.0, L2), dense(each, 12000), "auto"),
    "hinge ascent": (Problem(Hinge(), Intercept.PENALISED, 1.0, L2), sparse(700, 0.05), "auto"),
    "handed over": (Problem(Logistic(), Intercept.FREE, 1.0, L2), sparse(1200, 1e4), "auto"),
    "L1": (Problem(Logistic(), Intercept.FREE, 1.0, L1), dense(signs, 12000), "auto"),
    "softmax with L1": (
        Problem(Softmax(3), Intercept.FREE, 1.0, L1),
        dense(lambda margins: margins.argmax(axis=1)),
        "auto",
    ),
}
# What the quasi-Newton method solves goes on to the same bits.
EXACT = {
    "quasi-Newton",
    "columns",
    "outputs",
    "softmax",
    "squares",
    "products",
    "hinges",
    "hinges apart",
}
TOL = 1e-6


@pytest.fixture(autouse=True)
def no_fit_is_small(monkeypatch):
    """Who keeps states gets them of the methods for many rows alone."""
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    monkeypatch.setattr(small_rows, "_MOST_ENTRIES", 0)


def fitted(case, watch=None, max_iter=500):
    problem, dataset, solver = CASES[case]
    rule = StoppingRule(TOL, max_iter)
    if watch is not None:
        rule = StoppingRule(TOL, max_iter, observer=watch)
    return choice.fit(problem, dataset, SerialCommunicator(), rule, Settings(solver, n_threads=1))


@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_ends_at_some_pass_goes_on_to_the_same_answer(case, tmp_path):
    path, whole = tmp_path / "state", fitted(case)
    complete = Watch(tmp_path / "whole", 0)
    same = fitted(case, complete)
    assert np.array_equal(same.coef, whole.coef)
    n_passes = complete.checkpoints.n_passes
    assert n_passes >= 2, "too easy to be a test"
    for end_at in sorted({1, n_passes // 2, n_passes}):
        path.unlink(missing_ok=True)
        with pytest.raises(EndedError):
            fitted(case, Watch(path, end_at))
        watch = Watch(path, 0)
        result = fitted(case, watch)
        assert watch.checkpoints.resumed_from == end_at
        assert result.has_converged
        rounding = 1e-14 * whole.objective
        assert abs(result.objective - whole.objective) <= max(result.gap, whole.gap, rounding)
        # What was done before the end is not done again.
        assert watch.checkpoints.n_passes <= n_passes + n_passes // 4
        if case in EXACT:
            assert result.n_iter == whole.n_iter
            assert np.array_equal(result.coef, whole.coef)
            assert [entry["gap"] for entry in result.history] == [
                entry["gap"] for entry in whole.history
            ]


def test_a_fit_goes_on_again_and_again(tmp_path):
    whole = fitted("quasi-Newton")
    for end_at in range(1, 100):
        try:
            result = fitted("quasi-Newton", Watch(tmp_path / "state", end_at))
        except EndedError:
            continue
        break
    assert end_at > 3
    assert np.array_equal(result.coef, whole.coef)
    assert result.n_iter == whole.n_iter


def test_every_says_after_how_many_passes_it_is_written(tmp_path):
    watch = Watch(tmp_path / "state", 0, every=3)
    fitted("quasi-Newton", watch)
    assert watch.checkpoints.n_written == watch.checkpoints.n_passes // 3 > 0
    rare = Watch(tmp_path / "other", 0, every="2h")
    fitted("quasi-Newton", rare)
    assert rare.checkpoints.n_written == 0


def test_times_and_passes_are_told_apart():
    assert passes_or_seconds(5) == (5.0, np.inf)
    assert passes_or_seconds("90s") == (np.inf, 90.0)
    assert passes_or_seconds(" 1.5 h ") == (np.inf, 5400.0)
    for wrong in (0, -1, 2.5, True, "10", "ten minutes", None, "-3s"):
        with pytest.raises(ValueError, match="checkpoint_every: expected a positive number of"):
            passes_or_seconds(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:-1], y[:-1]), "n_rows 12000, got 11999"),
        (lambda X, y: (X[:, :-1], y), "n_features 20, got 19"),
        (lambda X, y: (X.astype(np.float32), y.astype(np.float32)), "dtype float64, got float32"),
        (lambda X, y: (X, np.r_[-y[:1], y[1:]]), "the same labels"),
        (lambda X, y: (X[:, ::-1].copy(), y), "the same rows"),
        (lambda X, y: (np.r_[X[:1] + 1e-6, X[1:]], y), "the same rows"),
        (lambda X, y: (X, np.r_[y[5:], y[:5]]), "the same rows with labels"),
    ],
)
def test_other_data_are_refused(tmp_path, change, message):
    problem, dataset, _ = CASES["quasi-Newton"]
    with pytest.raises(EndedError):
        fitted("quasi-Newton", Watch(tmp_path / "state", 2))
    X, y = change(dataset.matrix.values, dataset.labels)
    other = Dataset(DenseMatrix(X), y, None, 1.0)
    rule = StoppingRule(TOL, 500, observer=Watch(tmp_path / "state", 0))
    with pytest.raises(ValueError, match=f"of other data: expected {message}"):
        choice.fit(problem, other, SerialCommunicator(), rule, Settings(n_threads=1))


def test_other_parameters_are_refused(tmp_path):
    with pytest.raises(EndedError):
        fitted("ascent", Watch(tmp_path / "state", 2, terms={"C": "1.0"}))
    with pytest.raises(ValueError, match=r"of another fit: expected C 1\.0, got 2\.0"):
        Watch(tmp_path / "state", 0, terms={"C": "2.0"})


def test_states_of_rows_in_another_order_are_not_used(tmp_path, caplog):
    problem, dataset, solver = CASES["ascent"]
    with pytest.raises(EndedError):
        fitted("ascent", Watch(tmp_path / "state", 4))
    order = np.random.default_rng(0).permutation(2000)
    shuffled = dataset.take(order, 1.0)
    rule = StoppingRule(TOL, 500, observer=Watch(tmp_path / "state", 0))
    with caplog.at_level(logging.INFO, "snapml"):
        result = choice.fit(
            problem, shuffled, SerialCommunicator(), rule, Settings(solver, n_threads=1)
        )
    assert "the rows come in another order" in caplog.text
    whole = fitted("ascent")
    assert abs(result.objective - whole.objective) <= max(result.gap, whole.gap)


def fitted_over_tcp(watched):
    """Fit halves of the rows on two ranks, with what `watched` makes of their communicator."""
    problem, whole, solver = CASES["ascent"]

    def on_rank(mesh):
        communicator = TcpCommunicator(mesh)
        rows = np.flatnonzero(np.arange(2000) // 1000 == mesh.rank)
        try:
            rule = StoppingRule(TOL, 500, observer=watched(communicator))
            settings = Settings(solver, n_threads=1)
            return choice.fit(problem, whole.take(rows, 1.0), communicator, rule, settings)
        except EndedError as error:
            return error

    return on_ranks(2, on_rank, timeout_s=60.0)


def test_ranks_over_tcp_go_on_together(tmp_path):
    path, kept = tmp_path / "state", []
    found = fitted_over_tcp(lambda ranks: Watch(path, 4, communicator=ranks))
    assert [type(each) for each in found] == [EndedError, EndedError]

    def watched(ranks):
        kept.append(Checkpoints(path, "0s", {}, ranks))
        return kept[-1]

    first, second = fitted_over_tcp(watched)
    assert [each.resumed_from for each in kept] == [4, 4]
    assert np.array_equal(first.coef, second.coef)
    whole = fitted("ascent")
    assert abs(first.objective - whole.objective) <= max(first.gap, whole.gap)


def test_a_fit_that_may_begin_anew_leaves_what_it_cannot_go_on_from(tmp_path, caplog):
    path, whole = tmp_path / "state", fitted("quasi-Newton")
    with pytest.raises(EndedError):
        fitted("squares", Watch(path, 2, terms={"C": "1.0"}))
    foreign = path.read_bytes()
    for content, terms, reason in (
        (foreign, {"C": "1.0"}, "is of other data: expected n_rows 600, got 12000; the fit begins"),
        (foreign, {"C": "2.0"}, "is of another fit: expected C 1.0, got 2.0; the fit begins anew"),
        (foreign[:-7], {"C": "1.0"}, "its checksum is wrong; the fit begins anew"),
    ):
        path.write_bytes(content)
        kept = Checkpoints(path, 1, terms, SerialCommunicator(), begins_anew=True)
        result = fitted("quasi-Newton", kept)
        assert reason in caplog.text
        assert kept.resumed_from is None
        assert np.array_equal(result.coef, whole.coef)
        caplog.clear()
    with pytest.raises(FileNotFoundError):
        Checkpoints(tmp_path / "none" / "state", 1, {}, SerialCommunicator(), begins_anew=True)


def test_a_full_disk_leaves_the_last_checkpoint_and_the_fit_as_they_were(
    tmp_path, monkeypatch, caplog
):
    path = tmp_path / "state"
    with pytest.raises(EndedError):
        fitted("quasi-Newton", Watch(path, 2))
    before = path.read_bytes()

    def full(stream, *rest):
        stream.write(b"some")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("snapml.distributed.checkpoints.keeper.write_checkpoint", full)
    watch = Watch(path, 0)
    result = fitted("quasi-Newton", watch)
    assert result.has_converged
    assert watch.checkpoints.n_failed > 0 == watch.checkpoints.n_written
    assert (
        "could not be written: [Errno 28] No space left on device; the fit goes on" in caplog.text
    )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_refused_before_the_fit(tmp_path):
    with pytest.raises(FileNotFoundError, match="checkpoint: there is no folder"):
        Watch(tmp_path / "none" / "state", 0)
