"""Model files that somebody made to do harm: bounded memory, a clear refusal, no crash.

Checksums find damage, not malice: here they are made right after each change.
"""

import contextlib
import io
import json
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml.models.model_file import read_model
from tests.golden.make import rows

FOLDER = Path(__file__).parents[1] / "golden" / "0.1.0"
NAMES = (
    "Ridge",
    "LogisticRegression",
    "LogisticRegression-sparse",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor-categories",
)
CONTENTS = {name: (FOLDER / f"{name}.model").read_bytes() for name in NAMES}
PREFIX = struct.Struct("<16sQI")
# Beside the file itself: the header as objects, messages, and what scikit-learn's checks take.
MOST_BYTES = 4_000_000


@contextlib.contextmanager
def little_memory():
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def loaded(content):
    return read_model(io.BytesIO(content), "hostile.model")


def refused(content, message):
    """Assert that a file is refused with its name and a reason, in little memory."""
    with little_memory(), pytest.raises(ValueError, match=message) as error:
        loaded(content)
    assert str(error.value).startswith("hostile.model: ")


def parts(content):
    """Return header and arrays of a file."""
    _, length, _ = PREFIX.unpack_from(content)
    begin = PREFIX.size + length
    return json.loads(content[PREFIX.size : begin]), content[begin:]


def made(header, body):
    """Return a file whose checksums are right, whatever it holds."""
    if isinstance(header, dict) and "crc32" in header:
        header["crc32"] = zlib.crc32(body)
    text = json.dumps(header).encode()
    text += b" " * (-(PREFIX.size + len(text)) % 64)
    return PREFIX.pack(b"snapml model\r\n\x1a\n", len(text), zlib.crc32(text)) + text + body


@pytest.mark.parametrize("name", NAMES)
def test_each_byte_counts_in_header_and_arrays(name):
    content = CONTENTS[name]
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(ValueError, match=r"damaged|another kind"):
            loaded(bytes(damaged))


def test_each_length_but_the_right_one_is_refused():
    content = CONTENTS["Ridge"]
    for length in range(len(content)):
        with pytest.raises(ValueError, match=r"damaged|cut short|another kind"):
            loaded(content[:length])


@pytest.mark.parametrize("claim", [2**20, 2**40, 2**60, 2**63, 2**64 - 1])
def test_a_header_that_claims_to_be_long_is_not_believed(claim):
    content = CONTENTS["Ridge"]
    refused(PREFIX.pack(content[:16], claim, 0) + content[PREFIX.size :], "header of")


HUGE = [
    {"dtype": "<f8", "shape": [2**60]},
    {"dtype": "<f8", "shape": [2**32, 2**32]},
    {"dtype": "<f8", "shape": [2**64]},
    {"dtype": "<f8", "shape": [0, 2**62]},
    {"dtype": "<f8", "shape": [10**400]},
    {"dtype": "<f8", "shape": [-1]},
    {"dtype": "<f8", "shape": ["4"]},
    {"dtype": "<f8", "shape": [4.0]},
    {"dtype": "<f8", "shape": [True]},
    {"dtype": "<f8", "shape": "4"},
    {"dtype": "<f8", "shape": [1] * 65},
    {"dtype": "<U0", "shape": [2**40]},
    {"dtype": "<U2000000000", "shape": [1]},
    {"dtype": "<U99999999999", "shape": [1]},
    {"dtype": "|V8", "shape": [4]},
    {"dtype": "<f8,<f8", "shape": [4]},
    {"dtype": "object", "shape": [4]},
    {"dtype": ["<f8"], "shape": [4]},
    {"dtype": "<c16", "shape": [4]},
    {"dtype": "<f16", "shape": [4]},
    {"dtype": "<M8[s]", "shape": [4]},
    {"shape": [4]},
    None,
]


@pytest.mark.parametrize("entry", HUGE, ids=str)
@pytest.mark.parametrize("place", [0, -1])
def test_arrays_that_the_file_cannot_hold_are_refused_before_memory_is_taken(entry, place):
    header, body = parts(CONTENTS["Ridge"])
    header["arrays"][place] = entry
    refused(made(header, body), "malformed")


@pytest.mark.parametrize("claim", [2**60, -1, 0, None, "96", 1e300, [1]])
def test_a_body_of_another_length_is_refused(claim):
    header, body = parts(CONTENTS["Ridge"])
    header["n_bytes"] = claim
    refused(made(header, body), "bytes|long")


