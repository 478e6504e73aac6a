"""Parts of files: end to end they are the whole, each row once, wherever the cuts fall."""

import bz2

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from snapml.io import convert, dump_snap, load_svmlight, read_batches
from snapml.io.division import Extent, extent_of, parts_of

NAMES = ("a", "b", "c")


def rows_of(piece, **options):
    """Return what a piece holds, dense, with its labels beside."""
    found = [
        np.column_stack([b.X.toarray() if hasattr(b.X, "toarray") else b.X, b.y])
        for b in read_batches(piece.path, format=piece.format, **piece.options, **options)
    ]
    return np.concatenate(found) if found else None


def assert_parts_are_the_whole(paths, n_parts, **options):
    parts = parts_of([extent_of(path) for path in paths], n_parts)
    found = [rows_of(piece, **options) for part in parts for piece in part]
    whole = [
        rows_of(piece, **options) for [[piece]] in (parts_of([extent_of(p)], 1) for p in paths)
    ]
    assert_array_equal(
        np.concatenate([rows for rows in found if rows is not None]), np.concatenate(whole)
    )
    return parts


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the same 60 rows in every format, in two files of 23 and 37."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(60, 3)), 2) * (rng.random((60, 3)) < 0.6)
    y = np.arange(60.0)
    (tmp_path / "all").mkdir()
    for name, rows in (("0", slice(0, 23)), ("1", slice(23, None))):
        own, labels = X[rows].astype(np.float32), y[rows]
        table = pa.table({**dict(zip(NAMES, own.T.copy(), strict=True)), "y": labels})
        np.save(tmp_path / f"{name}.npy", np.column_stack([own, labels]))
        parquet.write_table(table, tmp_path / "all" / f"{name}.parquet", row_group_size=5)
        csv.write_csv(table, tmp_path / f"{name}.csv")
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
        dump_snap(own, labels, tmp_path / f"{name}.dense.snap")
        dump_snap(csr_matrix(own), labels, tmp_path / f"{name}.sparse.snap")
    return tmp_path


LABELS = {"npy": 3, "csv": "y", "arrow": "y", "dense.snap": None, "sparse.snap": None}


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4, 7, 61, 130])
@pytest.mark.parametrize("kind", LABELS)
def test_parts_of_two_files_are_their_rows(folder, kind, n_parts):
    paths = [folder / f"0.{kind}", folder / f"1.{kind}"]
    parts = assert_parts_are_the_whole(paths, n_parts, label=LABELS[kind])
    assert len(parts) == n_parts


@pytest.mark.parametrize("n_parts", [1, 2, 3, 12, 13, 61])
def test_parts_of_a_folder_of_parquet_files_are_its_rows(folder, n_parts):
    parts = assert_parts_are_the_whole([folder / "all"], n_parts, label="y")
    sizes = [
        sum(np.diff(piece.options.get("rows", (0, 60)))[0] for piece in part) for part in parts
    ]
    assert max(sizes) <= 60 / n_parts * 1.25 + 1.0


def test_cuts_keep_to_row_groups_that_are_near(folder):
    parts = parts_of([extent_of(folder / "all")], 3)
    assert [piece.options["rows"] for [piece] in parts] == [(0, 20), (20, 38), (38, 60)]


def test_partitions_of_a_folder_are_columns_of_every_part(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"a": np.arange(20.0), "y": np.arange(20.0), "part": np.arange(20) // 7})
    parquet.write_to_dataset(table, tmp_path / "rows", partition_cols=["part"])
    assert_parts_are_the_whole([tmp_path / "rows"], 4, label="y")


@pytest.mark.parametrize("n_parts", [1, 2, 3, 9])
def test_parts_of_csv_without_names_or_a_last_newline_are_its_rows(tmp_path, n_parts):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(f"{k},{k / 8},{k % 2}" for k in range(30)))
    options = {"label": 2, "has_header": False}
    assert_parts_are_the_whole([path], n_parts, **options)


