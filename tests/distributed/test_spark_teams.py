"""Tasks of one executor train as one shard; without Spark."""

import errno
import fcntl
import json
import os
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data.growing_array import can_share
from snapml.data.store.temporary_store import temporary_store_path
from snapml.distributed.spark.tasks import held_rows, worker
from snapml.distributed.spark.tasks.cards import Card, Contact, errors_of, version_errors
from snapml.distributed.spark.tasks.request import FitRequest
from snapml.distributed.spark.tasks.team import teams_of
from snapml.distributed.tcp import PeerError
from snapml.solvers import threads

from .spark_tasks import answers

REQUEST = FitRequest("logistic", "f", "l", reg_params=(0.1,), tol=1e-8, max_iter=1000, n_threads=1)
VERSIONS = {"snapml": "1", "Python": "3.11"}


def card(team="a", n_features=3, error=None):
    return Card(error, n_features, team)


def contact(versions=VERSIONS):
    return Contact(("host", 1), ("host", 2), ("host", 3), versions)


@pytest.fixture(autouse=True)
def disk(tmp_path, monkeypatch):
    """Return the folder of temporary stores, which a fit leaves empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def rows(n_rows, kind, seed=0):
    rng = np.random.default_rng(seed)
    n_columns = 600 if kind == "sparse" else 5
    X = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.3)
    y = (X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=n_rows) > 0.0).astype(float)
    return X, y


def in_parts(X, y, bounds, kind):
    """Return the rows of each task; those of the first of 'mixed' tasks are dense."""
    parts = [(X[first:last], y[first:last]) for first, last in pairwise(bounds)]
    if kind == "dense":
        return parts
    return [
        (part if kind == "mixed" and k == 0 else csr_matrix(part), labels)
        for k, (part, labels) in enumerate(parts)
    ]


def outcome_of(answer):
    (outcome,) = answer["outcomes"]
    return outcome


@pytest.fixture(params=["memory", "disk"])
def way(request, monkeypatch):
    """Say where rows go from task to task; systems without shared memory have files."""
    if request.param == "disk":
        monkeypatch.setattr(worker, "can_share", lambda: False)
    elif not can_share():
        pytest.skip("no shared memory here")
    return request.param


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
@pytest.mark.parametrize("bounds", [[0, 40, 90], [0, 50, 50, 90], [0, 0, 90]])
def test_tasks_of_an_executor_give_the_model_of_one_task_with_their_rows(kind, bounds, way):
    X, y = rows(90, kind)
    first, *others = answers(REQUEST, in_parts(X, y, bounds, kind))
    assert others == [{}] * len(others)
    whole = in_parts(X, y, [0, 90], "dense" if kind == "dense" else "sparse")
    (expected,) = answers(replace(REQUEST, n_threads=len(bounds) - 1), whole)
    found, expected = outcome_of(first), outcome_of(expected)
    assert found["n_samples"] == 90
    if kind == "mixed":
        assert found["coef"] == pytest.approx(expected["coef"], abs=1e-4)
        return
    np.testing.assert_array_equal(found["coef"], expected["coef"])
    assert found["intercept"] == expected["intercept"]
    assert found["solver"] == expected["solver"]


def refusing(number):
    """Return a function that the system refuses."""

    def refused(*_):
        raise OSError(number, os.strerror(number))

    return refused


@pytest.mark.skipif(not can_share(), reason="no shared memory here")
def test_large_dense_rows_are_trained_on_where_they_are(monkeypatch):
    monkeypatch.setattr(held_rows, "_WORTH_JOINING", 1)
    X, y = rows(5000, "dense")
    joins, found = held_rows.HeldRows.join, []
    monkeypatch.setattr(
        held_rows.HeldRows, "join", lambda *given: found.append(joins(*given)) or found[-1]
    )
    first, *others = answers(REQUEST, in_parts(X, y, [0, 1500, 3700, 5000], "dense"))
    (expected,) = answers(REQUEST, in_parts(X, y, [0, 5000], "dense"))
    assert (found, others) == ([True], [{}, {}])
    assert outcome_of(first)["n_samples"] == 5000
    assert outcome_of(first)["coef"] == pytest.approx(outcome_of(expected)["coef"], abs=1e-4)


HINDRANCES = {
    "no room on the disk": (shutil, "disk_usage", lambda path: SimpleNamespace(free=999)),
    "no folder": (tempfile, "gettempdir", refusing(errno.ENOENT)),
    "no locks": (fcntl, "flock", refusing(errno.ENOLCK)),
    "a share of the memory": (resource, "getrlimit", lambda kind: (2**40, 2**40)),
}


@pytest.mark.parametrize("why", ["memory limit", *HINDRANCES])
def test_tasks_whose_rows_cannot_move_are_shards_of_their_own(why, monkeypatch):
    X, y = rows(90, "dense")
    parts = in_parts(X, y, [0, 40, 90], "dense")
    expected = outcome_of(answers(REQUEST, parts)[0])
    request = replace(REQUEST, memory_limit=1000 if why == "memory limit" else None)
    if why in HINDRANCES:
        monkeypatch.setattr(*HINDRANCES[why])
    if why == "no room on the disk":
        monkeypatch.setattr(worker, "can_share", lambda: False)
    own, other = (outcome_of(answer) for answer in answers(request, parts))
    np.testing.assert_array_equal(own["coef"], other["coef"])
    assert own["coef"] == pytest.approx(expected["coef"], abs=1e-4)


def test_teams_are_those_of_executors_in_the_order_of_tasks():
    found = teams_of([card(name) for name in ("a", "b", None, "a", None, "b")])
    assert found == [[0, 3], [1, 5], [2], [4]]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (card(error="labelCol='l': expected numbers"), "labelCol='l': expected numbers"),
        (card(n_features=4), r"featuresCol='f': expected vectors of one size, got sizes \[3, 4\]"),
    ],
)
def test_cards_say_why_there_can_be_no_fit(wrong, says):
    (error,) = errors_of([card(), wrong], REQUEST)
    with pytest.raises(ValueError, match=says):
        raise ValueError(error)
    assert errors_of([card(), card(n_features=None)], REQUEST) == []
    assert errors_of([card(n_features=None)] * 2, REQUEST) == [
        "expected at least one row, got an empty DataFrame"
    ]


def test_tasks_of_another_version_are_named_whatever_they_write():
    content = {"error": None, "versions": {**VERSIONS, "snapml": "0"}}
    found = [contact(), Contact.of_text(json.dumps(content))]
    assert version_errors(found) == [
        "expected one version of snapml on all executors, got ['0', '1']"
    ]
    assert version_errors([contact(), Contact.of_text(contact().text())]) == []


class Blas:
    """Stands for a library; OpenBLAS itself heeds the main thread of a process alone."""

    num_threads = 2

    def set_num_threads(self, number):
        self.num_threads = number


def test_blas_has_the_threads_of_all_tasks(monkeypatch):
    """Spark tells BLAS in each process to use the cores of one task."""
    trains, found, blas = worker.fit, [], Blas()

    def seen(*arguments):
        found.append(blas.num_threads)
        return trains(*arguments)

    monkeypatch.setattr(threads, "_blas_libraries", lambda: ([blas], []))
    monkeypatch.setattr(worker, "fit", seen)
    X, y = rows(90, "dense")
    answers(REQUEST, in_parts(X, y, [0, 30, 60, 90], "dense"))
    assert found == [6]
    assert blas.num_threads == 2


def test_the_others_wait_for_the_first_as_long_as_it_trains(monkeypatch):
    trains = worker.fit

    def slowly(*arguments):
        time.sleep(3.0)
        return trains(*arguments)

    monkeypatch.setattr(worker, "fit", slowly)
    X, y = rows(90, "dense")
    first, other = answers(REQUEST, in_parts(X, y, [0, 40, 90], "dense"), timeout_s=2.0)
    assert outcome_of(first)["n_samples"] == 90
    assert other == {}


@pytest.mark.parametrize(
    ("error", "is_answered"), [(MemoryError("no room"), True), (OSError("lost"), False)]
)
def test_others_end_where_the_first_task_fails(monkeypatch, error, is_answered):
    def fails(*_):
        raise error

    monkeypatch.setattr(worker.LocalRows, "take_from", fails)
    X, y = rows(90, "dense")
    first, other = answers(REQUEST, in_parts(X, y, [0, 40, 90], "dense"))
    if is_answered:
        assert first == {"error": "MemoryError: no room"}
        assert other == {}
    else:
        assert isinstance(first, OSError)
        assert isinstance(other, PeerError)


@pytest.mark.parametrize("which", [0, 1])
def test_others_end_at_once_where_a_task_fails_as_it_reads(monkeypatch, which):
    """Spark cannot be asked: it is told by the task itself, once that has ended."""
    X, y = rows(90, "dense")
    parts = in_parts(X, y, [0, 40, 90], "dense")
    reads = worker.LocalRows

    def fails(batches, *arguments):
        found = reads(batches, *arguments)
        if found.n_rows == len(parts[which][1]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return found

    monkeypatch.setattr(worker, "LocalRows", fails)
    begin = time.monotonic()
    found = answers(REQUEST, parts, timeout_s=60.0)
    assert time.monotonic() - begin < 30.0
    assert "No space left" in str(found[which])
    assert isinstance(found[1 - which], PeerError)
    assert f"rank {which} " in str(found[1 - which])


def test_the_first_task_ends_where_another_fails(monkeypatch):
    monkeypatch.setattr(worker.LocalRows, "move_to", refusing(errno.ENOSPC))
    X, y = rows(90, "dense")
    first, other = answers(REQUEST, in_parts(X, y, [0, 40, 90], "dense"))
    assert isinstance(first, PeerError)
    assert "No space left" in str(other)


def test_other_shards_end_at_once_where_a_team_fails(monkeypatch):
    monkeypatch.setattr(worker.LocalRows, "move_to", refusing(errno.ENOSPC))
    X, y = rows(90, "dense")
    request = replace(REQUEST, memory_limit=1000)  # too little for the first task's rows
    alone, first, other = answers(request, in_parts(X, y, [0, 80, 85, 90], "dense"))
    assert "No space left" in str(other)
    for lost in (first, alone):
        with pytest.raises(PeerError, match=r"has closed its connection|is lost"):
            raise lost


def test_a_task_that_hangs_after_its_rows_are_taken_is_not_waited_for_for_ever(monkeypatch):
    def hangs(team, part):
        folder = temporary_store_path()
        part.move_to(folder)
        team._group.exchange(str(folder))
        time.sleep(5.0)

    monkeypatch.setattr(worker.Team, "hand_over", hangs)
    X, y = rows(90, "dense")
    first, _ = answers(REQUEST, in_parts(X, y, [0, 40, 90], "dense"), timeout_s=2.0)
    with pytest.raises(PeerError, match=r"from rank 1 for 2 s"):
        raise first