@pytest.mark.parametrize("version", [2, 10**30])
def test_newer_versions_are_refused(version):
    header, body = parts(CONTENTS["Ridge"])
    header["version"] = version
    refused(made(header, body), "at most version 1 of the format.* a newer version")


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", None, True, [1]])
def test_what_is_no_version_is_not_called_a_newer_one(version):
    header, body = parts(CONTENTS["Ridge"])
    header["version"] = version
    refused(made(header, body), r"expected a version of the format, an integer >= 1, got [^:]*$")


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "os.system", "builtins.eval", "__import__", "LinearEstimator", "", "/", 1],
)
def test_only_listed_classes_are_made(name):
    header, body = parts(CONTENTS["Ridge"])
    header["class"] = name
    refused(made(header, body), "a model of class")


@pytest.mark.parametrize("header", [[], "text", 1, None, {}, {"format": "snapml model"}], ids=str)
def test_headers_of_another_kind_are_refused(header):
    refused(made(header, b""), "expected the header of a model")


def test_a_deep_header_is_refused():
    text = b"[" * 200_000
    content = PREFIX.pack(b"snapml model\r\n\x1a\n", len(text), zlib.crc32(text)) + text
    refused(content, "expected the header of a model")


@pytest.mark.parametrize(
    ("part", "numbers"),
    [
        (1, [10**6, 1, 2]),
        (1, [-1, 1, 2]),
        (1, [4, 1, 2]),
        (2, [0, 2, 1]),
        (2, [0, -1, 1]),
        (2, [1, 2, 3]),
        (2, [10**6, 10**6, 0, 0]),  # SciPy looks at none of them where the last one is 0
    ],
    ids=str,
)
def test_sparse_coefficients_outside_their_matrix_are_refused(part, numbers):
    header, body = parts(CONTENTS["LogisticRegression-sparse"])
    changed = header["attributes"]["coef_"]["csr"][1][part]
    begin = 0
    for number, layout in enumerate(header["arrays"]):
        begin += -begin % 64
        if number == changed:
            new = np.resize(np.array(numbers, layout["dtype"]), layout["shape"]).tobytes()
            body = body[:begin] + new + body[begin + len(new) :]
        begin += np.dtype(layout["dtype"]).itemsize * int(np.prod(layout["shape"]))
    refused(made(header, body), "malformed.*offsets or indices outside")


def places(value, before=()):
    """Yield the path of every value inside a header."""
    yield before
    children = value.items() if isinstance(value, dict) else ()
    for key, child in enumerate(value) if isinstance(value, list) else children:
        yield from places(child, (*before, key))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["coef_", "tree_", "Ridge", "DecisionTreeClassifier", "<f8", "array"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["array", "csr", "objects", "dict", "tuple", "scalar", "float", "x"]),
            inner,
            max_size=1,
        ),
    ),
    max_leaves=5,
)


def survived(content):
    """Load what may be a model; where it is one, let it predict, which may fail but not crash."""
    with little_memory():
        try:
            model = loaded(content)
        except ValueError as error:
            return str(error)
        X = rows()[0].astype(np.float32)
        with contextlib.suppress(Exception):  # the parameters may be anything
            model.predict(X)
        return None


@given(name=st.sampled_from(NAMES), which=st.integers(0, 10**6), value=VALUES)
@example(name="Ridge", which=0, value={"array": 2**62})
@example(name="LogisticRegression-sparse", which=20, value=[2**40, 2**40])
@settings(max_examples=300, deadline=None)
def test_any_value_anywhere_in_a_header_gives_a_model_or_a_reason(name, which, value):
    header, body = parts(CONTENTS[name])
    paths = list(places(header))[1:]
    *above, last = paths[which % len(paths)]
    place = header
    for key in above:
        place = place[key]
    place[last] = value
    reason = survived(made(header, body))
    assert reason is None or reason.startswith("hostile.model: ")


@given(
    name=st.sampled_from(NAMES),
    changes=st.dictionaries(st.integers(0, 10**6), st.integers(0, 255), min_size=1, max_size=8),
)
@example(name="DecisionTreeClassifier", changes={0: 255})
@example(name="DecisionTreeRegressor-categories", changes={1: 255})
@settings(max_examples=300, deadline=None)
def test_any_bytes_anywhere_in_arrays_give_a_model_or_a_reason(name, changes):
    header, body = parts(CONTENTS[name])
    body = bytearray(body)
    for place, byte in changes.items():
        body[place % len(body)] = byte
    reason = survived(made(header, bytes(body)))
    assert reason is None or reason.startswith("hostile.model: ")
