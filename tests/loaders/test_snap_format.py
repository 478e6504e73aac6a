"""IBM Snap ML's binary files: written, read, and refused where they are damaged."""

import struct

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.io import dump_snap, load_snap

DENSE = np.array([[1, 0, 2.5], [0, -3, 0]], np.float32)
Y = np.array([1, -1], np.float32)


def written(*parts):
    """Return the bytes of a file by the format's description."""
    return b"".join(
        part if isinstance(part, bytes) else np.asarray(part[1], part[0]).tobytes()
        for part in parts
    )


FILES = {
    (False, False): written(
        struct.pack("<IBII", 0, 0, 2, 3), ("<f4", Y), ("<f4", [1, 0, 2.5, 0, -3, 0])
    ),
    (False, True): written(
        struct.pack("<IBII", 0, 1, 2, 3), ("<f4", Y), ("<f4", [1, 0, 0, -3, 2.5, 0])
    ),
    (True, False): written(
        struct.pack("<IBII", 1, 0, 2, 3), ("<u4", [2, 1]), ("<f4", Y), ("<u4", [0, 2, 1]),
        ("<f4", [1, 2.5, -3]),
    ),
    (True, True): written(
        struct.pack("<IBII", 1, 1, 2, 3), ("<u4", [1, 1, 1]), ("<f4", Y), ("<u4", [0, 1, 0]),
        ("<f4", [1, -3, 2.5]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("is_sparse", "by_column"), FILES)
def test_files_are_as_the_format_says(tmp_path, is_sparse, by_column):
    content = FILES[is_sparse, by_column]
    path = tmp_path / "data.snap"
    dump_snap(csr_matrix(DENSE) if is_sparse else DENSE, Y, path, by_column=by_column)
    assert path.read_bytes() == content
    X, y = load_snap(path)
    np.testing.assert_array_equal(X.toarray() if is_sparse else X, DENSE)
    np.testing.assert_array_equal(y, Y)
    assert X.dtype == y.dtype == np.float32


@pytest.mark.parametrize("by_column", [False, True])
def test_rows_of_equal_entries_need_no_values(tmp_path, by_column):
    X = csr_matrix((DENSE != 0) / np.sqrt([[2.0], [1.0]]))
    path = tmp_path / "data.snap"
    dump_snap(X, Y, path, by_column=by_column, implicit_values=True)
    assert path.stat().st_size == 13 + 4 * (3 if by_column else 2) + 8 + 12
    found, y = load_snap(path)
    np.testing.assert_allclose(found.toarray(), X.toarray(), rtol=1e-7)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("key", FILES)
def test_every_cut_is_noticed(tmp_path, key):
    path = tmp_path / "cut"
    for n_kept in range(len(FILES[key])):
        path.write_bytes(FILES[key][:n_kept])
        with pytest.raises(ValueError, match=r"cut: expected .* snap file"):
            load_snap(path)
    path.write_bytes(FILES[key] + b"x")
    with pytest.raises(ValueError, match=r"cut: expected .* bytes behind the header"):
        load_snap(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (struct.pack("<IBII", 3, 0, 2, 3), "expected kind 0, 1 or 2 of a snap file, got 3"),
        (struct.pack("<IBII", 0, 2, 0, 0), "expected kind 0, 1 or 2 of a snap file"),
        (struct.pack("<IBII", 0, 0, 2**32 - 1, 2**32 - 1), "expected 7378697627.* bytes"),
        (
            struct.pack("<IBII", 1, 0, 1, 2) + struct.pack("<IfIf", 1, 1, 2, 1),
            "expected indices below 2, got 2",
        ),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, content, says):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        load_snap(path)


def test_what_does_not_fit_the_format_is_refused(tmp_path):
    path = tmp_path / "data.snap"
    with pytest.raises(ValueError, match=r"y: expected shape \(2,\) as X has rows, got \(3,\)"):
        dump_snap(DENSE, [1, 2, 3], path)
    with pytest.raises(ValueError, match="expected a sparse matrix, got a dense one"):
        dump_snap(DENSE, Y, path, implicit_values=True)
    with pytest.raises(ValueError, match="expected rows of equal positive entries and length 1"):
        dump_snap(csr_matrix(DENSE), Y, path, implicit_values=True)
    assert not path.exists()