def test_csv_whose_names_hold_a_newline_cannot_be_cut(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('"a\nb",c\n1,2\n3,4\n')
    with pytest.raises(ValueError, match="name ends in the next line: expected offset=0"):
        list(read_batches(path, offset=9))


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.sampled_from([b"1 1:2", b"", b"# note", b"2 1:1 2:3 # x", b"3\r"]), max_size=9
    ),
    has_end=st.booleans(),
    n_parts=st.integers(1, 12),
)
@example(lines=[], has_end=False, n_parts=3)
@example(lines=[b"1 " + b" ".join(b"%d:1" % k for k in range(1, 2000))], has_end=False, n_parts=4)
@example(lines=[b"1 1:1", b"2 2:1"], has_end=True, n_parts=12)
def test_byte_ranges_have_every_line_once(tmp_path_factory, lines, has_end, n_parts):
    path = tmp_path_factory.mktemp("text") / "rows.svm"
    path.write_bytes(b"\n".join(lines) + (b"\n" if has_end and lines else b""))
    options = {"zero_based": False, "n_features": 2000}
    X, y = load_svmlight(path, **options)
    parts = parts_of([extent_of(path)], n_parts)
    found = [load_svmlight(path, **options, **piece.options) for [piece] in filter(None, parts)]
    assert_array_equal(np.concatenate([labels for _, labels in found]), y)
    assert_array_equal(np.concatenate([rows.toarray() for rows, _ in found]), X.toarray())


@settings(max_examples=100, deadline=None)
@given(
    files=st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["bytes", "rows", "whole"]))
                   , min_size=1, max_size=8),
    n_parts=st.integers(1, 9),
)  # fmt: skip
@example(files=[(0, "bytes")], n_parts=2)
@example(files=[(50, "whole"), (1, "bytes"), (50, "whole")], n_parts=3)
@example(files=[(1, "whole"), (1, "whole"), (1, "whole"), (97, "whole")], n_parts=4)
def test_pieces_lie_end_to_end(files, n_parts):
    extents = [Extent(str(k), "npy", size, unit) for k, (size, unit) in enumerate(files)]
    is_whole = all(unit == "whole" for _, unit in files)
    if is_whole and sum(size for size, _ in files) and len(files) < n_parts:
        with pytest.raises(ValueError, match=f"at least {n_parts} files.*got {len(files)}"):
            parts_of(extents, n_parts)
        return
    covered = {extent.path: [] for extent in extents}
    parts = parts_of(extents, n_parts)
    assert len(parts) == n_parts
    for piece in (piece for part in parts for piece in part):
        begin, end = 0, files[int(piece.path)][0]
        if "rows" in piece.options:
            begin, end = piece.options["rows"]
        if "offset" in piece.options:
            begin, end = piece.options["offset"], sum(piece.options.values())
        covered[piece.path].append((begin, end))
    for extent in extents:
        ends = [0, *(end for _, end in covered[extent.path])]
        assert [begin for begin, _ in covered[extent.path]] == ends[:-1]
        assert ends[-1] == extent.size
        assert extent.unit != "whole" or len(covered[extent.path]) <= 1


def test_whole_files_go_one_to_each_where_sizes_differ():
    extents = [Extent(str(k), "svmlight", size, "whole") for k, size in enumerate([1, 1, 1, 97])]
    assert [[piece.path for piece in part] for part in parts_of(extents, 4)] == [
        ["0"], ["1"], ["2"], ["3"]
    ]  # fmt: skip


def test_what_cannot_be_divided_says_why(tmp_path):
    (tmp_path / "x.svm.bz2").write_bytes(bz2.compress(b"1 1:1\n"))
    dump_snap(np.ones((4, 2)), np.ones(4), tmp_path / "x.snap", by_column=True)
    for name, why in (("x.svm.bz2", "compressed text"), ("x.snap", "a snap file by columns")):
        with pytest.raises(
            ValueError, match=rf"{name}.*\({why}\) cannot .* 2 files.*got 1; .*convert"
        ):
            parts_of([extent_of(tmp_path / name)], 2)
    with pytest.raises(ValueError, match=r"one format, got .*x.snap .snap. and .*bz2 .svmlight."):
        parts_of([extent_of(tmp_path / name) for name in ("x.snap", "x.svm.bz2")], 2)
    convert(iter([(np.ones((3, 2)), np.ones(3))]), tmp_path / "store")
    with pytest.raises(ValueError, match="expected a file or a folder of Parquet files, got a st"):
        extent_of(tmp_path / "store")


@pytest.mark.parametrize("kind", ["npy", "arrow", "sparse.snap"])
@pytest.mark.parametrize("rows", [(-1, 3), (5, 4), (0, 24)])
def test_rows_that_are_not_there_are_refused(folder, kind, rows):
    with pytest.raises(ValueError, match=r"rows=.* of 0 to 23, in order"):
        next(read_batches(folder / f"0.{kind}", rows=rows))
