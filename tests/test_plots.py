"""What plots draw: numbers, names, scales and pixels."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from snapml import (
    DecisionTreeClassifier,
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    lasso_path,
)
from snapml.data import make_click_log
from snapml.model_selection import GridSearchCV
from snapml.plots import (
    ClickCalibrationDisplay,
    CoefficientsDisplay,
    ConvergenceDisplay,
    RegularizationPathDisplay,
)

matplotlib = pytest.importorskip("matplotlib")
X, Y = load_diabetes(return_X_y=True, as_frame=True)
LABELS = (Y > 140).astype(int)


@pytest.fixture(autouse=True)
def _closed_figures():
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def n_drawn_pixels(figure):
    figure.canvas.draw()
    image = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    return int((image != 255).any(axis=2).sum())


def test_convergence_shows_every_certificate_of_the_fit():
    model = Lasso(alpha=0.1, tol=1e-10).fit(X, Y)
    shown = ConvergenceDisplay.from_estimator(model, color="C3")
    times, gaps = shown.line_.get_data()
    np.testing.assert_array_equal(times, [entry["time_s"] for entry in model.history_])
    np.testing.assert_allclose(gaps[-1], model.gap_ / model.objective_, rtol=1e-6)
    assert shown.ax_.get_yscale() == "log"
    assert (shown.ax_.get_xlabel(), shown.ax_.get_ylabel()) == (
        "seconds",
        "certified gap / objective",
    )
    assert shown.ax_.lines[1].get_ydata()[0] == 1e-10
    before = n_drawn_pixels(shown.figure_)
    shown.line_.remove()
    assert n_drawn_pixels(shown.figure_) < before - 50


def test_coefficients_are_bars_by_size_with_the_columns_names():
    model = Ridge(alpha=0.1).fit(X, Y)
    shown = CoefficientsDisplay.from_estimator(model, n_largest=4)
    largest = np.argsort(-np.abs(model.coef_))[:4]
    np.testing.assert_array_equal(shown.bars_.datavalues[::-1], model.coef_[largest])
    names = [label.get_text() for label in shown.ax_.get_yticklabels()]
    assert names[::-1] == [X.columns[k] for k in largest]
    before = n_drawn_pixels(shown.figure_)
    shown.bars_.remove()
    assert n_drawn_pixels(shown.figure_) < before - 1000


def test_plots_are_drawn_where_they_are_told_to():
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2)
    model = LogisticRegression().fit(X.to_numpy(), LABELS)
    assert ConvergenceDisplay.from_estimator(model, ax=left).figure_ is figure
    shown = CoefficientsDisplay.from_estimator(model, ax=right)
    assert shown.ax_ is right
    assert "x0" in {label.get_text() for label in right.get_yticklabels()}


def test_scikit_learns_calibration_display_takes_our_models():
    shown = CalibrationDisplay.from_estimator(LogisticRegression().fit(X, LABELS), X, LABELS)
    assert len(shown.line_.get_xdata()) >= 3


@pytest.mark.parametrize("ratios", [None, (0.0, 0.5)])
@pytest.mark.parametrize("is_legacy", [False, True])
def test_paths_of_cross_validation_are_means_over_folds(ratios, is_legacy):
    given = {} if ratios is None else {"l1_ratios": ratios, "solver": "saga"}
    model = LogisticRegressionCV(Cs=5, cv=3, use_legacy_attributes=is_legacy, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model.fit(X, LABELS)
        model.use_legacy_attributes = False
        plain = model.fit(X, LABELS).coefs_paths_
        model.use_legacy_attributes = is_legacy
        model.fit(X, LABELS)
    shown = RegularizationPathDisplay.from_estimator(model, n_labels=3)
    chosen = float(np.ravel(model.l1_ratio_)[0])
    which = 0 if ratios is None else ratios.index(chosen)
    expected = plain[:, which, :, 0, :10].mean(axis=0)
    np.testing.assert_allclose([line.get_ydata() for line in shown.lines_], expected.T, rtol=1e-6)
    np.testing.assert_array_equal(shown.lines_[0].get_xdata(), model.Cs_)
    texts = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    largest = np.argsort(-np.abs(expected).max(axis=0))[:3]
    assert texts == [*(X.columns[k] for k in largest), "chosen C"]
    assert shown.ax_.lines[-1].get_xdata()[0] == np.ravel(model.C_)[0]
    assert (shown.ax_.get_xscale(), shown.ax_.get_xlabel()) == ("log", "C")
    before = n_drawn_pixels(shown.figure_)
    for line in shown.lines_:
        line.remove()
    assert n_drawn_pixels(shown.figure_) < before - 500


def test_paths_of_lasso_are_drawn_as_they_come():
    alphas, coefs, _ = lasso_path(X - X.mean(), Y - Y.mean())
    shown = RegularizationPathDisplay(alphas, coefs, X.columns).plot()
    np.testing.assert_array_equal(shown.lines_[2].get_ydata(), coefs[2])
    assert len(shown.ax_.get_legend().get_texts()) == 10
    assert RegularizationPathDisplay([1.0, 2.0], [[0.0, 1.0]]).names == ["x0"]


def test_click_calibration_has_bins_of_as_many_rows_and_their_intervals():
    clicks, labels = make_click_log(20_000, 5_000, random_state=0)
    model = LogisticRegression(C=0.1).fit(clicks[:10_000], labels[:10_000])
    shown = ClickCalibrationDisplay.from_estimator(model, clicks[10_000:], labels[10_000:])
    probability = model.predict_proba(clicks[10_000:])[:, 1]
    order = np.argsort(probability, kind="stable")
    assert shown.n_rows.sum() == 10_000
    assert shown.n_clicks.sum() == labels[10_000:].sum()
    np.testing.assert_allclose(shown.n_rows, 500, atol=5)
    np.testing.assert_allclose(shown.predicted[0], probability[order[: shown.n_rows[0]]].mean())
    n, k, z = shown.n_rows[-1], shown.n_clicks[-1], 1.959963984540054
    centre = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(k * (n - k) / n + z * z / 4)
    np.testing.assert_allclose([shown.lower_[-1], shown.upper_[-1]], [centre - half, centre + half])
    assert (shown.ax_.get_xscale(), shown.ax_.get_yscale()) == ("log", "log")
    before = n_drawn_pixels(shown.figure_)
    shown.bars_.remove()
    assert n_drawn_pixels(shown.figure_) < before - 300


def test_bins_without_clicks_are_upper_ends_and_ties_are_one_bin():
    probability = np.repeat([0.001, 0.01, 0.2], 100)
    is_click = np.zeros(300, bool)
    is_click[110:113] = is_click[200:221] = True
    shown = ClickCalibrationDisplay.from_predictions(is_click, probability).plot()
    np.testing.assert_array_equal(shown.n_clicks, [0, 3, 21])
    np.testing.assert_allclose(shown.predicted, [0.001, 0.01, 0.2])
    assert shown.lower_[0] == 0.0
    np.testing.assert_array_equal(shown.empty_.get_ydata(), shown.upper_[:1])
    np.testing.assert_allclose(shown.bars_.lines[0].get_ydata(), [0.03, 0.21])
    assert "none: upper end" in {each.get_text() for each in shown.ax_.get_legend().get_texts()}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([True], [0.1, 0.2]), "one for each row"),
        (([], []), "at least one"),
        (([True], [np.nan]), "from 0 to 1"),
        (([True], [1.5]), "from 0 to 1"),
    ],
)
def test_bad_probabilities_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        ClickCalibrationDisplay.from_predictions(*given)


def test_bad_paths_and_classes_are_refused():
    with pytest.raises(ValueError, match="LogisticRegressionCV, got Lasso"):
        RegularizationPathDisplay.from_estimator(Lasso().fit(X, Y))
    with pytest.raises(ValueError, match=r"\(n_features, n_strengths\)"):
        RegularizationPathDisplay([1.0, 2.0], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="positive ones, got 0"):
        RegularizationPathDisplay([1.0, 0.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="names: expected 1"):
        RegularizationPathDisplay([1.0], [[1.0]], ["a", "b"])
    three = LogisticRegression().fit(X, np.arange(len(Y)) % 3)
    with pytest.raises(ValueError, match="two classes, got 3"):
        ClickCalibrationDisplay.from_estimator(three, X, LABELS)
    two = LogisticRegression().fit(X, LABELS)
    with pytest.raises(ValueError, match=r"y: expected the classes .* got \[0 2\]"):
        ClickCalibrationDisplay.from_estimator(two, X, 2 * LABELS)
    with pytest.raises(ValueError, match="n_bins: expected at least 1"):
        ClickCalibrationDisplay.from_predictions([True], [0.5], n_bins=0)


def test_what_has_no_such_plot_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="one history_, got none"):
        ConvergenceDisplay.from_estimator(LinearRegression().fit(X, Y))
    three = LogisticRegression().fit(X, np.arange(len(Y)) % 3)
    with pytest.raises(ValueError, match="one row of coef_, got 3"):
        CoefficientsDisplay.from_estimator(three)
    with pytest.raises(ValueError, match="names: expected one for each"):
        CoefficientsDisplay([1.0, 2.0], ["a"])


def test_searches_and_pipelines_are_drawn_by_the_model_they_end_in():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=3).fit(X, LABELS)
    model = search.best_estimator_[-1]
    for estimator in (search, search.best_estimator_):
        bars = CoefficientsDisplay.from_estimator(estimator, n_largest=1)
        strongest = X.columns[np.abs(model.coef_[0]).argmax()]
        assert [label.get_text() for label in bars.ax_.get_yticklabels()] == [strongest]
        drawn = ConvergenceDisplay.from_estimator(estimator)
        assert drawn.gaps[-1] == pytest.approx(model.gap_ / model.objective_)
    silent = make_pipeline(FunctionTransformer(), LogisticRegression()).fit(X.to_numpy(), LABELS)
    assert CoefficientsDisplay.from_estimator(silent).names[0] == "x0"


def test_what_is_no_linear_model_or_no_classifier_is_named():
    tree = DecisionTreeClassifier().fit(X, LABELS)
    with pytest.raises(ValueError, match="a linear model, got DecisionTreeClassifier"):
        CoefficientsDisplay.from_estimator(tree)
    with pytest.raises(ValueError, match="got LinearSVC, which has no predict_proba"):
        ClickCalibrationDisplay.from_estimator(LinearSVC().fit(X, LABELS), X, LABELS)
    with pytest.raises(ValueError, match="got Lasso, which has no classes_"):
        ClickCalibrationDisplay.from_estimator(Lasso().fit(X, Y), X, Y)
    model = LogisticRegression().fit(X, LABELS)
    with pytest.raises(ValueError, match="n_largest == 0, must be >= 1"):
        CoefficientsDisplay.from_estimator(model, n_largest=0)


def test_importing_plots_imports_no_matplotlib():
    code = "import sys, snapml.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
