"""The svmlight parser against a plain one, scikit-learn's, and text that is none."""

import bz2
import gzip
import io
import itertools
import lzma
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference.data import public_file
from scipy.sparse import vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from snapml.io import load_svmlight, svmlight_batches
from snapml.io.readers import text_blocks

TEXT = b"1 qid:3 1:0.5 3:-2e-3\n\n# whole line\r\n-1\t2:1 # 7:7\r\n0.25\n+2 3:1."


def load(text, **options):
    return load_svmlight(io.BytesIO(text), **options)


def plain(text):
    """Return rows of (label, indices, values) by Python's own means."""
    rows = []
    for line in re.split(rb"\n", text):
        tokens = line.partition(b"#")[0].split()
        if tokens:
            entries = [t.split(b":") for t in tokens[1:] if not t.startswith(b"qid:")]
            rows.append((float(tokens[0]), [int(i) for i, _ in entries],
                         [float(v) for _, v in entries]))  # fmt: skip
    return rows


def assert_rows(found, rows, least=0):
    X, y = found
    assert X.has_sorted_indices
    assert y.tolist() == [row[0] for row in rows]
    assert (X.indices + least).tolist() == [i for row in rows for i in row[1]]
    assert X.data.tolist() == [v for row in rows for v in row[2]]
    assert np.diff(X.indptr).tolist() == [len(row[1]) for row in rows]


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a few bytes be a block, so that lines and files do not end where blocks do."""
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 7)


def test_what_a_line_may_hold():
    X, y = load(TEXT)
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, -0.002], [0, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert y.tolist() == [1, -1, 0.25, 2]
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize("n_threads", [1, 2, 5, None, -1])
def test_blocks_and_threads_change_nothing(small_blocks, n_threads):
    assert_rows(load(TEXT, n_threads=n_threads), plain(TEXT), least=1)


@pytest.mark.parametrize("name", ["a9a.train.svm.xz", "ctr_hashed_104k.svm.xz", "mg.svm.xz"])
def test_real_files_are_read_as_scikit_learn_reads_them(name, dtype):
    path = public_file(name)
    X, y = load_svmlight(path, dtype=dtype)
    with lzma.open(path) as stream:
        expected, labels = load_svmlight_file(stream, dtype=dtype)
    assert X.shape == expected.shape
    assert (expected != X).nnz == 0
    assert X.dtype == dtype
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, labels)


@given(
    st.lists(
        st.tuples(
            st.floats(-1e300, 1e300),
            st.dictionaries(st.integers(0, 10**12), st.floats(-1e300, 1e300), max_size=5),
        ),
        max_size=8,
    ),
    st.integers(1, 4),
)
@example([(5e-324, {0: 1.7976931348623157e308, 2**31: 2.2250738585072014e-308})], 1)
@example([(0.1, {3: 0.30000000000000004}), (-0.0, {})], 2)
def test_every_number_comes_back_to_the_bit(rows, n_threads):
    rows = [(label, sorted(entries), [entries[i] for i in sorted(entries)])
            for label, entries in rows]  # fmt: skip
    lines = (
        f"{label!r} " + " ".join(f"{i}:{v!r}" for i, v in zip(*rest, strict=True))
        for label, *rest in rows
    )
    text = "\n".join(lines).encode()
    assert_rows(load(text, zero_based=True, n_threads=n_threads), rows)


@pytest.mark.parametrize(
    "number",
    ["9007199254740993", "123456789012345678901234567890", "1e22", "1e23", "8.41e-80", "1e-400",
     "0.000000000000000000000000000001", "1797693134862315700000e287", "5e-324", "+.5", "3.",
     "00012", "1e00000000000000000001", "-0"],
)  # fmt: skip
def test_numbers_are_rounded_as_python_rounds_them(number):
    X, y = load(f"{number} 1:{number}".encode())
    assert y.tobytes() == X.data.tobytes() == np.float64(number).tobytes()
    if float(number) < 1e38:
        single = np.float32(float(number))
        X, _ = load(f"1 1:{number}".encode(), dtype=np.float32)
        assert X.data.tobytes() == single.tobytes()


@given(
    st.binary(max_size=40) | st.text("0123456789.:-+eE#qid \n\r\tna", max_size=40).map(str.encode)
)
@example(b"1 1:1\0")
@example(b"1 qid:")
@example(b"\n\n#")
def test_any_bytes_are_read_right_or_refused(text):
    message = ""
    try:
        found = load(text, zero_based=True)
    except ValueError as error:
        message = str(error)
    if message:
        assert re.match(r"<BytesIO>, line \d+: expected .*, got '", message)
    else:
        assert_rows(found, plain(text))


@given(st.lists(st.integers(0, 70), max_size=5), st.integers(1, 30))
@example([1, 1, 2], 7)
def test_ranges_that_join_have_every_line_once(cuts, block_bytes):
    bounds = [0, *sorted(cuts), len(TEXT)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        parts = [
            load(TEXT, offset=begin, length=end - begin, zero_based=False, n_features=3)
            for begin, end in itertools.pairwise(bounds)
            if begin < end
        ]
    labels = np.concatenate([y for _, y in parts])
    assert labels.tolist() == [row[0] for row in plain(TEXT)]
    assert sum(X.nnz for X, _ in parts) == 4


def test_ranges_are_scikit_learns(tmp_path):
    rng = np.random.default_rng(0)
    dump_svmlight_file(rng.random((50, 4)), np.arange(50), str(tmp_path / "x.svm"))
    for offset, length in [(0, 100), (100, 900), (1000, -1), (0, 5000)]:
        _, y = load_svmlight(tmp_path / "x.svm", offset=offset, length=length, n_features=4)
        reference = load_svmlight_file(
            str(tmp_path / "x.svm"), offset=offset, length=length, n_features=4
        )
        np.testing.assert_array_equal(y, reference[1])


def test_indices_begin_where_the_file_says():
    assert load(b"1 1:1 4:1")[0].shape == (1, 4)
    assert load(b"1 0:1 4:1")[0].shape == (1, 5)
    assert load(b"1 1:1 4:1", zero_based=True)[0].shape == (1, 5)
    assert load(b"1 1:1 4:1", n_features=9)[0].shape == (1, 9)
    assert load(b"1 1:1 4:1", length=5)[0].shape == (1, 5)
    with pytest.raises(ValueError, match="line 1: expected an index from 1 on, got '0:1'"):
        load(b"1 0:1", zero_based=False)


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n\n"])
def test_file_without_rows_is_an_empty_matrix(text):
    X, y = load(text, n_features=3)
    assert X.shape == (0, 3)
    assert y.shape == (0,)


@pytest.mark.parametrize("index", [2**31 - 1, 2**31, 10**17])
def test_large_indices_take_64_bits(small_blocks, index):
    X, _ = load(b"1 1:1\n1 %d:2" % index, zero_based=True)
    assert X.indices.dtype == (np.int32 if index + 1 < 2**31 else np.int64)
    assert X.indices.tolist() == [1, index]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_known_by_their_bytes(tmp_path, compress):
    path = tmp_path / "text.of_any_name"
    path.write_bytes(compress(TEXT))
    assert_rows(load_svmlight(path), plain(TEXT), least=1)
    assert len(load_svmlight(str(path), offset=30)[1]) == 3


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_damaged_compressed_files_are_refused(tmp_path, compress):
    path = tmp_path / "cut"
    whole = compress(TEXT * 100)
    path.write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="cut: the compressed data are damaged or end early"):
        load_svmlight(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"x 1:1", "a finite label, got 'x'"),
        (b"nan 1:1", "a finite label, got 'nan'"),
        (b"1,2 1:1", "a finite label, got '1,2'"),
        (b"1e999 1:1", "a finite label, got '1e999'"),
        (b"1e999999999999999999999 1:1", "a finite label, got '1e9999"),
        (b"1 1:nan", "INDEX:VALUE with a finite value, got '1:nan'"),
        (b"1 1:inf", "INDEX:VALUE with a finite value, got '1:inf'"),
        (b"1 1:0x10", "INDEX:VALUE with a finite value, got '1:0x10'"),
        (b"1 1:1e", "INDEX:VALUE with a finite value, got '1:1e'"),
        (b"1 3", "INDEX:VALUE with a finite value, got '3'"),
        (b"1 3:", "INDEX:VALUE with a finite value, got '3:'"),
        (b"1 3: 4", "INDEX:VALUE with a finite value, got '3:'"),
        (b"1 -3:4", "INDEX:VALUE with a finite value, got '-3:4'"),
        (b"1 2:1 qid:3", "INDEX:VALUE with a finite value, got 'qid:3'"),
        (b"1 qid:x 2:1", "qid:NUMBER, got 'qid:x'"),
        (b"1 1234567890123456789:1", "an index of at most 18 digits, got '1234567890123456789:1'"),
        (b"1 3:1 2:1", "indices that increase within a row, got '2:1'"),
        (b"1 3:1 3:1", "indices that increase within a row, got '3:1'"),
        (b"\x7fELF\x02\x00\xff", r"a finite label, got '\\x7fELF\\x02\\x00\\xff'"),
    ],
)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_malformed_text_is_named_with_its_line(small_blocks, line, says, n_threads):
    text = TEXT + b"\n" + line + b"\n" + TEXT + b"\n" + b"y 1:1"
    with pytest.raises(ValueError, match=f"<BytesIO>, line 7: expected {says}"):
        load(text, n_threads=n_threads)


def test_numbers_beyond_float32_are_refused():
    with pytest.raises(ValueError, match="line 1: expected a number within the range of dtype"):
        load(b"1 1:1e39", dtype=np.float32)


def test_line_behind_an_offset_is_counted_from_there():
    with pytest.raises(ValueError, match="line 2 behind byte 3: expected a finite label"):
        load(b"1 1:1\n1\nz", offset=3)


def test_line_longer_than_many_blocks(monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1000)
    text = b"1 " + b" ".join(b"%d:1" % i for i in range(100_000)) + b"\n-1 5:1"
    X, y = load(text, n_threads=2)
    assert np.diff(X.indptr).tolist() == [100_000, 1]
    assert y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_features": 2}, "n_features=2, but the largest index is 3, one-based: .* least 3"),
        ({"n_features": 0}, "n_features: expected an integer >= 1, got 0"),
        ({"dtype": np.int32}, "dtype: expected float32 or float64, got int32"),
        ({"zero_based": "no"}, "zero_based: expected True, False or 'auto', got 'no'"),
        ({"offset": -1}, "offset: expected an integer >= 0, got -1"),
        ({"length": 1.5}, "length: expected an integer >= -1, got 1.5"),
        ({"n_threads": 0}, "n_threads: expected None or an integer other than 0, got 0"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        load(TEXT, **options)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        load_svmlight(tmp_path / "missing")
    with pytest.raises(TypeError, match="expected a path or a binary file, got int"):
        load_svmlight(3)
    with pytest.raises(TypeError, match="expected a path or a binary file, got StringIO"):
        load_svmlight(io.StringIO("1 1:1"))


def test_error_of_the_file_reaches_the_caller():
    class Failing(io.BytesIO):
        def readinto(self, buffer):
            raise OSError("the disk is on fire")

    with pytest.raises(OSError, match="on fire"):
        load_svmlight(Failing(TEXT))


@pytest.mark.parametrize("zero_based", [True, False, "auto"])
def test_batches_put_together_are_the_whole(tmp_path, small_blocks, zero_based):
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(TEXT))
    X, y = load_svmlight(path, zero_based=zero_based)
    options = dict(zero_based=zero_based, n_features=X.shape[1])
    parts = list(svmlight_batches(path, **options))
    assert len(parts) > 2
    assert (vstack([part for part, _ in parts]) != X).nnz == 0
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in parts]), y)


def test_batches_without_a_number_of_columns_grow(tmp_path, small_blocks):
    path = tmp_path / "text"
    path.write_bytes(b"1 1:1\n1 5:1\n1 2:1\n")
    assert [X.shape[1] for X, _ in svmlight_batches(path)] == [1, 5, 5]
    with pytest.raises(ValueError, match="expected True or False for an open file, got 'auto'"):
        next(svmlight_batches(io.BytesIO(TEXT)))
