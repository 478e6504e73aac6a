"""Labels that are text, or true and false, come back as they were from every kind of file."""

import numpy as np
import pandas as pd
import pytest

from snapml import LinearSVC, LogisticRegression, Ridge, load, write_predictions
from snapml.cli import main
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.data.label_numbers import LabelNumbers
from snapml.io import convert

pytest.importorskip("pyarrow")

KINDS = {
    "text": np.array(["no", "yes"], object),
    "income": np.array(["<=50K", ">50K"], object),
    "bool": np.array([False, True]),
}
FILES = ["labels.csv", "labels.parquet", "categories.parquet", "labels.feather"]


def make_frame(kind, n_rows=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(size=n_rows)})
    return frame.assign(label=KINDS[kind][(frame.a > 0).astype(int)])


def write(frame, path):
    if path.name == "categories.parquet":
        frame = frame.assign(label=frame.label.astype("category"))
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES)
def test_a_fit_on_a_file_has_the_classes_of_the_frame(tmp_path, kind, file):
    if kind == "bool" and file == "categories.parquet":
        pytest.skip("pandas writes no dictionary of booleans")
    frame = make_frame(kind)
    path = write(frame, tmp_path / file)
    expected = LogisticRegression().fit(frame[["a", "b"]], frame.label)
    found = LogisticRegression().fit(path, "label")
    assert found.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    predicted = found.predict(frame[["a", "b"]])
    assert predicted.tolist() == expected.predict(frame[["a", "b"]]).tolist()
    store = convert(path, tmp_path / "store", label="label")
    assert store.labels().tolist() == frame.label.tolist()
    again = LinearSVC().fit(ChunkedDataset.open(tmp_path / "store"))
    assert again.classes_.tolist() == expected.classes_.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_predicts_labels_as_they_were(tmp_path, kind, capsys):
    frame = make_frame(kind)
    path, model = write(frame, tmp_path / "rows.csv"), tmp_path / "m"
    assert main(["train", str(path), "--label", "label", "--model", str(model), "--quiet"]) == 0
    assert load(model).classes_.tolist() == KINDS[kind].tolist()
    out = tmp_path / "p.npy"
    given = [str(path), "--label", "label", "--model", str(model), "--quiet"]
    assert main(["predict", *given, "--output", str(out), "--score"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert (np.load(out) == frame.label.to_numpy()).mean() > 0.95
    assert main(["convert", str(path), str(tmp_path / "s"), "--label", "label", "--quiet"]) == 0
    assert main(["info", str(tmp_path / "s")]) == 0
    assert str(KINDS[kind][0]) in capsys.readouterr().out


def test_predictions_of_text_go_into_every_kind_of_file(tmp_path):
    frame = make_frame("income")
    model = LogisticRegression().fit(frame[["a", "b"]], frame.label)
    for suffix in ("csv", "txt", "parquet"):
        write_predictions(model, frame[["a", "b"]], tmp_path / f"p.{suffix}")
    assert set(pd.read_csv(tmp_path / "p.csv").iloc[:, 0]) == {"<=50K", ">50K"}
    assert set(pd.read_parquet(tmp_path / "p.parquet").iloc[:, 0]) == {"<=50K", ">50K"}


def test_labels_that_come_late_are_classes_too(tmp_path):
    """A store learns names as they come, and goes on where it is appended to."""
    rng = np.random.default_rng(0)
    with ChunkWriter(tmp_path / "s") as writer:
        writer.append(rng.random((3, 2)), ["b", "a", "b"])
        writer.append(rng.random((1, 2)), np.array(["c"]))
    with ChunkWriter(tmp_path / "s", append=True) as writer:
        writer.append(rng.random((2, 2)), ["a", "d"])
    store = ChunkedDataset.open(tmp_path / "s")
    assert store.labels().tolist() == ["b", "a", "b", "c", "a", "d"]
    assert store.manifest.label_names == ("b", "a", "c", "d")


@pytest.mark.parametrize("second", [[1.0, 2.0], [True, False], ["x", 3], ["x", None]])
def test_labels_of_another_kind_are_refused(second):
    numbers = LabelNumbers()
    numbers.numbers(["x", "y"])
    with pytest.raises(ValueError, match="labels: expected text"):
        numbers.numbers(np.array(second, object))


def test_stores_of_numbers_are_readable_by_versions_before_names(tmp_path):
    with ChunkWriter(tmp_path / "s") as writer:
        writer.append(np.ones((2, 1)), [0.0, 1.0])
    text = (tmp_path / "s" / "manifest.json").read_text()
    assert '"version": 2' in text
    assert "label_names" not in text


@pytest.mark.parametrize("file", ["labels.csv", "labels.parquet"])
def test_an_empty_label_is_told(tmp_path, file):
    frame = make_frame("text")
    frame.loc[7, "label"] = None
    path = write(frame, tmp_path / file)
    with pytest.raises(
        ValueError, match=r"'label', row 7 \(counted from 0\): expected a label, got null"
    ):
        LogisticRegression().fit(path, "label")


def test_regressions_refuse_text(tmp_path):
    path = write(make_frame("text"), tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"y: expected numbers, got text such as '(no|yes)'"):
        Ridge().fit(path, "label")
