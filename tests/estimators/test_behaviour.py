"""How the estimators behave among other code: labels, copies, pipelines, threads, processes."""

import copy
import logging
import pickle
import threading
import time
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from snapml import LinearSVC, LogisticRegression, Ridge

from .conftest import (
    ESTIMATORS,
    ITERATIVE,
    assert_threads_end_at,
    binary_data,
    bulky_example,
    example,
    iris_data,
    live_threads,
    regression_data,
    relative_error,
    run_python,
    unconverged,
)

CLASSIFIERS = {"LogisticRegression": LogisticRegression, "LinearSVC": LinearSVC}


# --- labels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [["ham", "spam"], [False, True], [-1, 1], [1, 2], [0.0, 1.0], [np.int8(3), np.int8(7)]],
    ids=str,
)
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels_come_back_as_they_were_given(estimator, labels):
    X, y = example()
    labels = np.asarray(labels)
    model = CLASSIFIERS[estimator]().fit(X, labels[y])
    expected = CLASSIFIERS[estimator]().fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(X), labels[expected.predict(X)])
    assert set(model.predict(X).tolist()) == set(labels.tolist())


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_python_lists_of_strings_are_labels(estimator):
    X, y = example()
    model = CLASSIFIERS[estimator]().fit(X, ["no" if k == 0 else "yes" for k in y])
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_positive_margin_means_the_second_class(estimator):
    X, y = example()
    model = CLASSIFIERS[estimator]().fit(X, np.array(["a", "b"])[y])
    np.testing.assert_array_equal(model.predict(X) == "b", model.decision_function(X) > 0)


def test_multi_class_svm_predicts_the_class_of_the_largest_margin():
    X, y = iris_data()
    names = np.array(["setosa", "versicolor", "virginica"])
    model = LinearSVC(max_iter=20_000).fit(X, names[y])
    scores = model.decision_function(X)
    assert scores.shape == (150, 3)
    np.testing.assert_array_equal(model.predict(X), names[scores.argmax(axis=1)])
    assert model.score(X, names[y]) > 0.9


# --- fitted attributes -----------------------------------------------------------------------


