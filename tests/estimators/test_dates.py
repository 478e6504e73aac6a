"""Dates and durations are refused, with their column: NumPy would take them for huge numbers."""

import datetime

import numpy as np
import pandas as pd
import pytest

from snapml import DecisionTreeClassifier, DecisionTreeRegressor, Lasso, LogisticRegression, Ridge

DATES = pd.date_range("2020-01-01", periods=6)
Y = np.array([0, 1, 0, 1, 1, 0])
MODELS = [LogisticRegression(), Ridge(), Lasso(), DecisionTreeClassifier(), DecisionTreeRegressor()]


def frames():
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    numbers = np.arange(6.0)
    lacking = pd.Series(DATES).where(numbers != 2)
    return [
        pd.DataFrame({"d": DATES}),
        pd.DataFrame({"d": lacking}),
        pd.DataFrame({"a": numbers, "d": lacking}),
        pd.DataFrame({"a": numbers, "d": DATES - DATES[0]}),
        pd.DataFrame({"a": numbers, "d": DATES.tz_localize("UTC")}),
        pl.DataFrame({"a": numbers, "d": list(DATES.to_pydatetime())}),
        pl.DataFrame({"a": numbers, "d": [each.date() for each in DATES]}),
        pl.DataFrame({"a": numbers, "d": [datetime.timedelta(k) for k in range(6)]}),
        pa.table({"a": numbers, "d": pa.array(DATES.to_pydatetime())}),
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("number", range(9))
def test_columns_of_dates_are_refused_by_name(model, number):
    frame = frames()[number]
    with pytest.raises(TypeError, match="X, column 'd': expected numbers, got "):
        model.fit(frame, Y)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("values", [DATES.values, (DATES - DATES[0]).values])
def test_arrays_of_dates_are_refused_in_fit_and_predict(model, values):
    X = values.reshape(-1, 1)
    with pytest.raises(TypeError, match=r"X: expected numbers, got (datetime|timedelta)64"):
        model.fit(X, Y)
    model.fit(np.arange(6.0).reshape(-1, 1), Y)
    with pytest.raises(TypeError, match=r"X: expected numbers, got (datetime|timedelta)64"):
        model.predict(X)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("y", [DATES, pd.Series(DATES), DATES.values, DATES - DATES[0]])
def test_targets_that_are_dates_are_refused(model, y):
    with pytest.raises(TypeError, match="y: expected numbers, got "):
        model.fit(np.arange(6.0).reshape(-1, 1), y)


def test_numbers_of_dates_are_taken():
    days = (DATES - DATES[0]).days.to_numpy(float).reshape(-1, 1)
    assert np.isfinite(Ridge().fit(days, Y).coef_).all()
