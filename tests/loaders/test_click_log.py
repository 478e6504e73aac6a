"""Hashed click logs: text and frames agree, with each other and with a plain version."""

import gzip
import io
import struct

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml import _native
from snapml.io import ClickLogEncoder
from snapml.io.readers import click_log, text_blocks

MASK = 2**64 - 1
TEXT = b"1\t3\t-0.5\tred\tx\n\n0\t\t7\tblue\t\r\n-1\t3\t1e9\tr\xc3\xb6d\t00000000ff"


def mixed(x):
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & MASK
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


def column_of(content, field, n_features, seed=0):
    """Return the column of a field's content: None, a number or bytes."""
    kind = 1 if content is None else 2 if isinstance(content, float) else 3
    state = mixed(mixed(seed + kind) + field & MASK)
    if kind == 2:
        state = mixed(state ^ struct.unpack("<Q", struct.pack("<d", content + 0.0))[0] >> 50)
    if kind == 3:
        state ^= len(content)
        for k in range(0, len(content), 8):
            state = mixed(state ^ int.from_bytes(content[k : k + 8], "little"))
    return mixed(state) * n_features >> 64


def rows_of(X):
    return [X.indices[a:b].tolist() for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]


def plain(rows, n_features, seed=0):
    return [
        sorted({column_of(content, k, n_features, seed) for k, content in enumerate(row)})
        for row in rows
    ]


ROWS = [
    [3.0, -0.5, b"red", b"x"],
    [None, 7.0, b"blue", None],
    [3.0, 1e9, "röd".encode(), b"00000000ff"],
]


@pytest.mark.parametrize("n_features", [1, 7, 2**20, 2**40])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_text_is_encoded_as_described(n_features, n_threads, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 16)
    encoder = ClickLogEncoder(n_features, n_numbers=2, n_categories=2, seed=5)
    found = list(encoder.batches(io.BytesIO(TEXT), n_threads=n_threads))
    assert [row for X, _ in found for row in rows_of(X)] == plain(ROWS, n_features, 5)
    assert np.concatenate([y for _, y in found]).tolist() == [1, 0, -1]
    assert {X.indices.dtype for X, _ in found} == {
        np.dtype(np.int32 if n_features <= 2**31 else np.int64)
    }


FRAME = {
    "a": [3.0, None, 3.0],
    "b": [-0.5, 7.0, 1e9],
    "c": ["red", "blue", "röd"],
    "d": ["x", None, "00000000ff"],
}


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda data: pd.DataFrame(data).astype({"c": "category"}),
        lambda data: pd.DataFrame(data).astype({"c": object, "a": "Float32"}),
        pl.DataFrame,
        lambda data: pl.DataFrame(data).with_columns(pl.col("d").cast(pl.Categorical)),
    ],
    ids=["pandas", "pandas categories", "pandas objects", "polars", "polars categories"],
)
def test_frames_are_encoded_as_text_is(make):
    encoder = ClickLogEncoder(1000, n_numbers=2, n_categories=2)
    assert rows_of(encoder.transform(make(FRAME))) == plain(ROWS, 1000)


def arrow():
    return pytest.importorskip("pyarrow", reason="makes Arrow tables")


def many_categories():
    """Return more categories than one byte counts, with gaps, empty and long texts."""
    rng = np.random.default_rng(0)
    texts = [f"{'x' * (k % 9)}{k}" for k in range(300)] + ["", None]
    return [texts[k] for k in rng.integers(0, len(texts), 1000)]


@pytest.mark.parametrize(
    "make",
    [
        lambda texts: pd.DataFrame({"c": pd.Series(texts, dtype=object)}),
        lambda texts: pd.DataFrame({"c": pd.Series(texts, dtype="category")}),
        lambda texts: pl.DataFrame({"c": texts}),
        lambda texts: pl.DataFrame({"c": texts}).with_columns(pl.col("c").cast(pl.Categorical)),
        lambda texts: arrow().table({"c": arrow().array(texts)}),
        lambda texts: arrow().table({"c": arrow().chunked_array([texts[:7], [], texts[7:]])}),
        lambda texts: arrow().table({"c": arrow().array(["cut off", *texts]).slice(1)}),
        lambda texts: arrow().table(
            {"c": arrow().array(["cut off", *texts]).dictionary_encode().slice(1)}
        ),
        lambda texts: arrow().table({"c": arrow().array(texts, arrow().string_view())}),
    ],
)
@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_categories_of_any_layout_are_their_texts(make, has_pyarrow, monkeypatch):
    texts, encoder = many_categories(), ClickLogEncoder(10_000)
    expected = plain([[text.encode() if text else None] for text in texts], 10_000)
    if not has_pyarrow:
        monkeypatch.setattr(click_log, "_arrow_strings", lambda column: None)
    assert rows_of(encoder.transform(make(texts))) == expected
    assert encoder.transform(make(texts)[:0]).shape == (0, 10_000)


