"""Missing values of pandas' nullable columns are told as scikit-learn tells them."""

import pandas as pd
import pytest

from snapml import LassoCV, LogisticRegression, Ridge, RidgeCV

FRAMES = {
    "boolean": {"a": pd.array([True, False, pd.NA, True, True, False], dtype="boolean")},
    "numbers": {
        "a": pd.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.7], dtype="Float64"),
        "b": pd.array([3, pd.NA, 2, 5, 4, 9], dtype="Int64"),
    },
    "pyarrow's": {
        "a": pd.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.7], dtype="double[pyarrow]"),
        "b": pd.array([3, pd.NA, 2, 5, 4, 9], dtype="int64[pyarrow]"),
    },
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "model", [LogisticRegression(), Ridge(), RidgeCV(), LassoCV(cv=2)], ids=str
)
def test_a_missing_value_is_a_value_error(model, kind):
    X = pd.DataFrame(FRAMES[kind])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(X, [0, 1, 0, 1, 1, 0])
    assert not hasattr(model, "coef_")
