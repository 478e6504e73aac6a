"""Names of columns travel with rows and models, and are compared as scikit-learn compares them."""

import numpy as np
import pandas as pd
import pytest

from snapml import LogisticRegression, LogisticRegressionCV, load, predict_batches
from snapml.cli import main
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.io import convert
from snapml.model_selection import GridSearchCV

pytest.importorskip("pyarrow")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "income", "height"])
    return frame.assign(label=(frame.age - 2.0 * frame.income > 0).astype(int))


def write(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_line_predicts_reordered_columns_alike(tmp_path, frame, suffix):
    rows = write(frame, tmp_path / f"rows.{suffix}")
    other = write(frame[["height", "label", "income", "age"]], tmp_path / f"other.{suffix}")
    model = tmp_path / "m"
    assert main(["train", str(rows), "--label", "label", "--model", str(model), "--quiet"]) == 0
    assert load(model).feature_names_in_.tolist() == ["age", "income", "height"]
    found = []
    for k, source in enumerate((rows, other)):
        out = tmp_path / f"{k}.npy"
        given = ["predict", str(source), "--label", "label", "--model", str(model), "--quiet"]
        assert main([*given, "--output", str(out), "--method", "decision_function"]) == 0
        found.append(np.load(out))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_line_refuses_a_renamed_column(tmp_path, frame, suffix, capsys):
    rows = write(frame, tmp_path / f"rows.{suffix}")
    renamed = write(frame.rename(columns={"age": "years"}), tmp_path / f"renamed.{suffix}")
    model = tmp_path / "m"
    assert main(["train", str(rows), "--label", "label", "--model", str(model), "--quiet"]) == 0
    out = tmp_path / "p.npy"
    given = ["predict", str(renamed), "--label", "label", "--model", str(model)]
    assert main([*given, "--output", str(out)]) != 0
    assert "'age'" in capsys.readouterr().err
    assert not out.exists()


def test_rows_in_memory_keep_the_names_of_the_store(tmp_path, frame):
    rows, model = write(frame, tmp_path / "rows.csv"), tmp_path / "m"
    given = ["train", str(rows), "--label", "label", "--model", str(model), "--quiet"]
    assert main([*given, "--in-memory"]) == 0
    assert load(model).feature_names_in_.tolist() == ["age", "income", "height"]


def test_stores_have_names_and_models_compare_them(tmp_path, frame):
    store = convert(write(frame, tmp_path / "rows.csv"), tmp_path / "s", label="label")
    assert ChunkedDataset.open(tmp_path / "s").feature_names == ("age", "income", "height")
    assert store.part(0, 1).feature_names == store.feature_names
    model = LogisticRegression().fit(store)
    assert model.feature_names_in_.tolist() == ["age", "income", "height"]
    assert model.score(frame[["age", "income", "height"]], frame.label) > 0.9
    other = write(frame[["income", "age", "height", "label"]], tmp_path / "other.csv")
    swapped = convert(other, tmp_path / "swapped", label="label")
    for predict in (model.predict, lambda X: next(predict_batches(model, X))):
        assert predict(store).shape == (300,)
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            predict(swapped)
    renamed = frame.rename(columns={"age": "years"})
    renamed = convert(write(renamed, tmp_path / "renamed.csv"), tmp_path / "r", label="label")
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- years\n.*missing:\n- age"):
        model.predict(renamed)


def test_searches_over_stores_and_copies_of_stores_keep_names(tmp_path, frame):
    store = convert(write(frame, tmp_path / "rows.csv"), tmp_path / "s", label="label")
    names = ["age", "income", "height"]
    assert convert(store, tmp_path / "copy").feature_names == tuple(names)
    assert (
        LogisticRegressionCV(
            Cs=2, cv=2, l1_ratios=(0,), use_legacy_attributes=False, scoring="neg_log_loss"
        )
        .fit(store)
        .feature_names_in_.tolist()
        == names
    )
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(store)
    assert search.best_estimator_.feature_names_in_.tolist() == names


def test_a_side_without_names_is_warned_of(tmp_path, frame):
    store = convert(write(frame, tmp_path / "rows.csv"), tmp_path / "s", label="label")
    names = ["age", "income", "height"]
    np.save(tmp_path / "rows.npy", frame[names].to_numpy())
    model = LogisticRegression().fit(store)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(tmp_path / "rows.npy")
    nameless = LogisticRegression().fit(frame[names].to_numpy(), frame.label)
    assert not hasattr(nameless, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but"):
        nameless.predict(store)
    assert not hasattr(model.fit(frame[names].to_numpy(), frame.label), "feature_names_in_")


def test_what_is_appended_has_the_names_of_the_store(tmp_path, frame):
    rows = write(frame, tmp_path / "rows.csv")
    convert(rows, tmp_path / "s", label="label")
    assert convert(rows, tmp_path / "s", label="label", append=True).shape == (600, 3)
    other = write(frame[["income", "age", "height", "label"]], tmp_path / "other.csv")
    with pytest.raises(ValueError, match="columns: expected 'age', 'income', 'height' as the"):
        convert(other, tmp_path / "s", label="label", append=True)
    assert ChunkedDataset.open(tmp_path / "s").shape == (600, 3)


def test_a_store_needs_a_name_for_each_column(tmp_path):
    writer = ChunkWriter(tmp_path / "s")
    writer.name_features(["a"])
    writer.append(np.ones((2, 2)))
    with pytest.raises(ValueError, match="a name for each of 2, got 1 names"):
        writer.close()
    writer.abort()
    assert not (tmp_path / "s").exists()
