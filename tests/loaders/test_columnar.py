"""Parquet, Arrow and CSV: types of columns, partitions, and what is refused with its name."""

import bz2
import gzip
import lzma
import re

import numpy as np
import pytest

from snapml.io import ClickLogEncoder, convert, read_batches

pa = pytest.importorskip("pyarrow", reason="reads Parquet, Arrow and CSV")
pc = pytest.importorskip("pyarrow.csv", reason="reads CSV")
pq = pytest.importorskip("pyarrow.parquet", reason="reads Parquet")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).astype(np.float32)
Y = RNG.integers(0, 2, 300).astype(np.float64)
TABLE = pa.table({**{f"c{k}": column for k, column in enumerate(X.T)}, "y": Y})


def write_arrow(path, make=None):
    make = make or pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as stream, make(stream, TABLE.schema) as writer:
        writer.write_table(TABLE, 70)


def write_csv(path, opener=open, **options):
    with opener(path, "wb") as stream:
        pc.write_csv(TABLE, stream, pc.WriteOptions(**options))


WRITERS = {
    "rows.parquet": lambda path: pq.write_table(TABLE, path, row_group_size=70),
    "rows.arrow": write_arrow,
    "rows.feather": write_arrow,
    "rows.arrows": lambda path: write_arrow(path, pa.ipc.new_stream),
    "rows.csv": write_csv,
    "rows.csv.gz": lambda path: write_csv(path, gzip.open),
    "rows.csv.xz": lambda path: write_csv(path, lzma.open),
}


def assert_same(store, rows=X):
    found, y = store.load()
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("name", WRITERS)
def test_files_with_named_columns(tmp_path, name):
    WRITERS[name](tmp_path / name)
    calls = []
    store = convert(
        tmp_path / name, tmp_path / "a", label="y", progress=lambda *call: calls.append(call)
    )
    assert_same(store)
    size = (tmp_path / name).stat().st_size
    assert calls[-1] == (size, size)
    backwards = ["c4", "c3", "c2", "c1", "c0"]
    store = convert(tmp_path / name, tmp_path / "b", label="y", columns=backwards)
    assert_same(store, X[:, ::-1])


def test_csv_with_other_delimiter_and_without_names(tmp_path):
    write_csv(tmp_path / "rows.csv", include_header=False, delimiter=";")
    options = {"delimiter": ";", "has_header": False}
    assert_same(convert(tmp_path / "rows.csv", tmp_path / "a", label=-1, **options))
    assert_same(convert(tmp_path / "rows.csv", tmp_path / "b", label="f5", **options))


def test_whole_numbers_in_the_first_block_of_csv_decide_nothing(tmp_path):
    lines = ["a,y"] + ["1,0"] * 3_000_000 + ["0.5,1"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    store = convert(tmp_path / "rows.csv", tmp_path / "store", label="y")
    assert store.matrix(store.n_chunks - 1).values[-1, 0] == 0.5


def test_partitions_are_columns(tmp_path):
    for k in range(3):
        (tmp_path / "rows" / f"day={k}").mkdir(parents=True)
        pq.write_table(TABLE.slice(100 * k, 100), tmp_path / "rows" / f"day={k}" / "part.parquet")
    store = convert(tmp_path / "rows", tmp_path / "store", label="y")
    assert_same(store, np.column_stack([X, np.repeat(np.arange(3), 100)]).astype(np.float32))


VECTORS = {
    "fixed": pa.FixedSizeListArray.from_arrays(pa.array(X[:, :4].ravel()), 4),
    "list": pa.array(X[:, :4].tolist(), pa.list_(pa.float32())),
    "large list": pa.array(X[:, :4].tolist(), pa.large_list(pa.float64())),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [4]),
        pa.FixedSizeListArray.from_arrays(pa.array(X[:, :4].ravel()), 4),
    ),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_columns_of_vectors_beside_columns_of_numbers(tmp_path, kind):
    table = pa.table({"v": VECTORS[kind], "c4": X[:, 4], "y": Y})
    assert_same(convert(table.to_reader(max_chunksize=70), tmp_path / "a", label="y"))
    assert_same(convert(table.slice(0, 300).to_reader(), tmp_path / "b", label="y"))
    half = list(read_batches(table.slice(150).to_reader(), label="y"))
    np.testing.assert_array_equal(np.vstack([batch.X for batch in half]), X[150:])


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["float32", "int8", "bool"], np.float32),
        (["float32", "int32"], np.float64),
        (["float16", "uint16"], np.float32),
        (["float32", "float64"], np.float64),
    ],
)
def test_batches_have_the_smallest_type_that_holds_all_columns(types, expected):
    columns = {str(k): pa.array(np.array([1, 0, 1]).astype(kind)) for k, kind in enumerate(types)}
    [batch] = read_batches(pa.table(columns).to_reader())
    assert batch.X.dtype == expected
    np.testing.assert_array_equal(batch.X, np.repeat([[1], [0], [1]], len(types), axis=1))


