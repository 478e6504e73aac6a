"""Models as JSON: all of them come back to the bit, and nothing else becomes a model."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import snapml
from snapml.models.content import content_of
from tests.golden.make import answers, fitted, rows

MODELS = fitted()
TEXT = MODELS["LogisticRegression"].to_json()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_back_to_the_bit(name):
    model = MODELS[name]
    again = snapml.from_json(model.to_json())
    assert type(again) is type(model)
    X = np.abs(np.round(rows()[0]))  # whole numbers: categories for one of them
    assert json.dumps(answers(again, X)) == json.dumps(answers(model, X))
    assert again.to_json() == model.to_json()
    # Not only what predictions need: all that a file would hold, dtypes included.
    for one, other in zip(arrays_of(model), arrays_of(again), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def arrays_of(model):
    found = []
    content_of(model, found.append)
    return found


def test_the_text_is_json_that_says_what_it_holds():
    model = MODELS["Ridge"]
    found = json.loads(model.to_json())
    assert found["class"] == "Ridge"
    assert found["parameters"]["alpha"] == 0.5
    coef = found["attributes"]["coef_"]["array"]
    assert coef == {"dtype": "float64", "shape": [4], "values": model.coef_.tolist()}


def test_numbers_that_json_lacks_come_back():
    model = snapml.Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
    model.coef_ = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    model.n_features_in_ = 5
    text = model.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert snapml.from_json(text).coef_.tobytes() == model.coef_.tobytes()


def test_a_model_before_fit_has_no_json():
    with pytest.raises(NotFittedError):
        snapml.Ridge().to_json()


def test_what_is_no_text_is_refused():
    with pytest.raises(TypeError, match="expected str or bytes of JSON, got dict"):
        snapml.from_json(json.loads(TEXT))


def changed(path, value):
    """Return the JSON with another value at the end of a path of keys."""
    content = json.loads(TEXT)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(content)


COEF = ("attributes", "coef_", "array")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 2, "at most version 1 of the format, got 2"),
        (("version",), "1", "a version of the format, an integer >= 1, got '1'"),
        (("version",), 0, "a version of the format, an integer >= 1, got 0"),
        (("class",), "os.system", "a model of class 'os.system'"),
        (("parameters",), None, "malformed"),
        ((*COEF, "dtype"), "object", "unknown type 'object'"),
        ((*COEF, "dtype"), ["float64"], "unknown type"),
        ((*COEF, "dtype"), "int64", "values that are no int64"),
        ((*COEF, "dtype"), "str", "expected text"),
        ((*COEF, "dtype"), "bool", "values that are no bool"),
        ((*COEF, "shape"), [2**60, 2**60], "expected 13292"),
        ((*COEF, "shape"), [-3, -4], "impossible array"),
        ((*COEF, "shape"), [3.0, 4], "impossible array"),
        ((*COEF, "shape"), [12], "coef_: expected 4 columns"),
        ((*COEF, "shape"), [4, 3], "coef_: expected 4 columns"),
        ((*COEF, "values"), 12 * ["x"], "malformed"),
        ((*COEF, "values"), {"0": 1}, "impossible array"),
        (("attributes", "coef_"), {"float": "1"}, "coef_: expected a vector or a matrix"),
        (("attributes", "intercept_", "array", "shape"), [3, 1], "intercept_: expected 3"),
        (("attributes", "classes_", "array", "values"), ["a", "b"], "expected 3 values, got 2"),
        (("attributes", "n_features_in_"), 3, "coef_: expected 3 columns"),
        (("attributes", "predict"), 3, "'predict' is no attribute"),
    ],
)
def test_what_no_model_has_written_is_refused(path, value, message):
    with pytest.raises(ValueError, match=message):
        snapml.from_json(changed(path, value))


def test_text_takes_memory_in_proportion():
    values = ["x" * 1_000_000, *([""] * 100_000)]
    text = changed(
        ("attributes", "classes_"),
        {"array": {"dtype": "str", "shape": [100_001], "values": values}},
    )
    tracemalloc.start()
    with pytest.raises(ValueError, match="one text is longer"):
        snapml.from_json(text)
    assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    tracemalloc.stop()


@given(at=st.integers(0, len(TEXT) - 1), letters=st.text(max_size=5))
@example(at=0, letters="[" * 5)
@example(at=len(TEXT) - 1, letters="")
@settings(max_examples=100, deadline=None)
def test_damaged_text_gives_a_model_or_says_what_is_wrong(at, letters):
    damaged = TEXT[:at] + letters + TEXT[at + 1 :]
    try:
        model = snapml.from_json(damaged)
    except ValueError as error:
        message = str(error)
    else:
        message = None
        assert type(model) is snapml.LogisticRegression
    assert message is None or message.startswith("JSON: ")


def test_deep_nesting_is_refused():
    with pytest.raises(ValueError, match="expected the header of a model"):
        snapml.from_json("[" * 1_000_000)