@pytest.mark.parametrize(
    "offsets", [[], [-1, 2], [0, 3, 2], [0, 7]], ids=["none", "negative", "falling", "beyond"]
)
def test_offsets_that_lead_outside_the_text_are_refused(offsets):
    text = np.frombuffer(b"sixsix", np.uint8)
    with pytest.raises(ValueError, match="offsets: expected"):
        _native.click_categories(text, np.array(offsets, np.int64), 0, 10, 0)


def test_integers_are_numbers():
    encoder = ClickLogEncoder(1000)
    X = encoder.transform(pd.DataFrame({"a": np.array([0, 5, -3], np.int8)}))
    assert rows_of(X) == plain([[0.0], [5.0], [-3.0]], 1000)


@given(st.integers(-300, 300), st.integers(0, 3), st.floats(0.0, 0.2499), st.booleans())
@example(0, 0, 0.0, False)
@example(3, 3, 0.2499, True)
def test_a_bin_holds_numbers_of_about_the_same_size(exponent, quarter, rest, is_negative):
    encoder = ClickLogEncoder(2**40, n_numbers=1, n_categories=0)
    size = 2.0**exponent * (-1.0 if is_negative else 1.0)
    numbers = [size * (1 + quarter / 4 + x) for x in (0.0, rest, 0.25)]
    text = "\n".join(map(repr, numbers)).encode()
    [(X, y)] = encoder.batches(io.BytesIO(text), has_labels=False)
    assert y is None
    assert X.indices[0] == X.indices[1] != X.indices[2]


def test_columns_are_spread_evenly():
    encoder = ClickLogEncoder(64, n_numbers=0, n_categories=1)
    text = "\n".join(map(str, range(64_000))).encode()
    X, _ = next(encoder.batches(io.BytesIO(text), has_labels=False))
    counts = np.bincount(X.indices, minlength=64)
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_compressed_files_and_ranges(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(TEXT))
    encoder = ClickLogEncoder(100, n_numbers=2, n_categories=2)
    cut = 20
    first = list(encoder.batches(path, length=cut))
    second = list(encoder.batches(path, offset=cut))
    assert [row for X, _ in first + second for row in rows_of(X)] == plain(ROWS, 100)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"x\t1\t1\ta\tb", "a finite label, got 'x'"),
        (b"\t1\t1\ta\tb", "a finite label, got '1'"),
        (b"1\tone\t1\ta\tb", "a finite number, got 'one'"),
        (b"1\t1 \t1\ta\tb", "a finite number, got '1'"),
        (b"1\t1\tnan\ta\tb", "a finite number, got 'nan'"),
        (b"1\t1\t1\ta", "more fields in the line, got '1'"),
        (b"1\t1\t1\ta\tb\tc", "fewer fields in the line, got '1'"),
    ],
)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_malformed_lines_are_named(line, says, n_threads):
    encoder = ClickLogEncoder(n_numbers=2, n_categories=2)
    with pytest.raises(ValueError, match=f"<BytesIO>, line 5: expected {says}"):
        list(encoder.batches(io.BytesIO(TEXT + b"\n" + line + b"\n" + TEXT), n_threads=n_threads))


def test_what_is_no_frame_or_has_other_columns_is_refused():
    encoder = ClickLogEncoder()
    with pytest.raises(TypeError, match="frame"):
        encoder.transform([[1, 2]])
    with pytest.raises(TypeError, match="column 'd': expected numbers or strings, got Date"):
        encoder.transform(pl.DataFrame({"d": [None]}, schema={"d": pl.Date}))
    with pytest.raises(TypeError, match="column 'd': expected numbers or strings, got 3"):
        encoder.transform(pd.DataFrame({"d": ["a", 3]}, dtype=object))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_features": 0}, "n_features: expected an integer >= 1, got 0"),
        ({"n_numbers": -1}, "n_numbers: expected an integer >= 0, got -1"),
        ({"n_categories": 1.5}, "n_categories: expected an integer >= 0, got 1.5"),
        ({"seed": True}, "seed: expected an integer >= 0, got True"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        ClickLogEncoder(**options)