@pytest.mark.parametrize("is_list", [False, True])
def test_batches_are_bounded_whatever_the_row_groups_are(tmp_path, is_list):
    wide = pa.table({f"c{k}": np.zeros(400_000, np.float32) for k in range(20)})
    if is_list:
        values = pa.array(np.zeros(8_000_000, np.float32))
        wide = pa.table(
            {"v": pa.ListArray.from_arrays(np.arange(400_001, dtype="i4") * 20, values)}
        )
    pq.write_table(wide, tmp_path / "rows.parquet", row_group_size=400_000)
    for source in (tmp_path / "rows.parquet", wide.to_reader()):
        sizes = [batch.X.nbytes for batch in read_batches(source)]
        assert max(sizes) <= 2**24
        assert sum(sizes) == 400_000 * 80


def test_frames_are_sources_of_convert_too(tmp_path):
    pd = pytest.importorskip("pandas", reason="makes frames")
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=Y)
    assert_same(convert(iter([frame[:100], frame[100:]]), tmp_path / "store", label="y"))


def with_column(**columns):
    return TABLE.slice(0, 3).append_column(*next(iter(columns.items())))


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (with_column(s=[["a", "b", "c"]]), TypeError, r"'s': expected numbers, got type string; .*"
                                                      r"ClickLogEncoder"),
        (with_column(s=[pa.array(["a", "b", "a"]).dictionary_encode()]), TypeError,
         r"'s': expected numbers, got type dictionary.*ClickLogEncoder"),
        (with_column(s=[pa.array([0, 0, 0], pa.timestamp("s"))]), TypeError, "'s'.*timestamp"),
        (with_column(s=[[1.0, None, 2.0]]), ValueError, r"'s', row 1 .*got null \(1 in"),
        (with_column(s=[[1.0, np.nan, 2.0]]), ValueError, "batch 0 .*finite.*row 1 .*'s'"),
        (with_column(s=[[1.0, np.inf, 2.0]]), ValueError, "batch 0 .*finite.*row 1 .*'s'"),
        (with_column(s=[[[1.0], [1.0, 2.0], [3.0]]]), ValueError, "rows from 0 .*length.*1 to 2"),
        (with_column(s=[[[1.0], None, [3.0]]]), ValueError, "'s', rows from 0 .* lists.*1 null"),
        (with_column(s=[[[1.0], [None], [3.0]]]), ValueError, "'s'.*expected a number, got null"),
        (with_column(c0=[[1.0, 1.0, 1.0]]), ValueError, "different names, got twice: {'c0'}"),
        (TABLE.slice(0, 0), ValueError, "expected at least one row"),
        (TABLE.select(["y"]), ValueError, "expected at least one column of features"),
        (TABLE.drop_columns("y"), ValueError, r"label='y': expected the name .*'c0', 'c1'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["parquet", "stream"])
def test_bad_columns_are_named_and_nothing_is_left(tmp_path, table, error, says, kind):
    source = table.to_reader()
    if kind == "parquet":
        if len(set(table.column_names)) < len(table.column_names):
            pytest.skip("the reader refuses it itself")
        source, says = tmp_path / "rows.parquet", "rows.parquet.*" + says
        pq.write_table(table, source)
    with pytest.raises(error, match=says):
        convert(source, tmp_path / "store", label="y")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", [name for name in WRITERS if "csv" not in name])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.95])
def test_truncated_files_are_named_and_leave_nothing(tmp_path, name, share):
    path = tmp_path / name
    WRITERS[name](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises((ValueError, OSError), match=name):
        convert(path, tmp_path / "store", label="y")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,y\n1,0\nred,1\n", "rows.csv.*'red'"),
        ("a,y\n1,0\n,1\n", "rows.csv.*'a', row 1 .counted from 0.: expected.*null"),
        ("a,y\n1,0\n1,2,3\n", "rows.csv.*Expected 2 columns, got 3"),
        ("a,y\n1,0\nnan,1\n", "rows.csv.*'a', row 1 .counted from 0.: expected.*null"),
        ("a,y\n1,0\ninf,1\n", "rows.csv, batch 0 .*finite.*row 1 .*'a'"),
        ("a,y\n", "rows.csv.*at least one row"),
        ("", "rows.csv.*Empty CSV"),
        ("a,y\n" + "1,0\n" * 2_000_000 + "red,1\n", "rows.csv.*'red'"),
    ],
)
def test_bad_csv_is_named_and_leaves_nothing(tmp_path, text, says):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(ValueError, match=says):
        convert(tmp_path / "rows.csv", tmp_path / "store", label="y")
    assert not (tmp_path / "store").exists()


