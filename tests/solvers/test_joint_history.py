"""Histories of classes and targets that are solved apart add up to one."""

import math

import numpy as np
import pytest

import snapml
from snapml.solvers.result import joint_history

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5))
LABELS = (X[:, :3] + RNG.normal(size=(200, 3))).argmax(axis=1)


def entry(epoch, time_s, gap=math.nan, objective=math.nan, running_gap=1.0):
    values = {"time_s": time_s, "running_gap": running_gap, "gap": gap, "objective": objective}
    return {"epoch": epoch, **values}


def test_entries_are_sums_of_where_each_problem_was():
    first = [entry(1, 0.1), entry(2, 0.2, 3.0, 30.0), entry(4, 0.4), entry(6, 0.6, 1.0, 20.0)]
    second = [entry(2, 1.0, 5.0, 50.0), entry(4, 2.0, 0.5, 40.0)]
    joint = joint_history([first, second])
    assert [each["epoch"] for each in joint] == [2, 4, 6]  # after 1 the second had no entry
    assert [each["gap"] for each in joint] == [8.0, 3.5, 1.5]  # 3.0 was certified last at 4
    assert [each["objective"] for each in joint] == [80.0, 70.0, 60.0]
    assert [each["time_s"] for each in joint] == pytest.approx([1.2, 2.4, 2.6])
    assert [each["running_gap"] for each in joint] == [2.0, 2.0, 2.0]


def test_what_is_not_certified_yet_is_nan_and_nothing_adds_nothing():
    joint = joint_history([[entry(1, 0.1), entry(2, 0.2, 1.0, 9.0)], [entry(1, 0.1, 2.0, 8.0)], []])
    assert math.isnan(joint[0]["gap"])
    assert joint[1]["gap"] == 3.0
    assert joint_history([[], []]) == []


@pytest.mark.parametrize(
    "model",
    [
        snapml.LogisticRegression(l1_ratio=1.0, multi_class="ovr"),
        snapml.LogisticRegression(multi_class="ovr"),
        snapml.LinearSVC(loss="hinge", tol=1e-4, solver="sdca"),
        snapml.LinearSVC(loss="hinge", tol=1e-4),
        snapml.LinearSVC(penalty="l1"),
    ],
    ids=str,
)
def test_histories_of_classes_end_with_the_certificate_of_all(model):
    model.fit(X, LABELS)
    last = model.history_[-1]
    assert last["objective"] == pytest.approx(model.objective_, rel=1e-12)
    assert last["gap"] == pytest.approx(model.gap_, rel=1e-9, abs=1e-15 * model.objective_)
    assert last["epoch"] == np.max(model.n_iter_)
    least = model.objective_ - model.gap_
    certified = [each for each in model.history_ if not math.isnan(each["objective"])]
    assert all(each["objective"] - each["gap"] <= model.objective_ for each in certified)
    assert all(each["objective"] >= least for each in certified)
    times = [each["time_s"] for each in model.history_]
    assert times == sorted(times)
