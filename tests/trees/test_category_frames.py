"""Categories of Polars' and pyarrow's frames are those of pandas'."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from snapml import DecisionTreeClassifier

pa = pytest.importorskip("pyarrow")

FRAMES = {
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "polars, text": lambda frame: pl.from_pandas(frame.astype({"city": str})),
}


def make_frame():
    rng = np.random.default_rng(0)
    city = pd.Categorical(rng.choice(list("abcdefgh"), 600))
    frame = pd.DataFrame({"number": rng.normal(size=600), "city": city})
    return frame, frame.city.isin(list("ace")).astype(int).to_numpy()


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("asked", ["from_dtype", ["city"], [1], [False, True]], ids=str)
def test_trees_of_equal_frames_are_equal(kind, asked):
    if kind == "polars, text" and asked == "from_dtype":
        pytest.skip("text is no category unless asked for")
    frame, y = make_frame()
    frame.loc[::50, "city"] = "a"
    other = FRAMES[kind](frame)
    expected = DecisionTreeClassifier(max_depth=4, categorical_features=asked).fit(frame, y)
    found = DecisionTreeClassifier(max_depth=4, categorical_features=asked).fit(other, y)
    assert found.feature_names_in_.tolist() == ["number", "city"]
    assert found.categories_[1].tolist() == expected.categories_[1].tolist()
    np.testing.assert_array_equal(found.predict_proba(other), expected.predict_proba(frame))
    np.testing.assert_array_equal(found.apply(other[:1]), expected.apply(frame[:1]))


def test_missing_and_unknown_categories_go_the_same_way_from_each_frame():
    frame, y = make_frame()
    model = DecisionTreeClassifier(max_depth=4, categorical_features="from_dtype").fit(frame, y)
    city = ["a", None, "zzz", "b"]
    rows = pd.DataFrame({"number": np.zeros(4), "city": pd.Categorical(city)})
    expected = model.predict_proba(rows)
    for make in (pl.from_pandas, pa.Table.from_pandas):
        np.testing.assert_array_equal(model.predict_proba(make(rows)), expected)