def test_columns_of_an_encoder_may_be_of_any_kind(tmp_path):
    table = pa.table({"y": [1.0, 0.0, 1.0], "n": [3, None, 7], "c": pa.array(["red", None, "red"])})
    pq.write_table(table, tmp_path / "rows.parquet")
    encoder = ClickLogEncoder(1000)
    store = convert(tmp_path / "rows.parquet", tmp_path / "a", label="y", encoder=encoder)
    rows, y = store.load()
    expected = encoder.transform(table.drop_columns("y"))
    np.testing.assert_array_equal(rows.indices, expected.indices)
    np.testing.assert_array_equal(y, [1, 0, 1])
    write = pc.write_csv
    write(table, tmp_path / "rows.csv")
    store = convert(tmp_path / "rows.csv", tmp_path / "b", label="y", encoder=encoder)
    np.testing.assert_array_equal(store.load()[0].indices, expected.indices)


def test_missing_package_is_named(tmp_path, monkeypatch):
    WRITERS["rows.parquet"](tmp_path / "rows.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"rows.parquet.*pip install 'snapml-open\[arrow\]'"):
        convert(tmp_path / "rows.parquet", tmp_path / "store")


def test_rows_are_counted_through_all_batches(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "1.25,0\n" * 3_000_000 + ",1\n")
    with pytest.raises(ValueError, match=r"'a', row 3000000 \(counted from 0\).*fill in"):
        convert(path, tmp_path / "store", label="y")


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_delimiter_is_proposed(tmp_path, sign):
    path = tmp_path / "rows.csv"
    path.write_text(f"a{sign}y\n1{sign}0\n2{sign}1\n")
    with pytest.raises(ValueError, match=re.escape(f"maybe delimiter={sign!r}")):
        convert(path, tmp_path / "store", label="y")
    assert convert(path, tmp_path / "store", label="y", delimiter=sign).shape == (2, 1)


def test_one_column_whose_name_has_a_sign_is_no_error(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1\n2\n")
    assert convert(path, tmp_path / "store").shape == (2, 1)


@pytest.mark.parametrize("name", ["rows.tsv", "rows.tsv.gz"])
def test_tabs_divide_what_is_named_so(tmp_path, name):
    text = b"a\tb\ty\n1\t2\t0\n3\t4\t1\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    X, y = convert(tmp_path / name, tmp_path / "store", label="y").load()
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(y, [0, 1])


def zstd(text):
    return pa.compress(text, "zstd", asbytes=True)


def test_zstd_is_read_as_the_other_compressions_are(tmp_path):
    lines = b"".join(b"%d 1:%d 2:1\n" % (k % 2, k) for k in range(9000))
    (tmp_path / "rows.svm.zst").write_bytes(zstd(lines))
    X, y = convert(tmp_path / "rows.svm.zst", tmp_path / "store").load()
    assert X.shape == (9000, 2)
    np.testing.assert_array_equal(y, np.arange(9000) % 2)
    (tmp_path / "rows.csv.zst").write_bytes(zstd(b"a,y\n" + b"1,0\n2,1\n" * 50))
    assert convert(tmp_path / "rows.csv.zst", tmp_path / "other", label="y").shape == (100, 1)


@pytest.mark.parametrize("compress", [zstd, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_compressed_text_that_ends_early_is_named(tmp_path, name, compress):
    rng = np.random.default_rng(0)
    form = "0 1:{}\n" if name == "rows.svm" else "0,{}\n"
    text = "".join(form.format(number) for number in rng.random(9000))
    packed = compress(text.encode())
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ValueError, match=rf"{name}: the compressed data are damaged or end early"):
        convert(tmp_path / name, tmp_path / "store")
    assert not (tmp_path / "store").exists()
