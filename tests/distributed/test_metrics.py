"""Metrics over ranks against scikit-learn's on the gathered rows, without MPI."""

import threading
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning

from snapml.distributed.mpi import metric_sums, ranking
from snapml.distributed.mpi.ranking import CountedScores

from .ranks import on_ranks


def cut(cuts, *arrays):
    """Return the parts of arrays between sorted cuts, which may be empty."""
    bounds = [0, *sorted(cuts), len(arrays[0])]
    return [
        tuple(None if a is None else a[low:high] for a in arrays) for low, high in pairwise(bounds)
    ]


def over_ranks(metric, parts, **options):
    """Return the one result that all ranks have."""

    def work(communicator):
        *arrays, weights = parts[communicator.rank]
        return metric(communicator, *arrays, sample_weight=weights, **options)

    found = on_ranks(len(parts), work)
    errors = [result for result in found if isinstance(result, Exception)]
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    for result in found:
        assert_array_equal(result, found[0])
    return found[0]


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.integers(0, 3)),
                  min_size=2, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    block=st.integers(1, 5),
    is_weighted=st.booleans(),
)  # fmt: skip
@example(rows=[(True, 0, 1), (False, 0, 1)], cuts=[0, 1, 2], block=1, is_weighted=False)
@example(rows=[(True, 1, 0), (True, 0, 2), (False, 1, 1)], cuts=[2], block=2, is_weighted=True)
def test_area_is_that_of_the_gathered_scores(rows, cuts, block, is_weighted):
    y, scores, weights = (np.array(column) for column in zip(*rows, strict=True))
    y = np.where(y, "yes", "no")
    weights = weights.astype(float) if is_weighted else None
    kept = np.ones(len(y), bool) if weights is None else weights > 0
    if len(set(y[kept].tolist())) < 2:
        return
    expected = metrics.roc_auc_score(y, scores, sample_weight=weights)
    parts = cut([min(k, len(y)) for k in cuts], y, scores / 4, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_BLOCK", block)
        assert over_ranks(metric_sums.roc_area, parts) == pytest.approx(expected, rel=1e-13)


def test_area_of_many_scores_whichever_class_is_rare():
    rng = np.random.default_rng(0)
    for share in (0.01, 0.99):
        y = (rng.random(20_000) < share).astype(int)
        scores = np.round(rng.normal(size=20_000) + y, 2).astype(np.float32)
        weights = rng.random(20_000)
        for own in (None, weights):
            expected = metrics.roc_auc_score(y, scores, sample_weight=own)
            found = over_ranks(metric_sums.roc_area, cut([5000, 5000, 12_345], y, scores, own))
            assert found == pytest.approx(expected, rel=1e-12)


def test_counted_scores_of_the_same_value_are_one():
    counted = CountedScores.of(np.array([1.0, -0.0, 1.0, 0.0]), None)
    assert_array_equal(counted.scores, [0.0, 1.0])
    assert_array_equal(counted.weights, [2.0, 2.0])
    assert_array_equal(counted.below(np.array([-1.0, 0.0, 0.5, 1.0, 2.0])), [0, 1, 2, 3, 4])


@pytest.fixture(params=[1, 2, 3, 4])
def cuts(request):
    """Return where ranks' rows begin; the second of three has none."""
    return [[], [50], [50, 50], [10, 50, 199]][request.param - 1]


def data(n_classes):
    """Return labels sorted, so that most ranks miss classes, decisions, and weights or None."""
    rng = np.random.default_rng(n_classes)
    y = np.sort(rng.integers(n_classes, size=200))
    decision = rng.normal(size=(200, n_classes)) + 1.5 * np.eye(n_classes)[y]
    return np.array(["a", "b", "c", "d"])[y], decision, rng.random(200)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_classification_metrics_are_scikit_learns(cuts, n_classes, is_weighted):
    y, decision, weights = data(n_classes)
    weights = weights if is_weighted else None
    proba = np.exp(decision) / np.exp(decision).sum(axis=1, keepdims=True)
    predicted = np.unique(y)[decision.argmax(axis=1)]
    flat = decision[:, 1] - decision[:, 0] if n_classes == 2 else decision
    for normalize in (True, False):
        options = {"normalize": normalize}
        for name, ours, values in (
            ("accuracy_score", metric_sums.accuracy, predicted),
            ("log_loss", metric_sums.logistic, proba),
        ):
            extra = {"labels": None} if name == "log_loss" else {}
            found = over_ranks(ours, cut(cuts, y, values, weights), **options, **extra)
            expected = getattr(metrics, name)(y, values, sample_weight=weights, **options)
            assert found == pytest.approx(expected, rel=1e-13)
    found = over_ranks(metric_sums.hinge, cut(cuts, y, flat, weights), labels=None)
    expected = metrics.hinge_loss(y, flat, sample_weight=weights)
    assert found == pytest.approx(expected, rel=1e-13)


def test_labels_may_name_classes_that_no_rank_has(cuts):
    y, decision, weights = data(3)
    proba = np.exp(decision) / np.exp(decision).sum(axis=1, keepdims=True)
    is_present = y != "b"
    labels = ["a", "b", "c"]
    for name, ours, values in (
        ("log_loss", metric_sums.logistic, proba),
        ("hinge_loss", metric_sums.hinge, decision),
    ):
        rows = [array[is_present] for array in (y, values, weights)]
        extra = {"normalize": True} if name == "log_loss" else {}
        found = over_ranks(ours, cut([c // 2 for c in cuts], *rows), labels=labels, **extra)
        expected = getattr(metrics, name)(*rows[:2], labels=labels, sample_weight=rows[2])
        assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("multioutput", ["raw_values", "uniform_average", [0.2, 0.8]])
def test_squared_error_is_scikit_learns(cuts, multioutput):
    rng = np.random.default_rng(0)
    for shape in [(200, 2), (200,)]:
        if shape == (200,) and isinstance(multioutput, list):
            continue
        y, predicted, weights = rng.normal(size=shape), rng.normal(size=shape), rng.random(200)
        for own in (None, weights):
            found = over_ranks(
                metric_sums.squared_error, cut(cuts, y, predicted, own), multioutput=multioutput
            )
            expected = metrics.mean_squared_error(
                y, predicted, sample_weight=own, multioutput=multioutput
            )
            assert_allclose(found, expected, rtol=1e-13)
            assert np.shape(found) == np.shape(expected)


def test_weights_that_only_some_ranks_have_are_ones_on_the_others():
    parts = [([1, 0], [1, 1], None), ([1, 1], [0, 1], [0.5, 3.0])]
    found = over_ranks(metric_sums.accuracy, parts, normalize=True)
    assert found == pytest.approx(4.0 / 5.5)


@pytest.mark.parametrize("metric", ["accuracy", "logistic", "hinge", "roc_area"])
def test_a_rank_whose_rows_have_no_weight_is_no_error(metric):
    y, values, weights = (
        np.array([0, 1, 1, 0]),
        np.array([0.2, 0.4, 0.7, 0.1]),
        [0.0, 0.0, 2.0, 1.0],
    )
    values = values if metric != "accuracy" else np.array([1, 1, 0, 0])
    options = {"accuracy": {"normalize": True}, "hinge": {"labels": None},
               "logistic": {"normalize": True, "labels": None}}.get(metric, {})  # fmt: skip
    whole = over_ranks(getattr(metric_sums, metric), [(y[2:], values[2:], weights[2:])], **options)
    parts = [(y[:2], values[:2], weights[:2]), (y[2:], values[2:], weights[2:])]
    assert over_ranks(getattr(metric_sums, metric), parts, **options) == whole


def test_one_class_on_all_ranks_is_as_in_scikit_learn():
    parts = [([1, 1], [0.2, 0.9], None), ([], [], None), ([1], [0.5], None)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        assert np.isnan(over_ranks(metric_sums.roc_area, parts))
    with pytest.raises(ValueError, match=r"y_true contains only one label \(1\)"):
        over_ranks(metric_sums.logistic, parts, normalize=True, labels=None)
    found = over_ranks(metric_sums.hinge, parts, labels=None)
    assert found == pytest.approx(metrics.hinge_loss([1, 1, 1], [0.2, 0.9, 0.5]))


def test_a_class_without_weight_has_no_area():
    parts = [([1, 0], [0.2, 0.9], [1.0, 0.0])] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        assert np.isnan(over_ranks(metric_sums.roc_area, parts))


@pytest.mark.parametrize(
    ("metric", "parts", "options", "error", "message"),
    [
        ("roc_area", [([0, 1], [1, 2], None), ([2], [1], None)], {}, ValueError,
         r"expected two classes, got 3: \[0, 1, 2\]"),
        ("accuracy", [([0, 1], [1, 1], None), (["a"], ["b"], None)], {"normalize": True},
         ValueError, "same kind of labels .*, got numbers on rank 0 and text on rank 1"),
        ("accuracy", [([0, 1], [1, 1], [0.0, 0.0])] * 2, {"normalize": True},
         ValueError, "Sample weights must contain at least one non-zero number"),
        ("accuracy", [([0, 1], [1], None)], {"normalize": True}, ValueError, "inconsistent number"),
        ("accuracy", [([], [], None)] * 2, {"normalize": True}, ValueError, "0 sample|empty"),
        ("squared_error", [([1.0], [2.0], None), ([[1.0, 2.0]], [[2.0, 1.0]], None)],
         {"multioutput": "raw_values"}, ValueError, r"same number of outputs, got \[1, 1, 2, 2\]"),
        ("squared_error", [([1.0], [np.nan], None)], {"multioutput": "raw_values"}, ValueError,
         "Input y_pred contains NaN"),
        ("hinge", [([0, 1, 2], np.ones((3, 2)), None)], {"labels": None}, ValueError,
         r"pred_decision: expected shape \(3, 3\), .*got \(3, 2\)"),
        ("hinge", [([0, 1, 3], np.ones((3, 3)), None)], {"labels": [0, 1, 2]}, ValueError,
         r"y_true: expected labels among \[0, 1, 2\]"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(metric, parts, options, error, message):
    with pytest.raises(error, match=message):
        over_ranks(getattr(metric_sums, metric), parts, **options)
