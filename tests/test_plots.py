"""What plots draw: numbers, names, scales and pixels."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_diabetes

from snapml import Lasso, LinearRegression, LogisticRegression, Ridge
from snapml.plots import CoefficientsDisplay, ConvergenceDisplay

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


def test_what_has_no_such_plot_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="one history_, got none"):
        ConvergenceDisplay.from_estimator(LinearRegression().fit(X, Y))
    three = LogisticRegression().fit(X, np.arange(len(Y)) % 3)
    with pytest.raises(ValueError, match="one row of coef_, got 3"):
        CoefficientsDisplay.from_estimator(three)
    with pytest.raises(ValueError, match="names: expected one for each"):
        CoefficientsDisplay([1.0, 2.0], ["a"])


def test_importing_plots_imports_no_matplotlib():
    code = "import sys, snapml.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