def test_shapes_of_fitted_attributes_are_scikit_learns():
    X, y = example()
    logistic = LogisticRegression().fit(X, y)
    assert logistic.coef_.shape == (1, 5)
    assert logistic.intercept_.shape == (1,)
    assert logistic.n_iter_.shape == (1,)
    assert logistic.n_iter_.dtype == np.int32
    svm = LinearSVC().fit(X, y)
    assert svm.coef_.shape == (1, 5)
    assert svm.intercept_.shape == (1,)
    assert isinstance(svm.n_iter_, int)
    ridge = Ridge().fit(X, y)
    assert ridge.coef_.shape == (5,)
    assert np.shape(ridge.intercept_) == ()
    assert ridge.n_iter_.shape == (1,)
    several = Ridge().fit(X, np.column_stack([y, y, 1 - y]))
    assert several.coef_.shape == (3, 5)
    assert several.intercept_.shape == (3,)
    assert several.n_iter_.shape == (3,)
    assert several.predict(X).shape == (60, 3)
    one_column = Ridge().fit(X, y[:, None])
    assert one_column.coef_.shape == (5,)
    assert one_column.intercept_.shape == (1,)
    assert one_column.predict(X).shape == (60,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_history_has_one_entry_per_epoch_in_order_of_time(estimator):
    X, y = binary_data("breast_cancer")
    model = ESTIMATORS[estimator](max_iter=5000).fit(X, y)
    history = model.history_
    assert history[-1]["epoch"] == np.max(model.n_iter_)
    first = history[0]["epoch"]
    assert first in (0, 1)  # 0 where the start's certificate is the first entry
    for entry in history:
        assert set(entry) == {"epoch", "time_s", "running_gap", "gap", "objective"}
    assert [entry["epoch"] for entry in history] == list(range(first, first + len(history)))
    times = np.array([entry["time_s"] for entry in history])
    assert times[0] >= 0
    assert np.all(np.diff(times) >= 0)
    assert history[-1]["gap"] == model.gap_
    assert history[-1]["objective"] == model.objective_


def test_history_is_one_list_per_target():
    ridge = Ridge().fit(*regression_data())
    assert [len(h) for h in ridge.history_] == ridge.n_iter_.tolist()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_solver_text_says_what_ran_on_how_many_threads(estimator):
    X, y = bulky_example(8_000, 60)
    for n_threads, text in ((1, "1 thread"), (2, "2 threads with merged replicas")):
        with unconverged():
            model = ITERATIVE[estimator](n_threads=n_threads, max_iter=2).fit(X, y)
        assert model.solver_ == f"dual coordinate ascent, {text}: as asked for"
    with unconverged():
        rows = csr_matrix(X)
        model = ITERATIVE[estimator](n_threads=2, max_iter=2, deterministic=False).fit(rows, y)
    text = "dual coordinate ascent, 2 threads with one shared vector: as asked for"
    assert model.solver_ == text


def test_tags_tell_the_truth():
    logistic, svm, ridge = (get_tags(make()) for make in ESTIMATORS.values())
    for tags in (logistic, svm, ridge):
        assert tags.input_tags.sparse
        assert not tags.input_tags.allow_nan
        assert tags.target_tags.required
    assert logistic.classifier_tags.multi_class
    assert not get_tags(LogisticRegression(solver="liblinear")).classifier_tags.multi_class
    assert svm.classifier_tags.multi_class
    assert not svm.target_tags.multi_output
    assert ridge.target_tags.multi_output
    assert ridge.regressor_tags is not None


# --- probabilities ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_positive_and_add_up_to_one(dtype):
    X, y = example()
    model = LogisticRegression().fit(X.astype(dtype), y)
    proba = model.predict_proba(X.astype(dtype))
    assert proba.shape == (60, 2)
    assert np.all(proba > 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(model.predict_log_proba(X.astype(dtype)), np.log(proba), rtol=1e-4)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, model.predict(X.astype(dtype)) == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_probabilities_are_finite_at_margins_of_ten_thousand(dtype):
    X, y = example()
    model = LogisticRegression(fit_intercept=False).fit(X.astype(dtype), y)
    far = np.outer([-1e4, 1e4], model.coef_[0] / np.sum(model.coef_[0] ** 2)).astype(dtype)
    margins = model.decision_function(far)
    np.testing.assert_allclose(margins, [-1e4, 1e4], rtol=1e-5)
    log_proba = model.predict_log_proba(far)
    assert np.all(np.isfinite(log_proba))
    np.testing.assert_allclose(log_proba[0], [0, -1e4], rtol=1e-5)
    proba = model.predict_proba(far)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


# --- copies ----------------------------------------------------------------------------------


def through_joblib(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    return joblib.load(tmp_path / "model.joblib")


COPIES = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "pickle protocol 2": lambda model, _: pickle.loads(pickle.dumps(model, protocol=2)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "copy": lambda model, _: copy.copy(model),
    "joblib": through_joblib,
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_copy_predicts_the_same_and_has_the_same_certificate(estimator, kind, tmp_path):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(X, y)
    other = COPIES[kind](model, tmp_path)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.gap_ == model.gap_
    np.testing.assert_equal(other.history_, model.history_)
    assert other.get_params() == model.get_params()


@pytest.mark.parametrize("make", [*ESTIMATORS.values()])
def test_clone_has_the_parameters_and_nothing_fitted(make):
    X, y = example()
    model = make(tol=1e-3, max_iter=77, random_state=5, n_threads=1).fit(X, y)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "coef_")
    np.testing.assert_array_equal(fresh.fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("make", [*ESTIMATORS.values()])
def test_parameters_make_the_round_trip_untouched(make):
    given = {name: object() for name in make().get_params()}
    model = make(**given)
    assert model.get_params() == given
    other = make().set_params(**given)
    assert other.get_params() == given
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(no_such_parameter=1)


@pytest.mark.parametrize("make", [*ESTIMATORS.values()])
def test_fit_changes_no_parameter(make):
    X, y = example()
    model = make()
    before = model.get_params()
    assert model.fit(X, y) is model
    assert model.get_params() == before


def test_warm_started_model_survives_pickling():
    X, y = bulky_example()
    model = LogisticRegression(warm_start=True, tol=1e-3).fit(X, y)
    other = pickle.loads(pickle.dumps(model)).set_params(C=1.1).fit(X, y)
    np.testing.assert_array_equal(other.coef_, model.set_params(C=1.1).fit(X, y).coef_)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_sparsify_and_densify_change_nothing_but_the_container(estimator):
    X, y = example()
    X[:, 3] = 0
    model = CLASSIFIERS[estimator]().fit(X, y)
    coef, scores = model.coef_.copy(), model.decision_function(X)
    assert model.sparsify() is model
    assert issparse(model.coef_)
    assert model.coef_.nnz == 4
    np.testing.assert_array_equal(model.decision_function(X), scores)
    np.testing.assert_array_equal(model.predict(csr_matrix(X)), model.predict(X))
    assert model.densify() is model
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_sparsified_model_can_be_fitted_again(estimator):
    X, y = example()
    model = CLASSIFIERS[estimator]().fit(X, y)
    coef = model.coef_.copy()
    np.testing.assert_array_equal(model.sparsify().fit(X, y).coef_, coef)


# --- seeds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_same_seed_same_bits(estimator, n_threads, container):
    X, y = bulky_example(30_000)
    X = container(X)
    make = partial(ITERATIVE[estimator], n_threads=n_threads, max_iter=4)
    with unconverged():
        models = [make(random_state=seed).fit(X, y) for seed in (3, 3, 4, None, None)]
    first, again, _, default, default_again = (model.coef_ for model in models)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(default, default_again)
    # Of so few epochs the zero model may be the better one, for every seed.
    first, again, other, default, default_again = (
        [entry["running_gap"] for entry in model.history_] for model in models
    )
    assert first == again
    assert default == default_again
    assert first != other
    assert first != default


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_another_seed_gives_the_same_answer_within_the_gap(estimator):
    X, y = bulky_example(30_000)
    models = [
        ITERATIVE[estimator](random_state=seed, tol=1e-3, max_iter=1000).fit(X, y)
        for seed in (0, 1, 2)
    ]
    for model in models[1:]:
        distance = np.linalg.norm(np.ravel(model.coef_ - models[0].coef_))
        # ||w - w'|| <= sqrt(2 gap) + sqrt(2 gap'), as the objective is strongly convex.
        assert 0 < distance <= np.sqrt(2 * model.gap_) + np.sqrt(2 * models[0].gap_)


@pytest.mark.parametrize("seed", [np.random.RandomState(0), np.int64(7)])
def test_any_seed_of_scikit_learn_will_do(seed):
    assert LogisticRegression(random_state=seed).fit(*example()).coef_.shape == (1, 5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_global_random_state_is_neither_read_nor_moved(estimator):
    X, y = bulky_example(30_000)
    coefs = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002 - the global state is the subject
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        with unconverged():
            coefs.append(ESTIMATORS[estimator](max_iter=2).fit(X, y).coef_)
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.testing.assert_array_equal(*coefs)


def test_asynchronous_fits_meet_the_tolerance_every_time():
    X, y = bulky_example(20_000, 60, n_informative=3)
    X = csr_matrix(X)
    for _ in range(8):
        model = LogisticRegression(deterministic=False, n_threads=2, tol=1e-2, max_iter=200)
        model.fit(X, y)
        assert model.gap_ <= 1e-2 * model.objective_
        assert np.all(np.isfinite(model.coef_))


# --- warm start ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "sdca"])
def test_warm_start_on_the_same_data_needs_fewer_epochs(solver):
    X, y = bulky_example()
    model = LogisticRegression(solver=solver, warm_start=True, tol=1e-4, max_iter=1000).fit(X, y)
    cold = model.n_iter_[0]
    model.fit(X, y)
    assert model.n_iter_[0] <= max(1, cold // 4)
    assert model.gap_ <= 1e-4 * model.objective_


@pytest.mark.parametrize("solver", ["auto", "sdca"])
def test_warm_start_along_a_path_of_C_needs_fewer_epochs_and_gives_the_same_models(solver):
    X, y = bulky_example()
    path = [0.1, 0.13, 0.17, 0.22]
    options = {"solver": solver, "tol": 1e-4, "max_iter": 2000}
    warm = LogisticRegression(warm_start=True, **options)
    warm_epochs, cold_epochs = [], []
    for C in path:
        warm.set_params(C=C).fit(X, y)
        cold = LogisticRegression(C=C, **options).fit(X, y)
        warm_epochs.append(warm.n_iter_[0])
        cold_epochs.append(cold.n_iter_[0])
        distance = np.linalg.norm(warm.coef_ - cold.coef_)
        assert distance <= np.sqrt(2 * warm.gap_) + np.sqrt(2 * cold.gap_)
    assert sum(warm_epochs[1:]) < sum(cold_epochs[1:])


def test_warm_start_on_another_number_of_rows_starts_afresh():
    X, y = bulky_example()
    warm = LogisticRegression(solver="sdca", warm_start=True, tol=1e-3).fit(X, y)
    warm.fit(X[:-1000], y[:-1000])
    cold = LogisticRegression(solver="sdca", tol=1e-3).fit(X[:-1000], y[:-1000])
    np.testing.assert_array_equal(warm.coef_, cold.coef_)


@pytest.mark.parametrize("change", ["columns", "labels", "dtype", "layout", "intercept", "weights"])
def test_warm_start_on_changed_data_still_ends_within_tol(change):
    X, y = bulky_example(30_000)
    warm = LogisticRegression(warm_start=True, tol=1e-3, max_iter=1000).fit(X, y)
    weights = None
    if change == "columns":
        X = X[:, ::-2]
    elif change == "labels":
        y = 1 - y
    elif change == "dtype":
        X = X.astype(np.float64)
    elif change == "layout":
        X = csr_matrix(X)
    elif change == "intercept":
        warm.set_params(fit_intercept=False)
    else:
        weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    warm.fit(X, y, weights)
    cold = clone(warm).set_params(warm_start=False).fit(X, y, weights)
    assert warm.gap_ <= 1e-3 * warm.objective_
    assert warm.coef_.dtype == X.dtype
    distance = np.linalg.norm(warm.coef_ - cold.coef_)
    assert distance <= np.sqrt(2 * warm.gap_) + np.sqrt(2 * cold.gap_)


def test_without_warm_start_a_second_fit_gives_the_bits_of_the_first():
    X, y = bulky_example(30_000)
    model = LogisticRegression(tol=1e-3).fit(X, y)
    first = model.coef_.copy()
    np.testing.assert_array_equal(model.fit(X, y).coef_, first)


# --- stopping and warnings -------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_convergence_warning_names_gap_tol_epochs_and_one_hint(estimator):
    X, y = binary_data("breast_cancer")
    with pytest.warns(ConvergenceWarning) as seen:
        model = ITERATIVE[estimator](max_iter=3, tol=1e-7).fit(X, y)
    assert len(seen) == 1
    text = str(seen[0].message)
    assert f"{model.gap_ / model.objective_:.2e}" in text
    assert "tol=1e-07" in text
    assert "3 reads of the data" in text
    assert text.count("raise max_iter") + text.count("scale the features") == 1
    assert seen[0].filename == __file__


def test_convergence_warning_of_badly_scaled_data_says_so():
    X, y = example()
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        LinearSVC(max_iter=1).fit(X * 100, y)


@pytest.mark.parametrize("max_iter", [0, 1])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_zero_and_one_epoch_give_a_model_with_its_certificate(estimator, max_iter):
    X, y = example()
    with pytest.warns(ConvergenceWarning):
        model = ITERATIVE[estimator](max_iter=max_iter).fit(X, y)
    assert np.all(model.n_iter_ == max_iter)
    assert [entry["epoch"] for entry in model.history_[-1:]] in ([max_iter], [])
    assert 0 < model.gap_ <= model.objective_ * (1 + 1e-12)
    zero = ITERATIVE[estimator](max_iter=0)
    with unconverged():
        zero.fit(X, y)
    assert not np.any(zero.coef_)
    assert model.objective_ <= zero.objective_ * (1 + 1e-12)
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize("solver", ["auto", "sdca"])
def test_tol_zero_goes_to_rounding_level_and_warns(solver):
    X, y = example()
    with pytest.warns(ConvergenceWarning, match="tol=0"):
        model = LogisticRegression(solver=solver, tol=0, max_iter=37).fit(X, y)
    if solver == "sdca":
        assert model.n_iter_[0] == 37
    else:  # ends where no step leads further down
        assert model.n_iter_[0] <= 37
        assert model.gap_ <= 1e-13 * model.objective_


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_quasi_newton_method_certifies_the_start_without_an_iteration(estimator, fit_intercept):
    X, y = example()
    make = partial(ESTIMATORS[estimator], solver="pqn", fit_intercept=fit_intercept)
    with pytest.warns(ConvergenceWarning):
        model = make(max_iter=0).fit(X, y)
    assert np.all(model.n_iter_ == 0)
    assert 0 < model.gap_ <= model.objective_ * (1 + 1e-12)
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fit_warns_about_nothing_when_all_is_well(estimator):
    X, y = example()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ESTIMATORS[estimator]().fit(X, y)


def test_penalty_l2_is_accepted_with_scikit_learns_future_warning():
    X, y = example()
    with pytest.warns(FutureWarning, match="penalty") as seen:
        model = LogisticRegression(penalty="l2").fit(X, y)
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)


@pytest.mark.parametrize("n_jobs", [1, -1, 4])
def test_n_jobs_is_accepted_with_scikit_learns_future_warning(n_jobs):
    X, y = example()
    with pytest.warns(FutureWarning, match="n_jobs") as seen:
        model = LogisticRegression(n_jobs=n_jobs).fit(X, y)
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (partial(LinearSVC, multi_class="crammer_singer"), "crammer_singer"),
    ],
)
def test_problem_not_solved_yet_raises_not_implemented_and_names_it(make, says):
    with pytest.raises(NotImplementedError, match=says):
        make().fit(*example())


# --- logging ---------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_verbose_logs_to_the_snapml_logger_and_prints_nothing(estimator, caplog, capfd):
    X, y = example()
    with caplog.at_level(logging.INFO, logger="snapml"):
        model = ESTIMATORS[estimator](verbose=1).fit(X, y)
    lines = [r.getMessage() for r in caplog.records if r.name == "snapml"]
    assert all(r.name.split(".")[0] == "snapml" for r in caplog.records)
    assert len(lines) >= np.max(model.n_iter_)
    assert any("certified gap" in line for line in lines)
    assert capfd.readouterr().out == ""


def test_verbose_k_logs_every_kth_epoch(caplog):
    X, y = example()
    with caplog.at_level(logging.INFO, logger="snapml"):
        model = LogisticRegression(verbose=10).fit(X, y)
    epochs = [r.getMessage() for r in caplog.records if "gap about" in r.getMessage()]
    assert len(epochs) == model.n_iter_[0] // 10


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_silent_fit_is_silent(estimator, caplog, capfd):
    X, y = example()
    with caplog.at_level(logging.INFO, logger="snapml"):
        ESTIMATORS[estimator]().fit(X, y)
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_verbose_shows_lines_on_stderr_where_nobody_set_up_logging():
    out = run_python(
        """
        import contextlib, io
        with contextlib.redirect_stderr(io.StringIO()) as err:
            import numpy as np
            from snapml import Ridge
            Ridge(verbose=1, solver="sag").fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
            Ridge(verbose=1, solver="sag").fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
        lines = err.getvalue().splitlines()
        print(sum(line.startswith("snapml: epoch 1:") for line in lines))
        """
    )
    # Of either fit: the running gap, and perhaps a certificate after the first epoch.
    assert out.strip() in ("2", "4")


# --- scikit-learn's tools --------------------------------------------------------------------


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_pipeline_in_grid_search_finds_the_best_C(estimator):
    X, y = binary_data("breast_cancer")
    pipeline = make_pipeline(StandardScaler(), CLASSIFIERS[estimator](max_iter=5000, tol=1e-3))
    grid = {f"{estimator.lower()}__C": [1e-5, 1e-2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {f"{estimator.lower()}__C": 1e-2}
    assert search.score(X, y) > 0.95


def test_cross_val_score_of_ridge_is_scikit_learns():
    from sklearn.linear_model import Ridge as SklearnRidge

    X, Y = regression_data()
    ours = cross_val_score(Ridge(), X, Y[:, 0], cv=4)
    np.testing.assert_allclose(ours, cross_val_score(SklearnRidge(), X, Y[:, 0], cv=4), atol=1e-4)


def test_calibrated_svm_gives_probabilities():
    X, y = binary_data("breast_cancer")
    model = CalibratedClassifierCV(LinearSVC(max_iter=5000), cv=3).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.score(X, y) > 0.95


def test_one_vs_rest_gives_three_classes_to_logistic_regression():
    from sklearn.linear_model import LogisticRegression as SklearnLogistic

    X, y = iris_data()
    ours = OneVsRestClassifier(LogisticRegression(tol=1e-12, max_iter=20_000)).fit(X, y)
    theirs = OneVsRestClassifier(SklearnLogistic(tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sample_weight_is_routed_through_a_search_over_a_pipeline(estimator):
    X, y = example(120)
    weights = (np.arange(120) % 3 > 0).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = ESTIMATORS[estimator](max_iter=10_000)
        model.set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        name = estimator.lower()
        parameter = "alpha" if estimator == "Ridge" else "C"
        search = GridSearchCV(pipeline, {f"{name}__{parameter}": [0.5, 1.0]}, cv=3)
        search.fit(X, y, sample_weight=weights)
        weighted = search.best_estimator_[-1].coef_
        scaler = StandardScaler().fit(X, sample_weight=weights)
    best = search.best_params_[f"{name}__{parameter}"]
    direct = ESTIMATORS[estimator](max_iter=10_000, **{parameter: best})
    direct.fit(scaler.transform(X), y, sample_weight=weights)
    assert relative_error(weighted, direct.coef_) <= 1e-6
    ignored = clone(direct).fit(scaler.transform(X), y)
    assert relative_error(ignored.coef_, direct.coef_) > 1e-3


# --- threads and processes -------------------------------------------------------------------


def fit_one(make, X, y, seed):
    # tol is met whenever max_iter is: warning filters are not safe to change in threads.
    return make(random_state=seed, max_iter=4, tol=1e9, n_threads=2).fit(X, y).coef_


@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parallel_fits_of_joblib_give_the_bits_of_sequential_ones(estimator, backend):
    X, y = bulky_example(12_000)
    make = ESTIMATORS[estimator]
    sequential = [fit_one(make, X, y, seed) for seed in range(4)]
    parallel = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(fit_one)(make, X, y, seed) for seed in range(4)
    )
    for one, other in zip(sequential, parallel, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
def test_concurrent_fits_in_threads_give_the_bits_of_sequential_ones(container):
    X, y = bulky_example(30_000)
    X = container(X)
    jobs = [(make, seed) for make in ESTIMATORS.values() for seed in (0, 1)]
    sequential = [fit_one(make, X, y, seed) for make, seed in jobs]
    concurrent, n_before = [None] * len(jobs), live_threads()

    def work(k):
        make, seed = jobs[k]
        concurrent[k] = fit_one(make, X, y, seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for one, other in zip(sequential, concurrent, strict=True):
        np.testing.assert_array_equal(one, other)
    assert_threads_end_at(n_before)


def test_one_model_predicts_in_many_threads_at_once():
    X, y = bulky_example(30_000)
    model = LogisticRegression(tol=1e-2, n_threads=2).fit(X, y)
    expected = model.decision_function(X)
    results = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(model.decision_function)(X) for _ in range(8)
    )
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_fit_releases_the_interpreter_lock():
    X, y = bulky_example(60_000)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    watcher = threading.Thread(target=tick)
    watcher.start()
    start = time.perf_counter()
    with unconverged():
        LinearSVC(max_iter=200, tol=0, n_threads=1).fit(X, y)
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    assert seconds > 0.05  # long enough to tell
    assert np.max(np.diff(ticks)) < 0.8 * seconds


def test_fit_leaves_no_thread_behind():
    X, y = bulky_example(30_000)
    before = live_threads()
    for make in ESTIMATORS.values():
        with unconverged():
            model = make(max_iter=3, n_threads=2).fit(X, y)
        model.predict(X)
        assert_threads_end_at(before)


def test_threadpoolctl_limits_the_threads_of_a_fit():
    from threadpoolctl import threadpool_limits

    X, y = bulky_example(30_000)
    with unconverged():
        with threadpool_limits(limits=1, user_api="snapml"):
            limited = LogisticRegression(max_iter=2, n_threads=2).fit(X, y)
        free = LogisticRegression(max_iter=2, n_threads=2).fit(X, y)
    assert ", 1 thread:" in limited.solver_
    assert ", 2 threads" in free.solver_


@pytest.mark.parametrize("n_threads", [1, 2])
def test_fit_works_after_fork_and_during_fits_of_the_parent(n_threads):
    out = run_python(
        f"""
        import os, sys, threading, warnings
        import numpy as np
        from snapml import LinearSVC, LogisticRegression, Ridge

        if not hasattr(os, "fork"):
            print("same bits")
            sys.exit()
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20_000, 50), dtype=np.float32)
        y = (X[:, 0] > 0).astype(int)
        makes = [LogisticRegression, LinearSVC, Ridge]
        def coefs():
            return [m(max_iter=3, n_threads={n_threads}).fit(X, y).coef_ for m in makes]
        expected = coefs()
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                coefs()
        worker = threading.Thread(target=busy)
        worker.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                same = all(np.array_equal(a, b) for a, b in zip(expected, coefs()))
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        worker.join()
        assert all(np.array_equal(a, b) for a, b in zip(expected, coefs()))
        print("same bits")
        """,
        timeout_s=60,
    )
    assert out.strip() == "same bits"


def test_child_forked_during_a_fit_keeps_blas_on_one_thread():
    """A lock of a product on several threads stays taken there; one thread takes none."""
    out = run_python(
        """
        import os, threading
        import numpy, scipy.linalg, threadpoolctl
        from snapml.solvers.threads import limit_blas_threads

        if not hasattr(os, "fork"):
            print("one")
            os._exit(0)
        def threads():
            return {one["num_threads"] for one in threadpoolctl.threadpool_info()
                    if one["user_api"] == "blas"}
        threadpoolctl.threadpool_limits(2, user_api="blas")
        before, is_inside, may_end = threads(), threading.Event(), threading.Event()
        def fit():
            with limit_blas_threads(2):
                is_inside.set()
                may_end.wait()
        worker = threading.Thread(target=fit)
        worker.start()
        is_inside.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if threads() == {1} else 1)
        status = os.waitpid(child, 0)[1]
        may_end.set()
        worker.join()
        quiet = os.fork()
        if quiet == 0:
            os._exit(0 if threads() == before else 1)
        assert threads() == before and os.waitpid(quiet, 0)[1] == 0
        print("one" if status == 0 else "several")
        """
    )
    assert out.strip() == "one"


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_resident_memory_is_flat_over_many_fits(estimator):
    live_threads()  # skips where there is no /proc
    out = run_python(
        f"""
        import warnings
        import numpy as np
        from scipy.sparse import csr_matrix
        from snapml import {estimator}

        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.standard_normal((6000, 40), dtype=np.float32)
        y = (X[:, 0] > 0).astype(int)
        rows = csr_matrix(X)
        bad = X.copy()
        bad[3, 3] = np.nan
        def resident():
            text = open("/proc/self/status").read()
            return 1024 * int(text.split("VmRSS:")[1].split()[0])
        def once(k):
            model = {estimator}(max_iter=2, n_threads=1 + k % 2, tol=0)
            model.fit(rows if k % 3 else X, y).predict(X)
            try:
                model.fit(bad, y)
            except ValueError:
                pass
        for k in range(40):
            once(k)
        before = resident()
        for k in range(75):
            once(k)
        print(resident() - before, X.nbytes)
        """,
        timeout_s=120,
    )
    growth, n_bytes = map(int, out.split())
    assert growth < n_bytes / 2  # a leak of a 75th of X with each good and bad fit would show


def test_warm_start_from_a_free_intercept_serves_every_other_intercept():
    """The multiplier of a free intercept means nothing to a problem that has none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + 2.0 + rng.normal(size=300) > 0).astype(int)
    for changed in ({"solver": "liblinear"}, {"fit_intercept": False}):
        model = LogisticRegression(warm_start=True, max_iter=500).fit(X, y)
        assert abs(model.intercept_[0]) > 0.5
        model.set_params(**changed).fit(X, y)
        cold = LogisticRegression(max_iter=500, **changed).fit(X, y)
        assert model.gap_ <= model.tol * model.objective_
        np.testing.assert_allclose(model.coef_, cold.coef_, rtol=1e-3)
        np.testing.assert_allclose(model.intercept_, cold.intercept_, rtol=1e-3)
