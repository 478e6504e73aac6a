"""How raw fields became hashed columns is kept, applied at prediction, and never contradicted."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from snapml import LogisticRegression, load, predict_batches
from snapml.cli import main
from snapml.data import ChunkedDataset
from snapml.io import ClickLogEncoder, convert

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a table, with columns in another order, and without labels."""
    rng = np.random.default_rng(0)
    n_rows = 600
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows),
            "city": rng.choice(list("abcdefgh"), n_rows),
            "income": rng.normal(size=n_rows),
        }
    )
    frame["label"] = frame.city.isin(list("ace")).astype(int)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame[["city", "label", "income", "age"]].to_csv(tmp_path / "other.csv", index=False)
    frame.drop(columns="label").to_csv(tmp_path / "bare.csv", index=False)
    frame.assign(age=frame.age.astype(str)).to_parquet(tmp_path / "text.parquet")
    lines = [
        f"{a}\t{i:.3f}\t{c}\n" for a, i, c in frame.loc[:, ["age", "income", "city"]].to_numpy()
    ]
    labelled = [f"{y}\t{line}" for y, line in zip(frame.label, lines, strict=True)]
    (tmp_path / "log.tsv").write_text("".join(labelled))
    assert run("train", tmp_path / "rows.csv", *HASHED, "--model", tmp_path / "m") == 0
    return tmp_path


HASHED = ("--label", "label", "--hash-columns", "--n-features", "4096", "--hash-seed", "3")


def run(command, *words):
    return main([command, *map(str, words), "--quiet"])


def predicted(folder, source, *options, model="m"):
    out = folder / "p.npy"
    given = (folder / source, *options, "--model", folder / model, "--output", out)
    assert run("predict", *given, "--method", "decision_function") == 0
    return np.load(out)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("rows.csv", ()),  # the label is no feature
        ("other.csv", ("--label", "label")),
        ("other.csv", ()),
        ("bare.csv", ()),
        ("rows.parquet", ()),
        ("bare.csv", ("--hash-columns",)),
        ("bare.csv", ("--hash-seed", "3")),
    ],
)
def test_predictions_hash_as_the_fit_did(folder, source, options):
    expected = predicted(folder, "rows.csv", *HASHED)
    np.testing.assert_array_equal(predicted(folder, source, *options), expected)


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("rows.csv", ("--hash-seed", "4"), "seed: expected 3 as in fit, got 4"),
        ("text.parquet", (), r"text_columns: expected ['city'] as in fit, got ['age', 'city']"),
        (
            "log.tsv",
            ("--format", "clicklog"),
            "expected rows of hashed columns as in fit, got click log",
        ),
    ],
)
def test_what_contradicts_the_fit_is_refused(folder, source, options, says, capsys):
    given = (folder / source, *options, "--model", folder / "m", "--output", folder / "p.npy")
    assert run("predict", *given) != 0
    assert says in capsys.readouterr().err
    assert not (folder / "p.npy").exists()


def test_stores_keep_their_encoding_and_models_compare_it(folder):
    options = dict(label="label", encoder=ClickLogEncoder(4096, seed=3))
    store = convert(folder / "rows.csv", folder / "s", **options)
    kept = ChunkedDataset.open(folder / "s").manifest.encoding
    assert kept["columns"] == ["age", "city", "income"]
    assert kept["text_columns"] == ["city"]
    model = LogisticRegression().fit(store)
    assert model.encoding_ == kept
    model.save(folder / "saved")
    assert load(folder / "saved").encoding_ == kept
    options["encoder"] = ClickLogEncoder(4096)
    other = convert(folder / "rows.csv", folder / "t", **options)
    for predict in (model.predict, lambda X: next(predict_batches(model, X))):
        predict(store)
        with pytest.raises(ValueError, match="seed: expected 3 as in fit, got 0"):
            predict(other)
    with pytest.raises(ValueError, match="seed: expected 3 as in fit, got 0"):
        convert(folder / "rows.csv", folder / "s", append=True, **options)
    np.testing.assert_array_equal(model.predict(folder / "bare.csv"), model.predict(store))
    assert not hasattr(model.fit(np.eye(2), [0, 1]), "encoding_")


def test_click_logs_are_hashed_as_in_fit(folder):
    shape = ("--format", "clicklog", "--n-numbers", "2", "--n-categories", "1")
    given = (*shape, "--n-features", "2048", "--hash-seed", "5")
    assert run("train", folder / "log.tsv", *given, "--model", folder / "c") == 0
    expected = predicted(folder, "log.tsv", *given, model="c")
    found = predicted(folder, "log.tsv", "--format", "clicklog", model="c")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--hash-seed", "6", "seed: expected 5 as in fit, got 6"),
        ("--n-numbers", "1", "n_numbers: expected 2 as in fit, got 1"),
    ],
)
def test_click_logs_of_other_shapes_are_refused(folder, capsys, option, value, says):
    shape = ("--format", "clicklog", "--n-numbers", "2", "--n-categories", "1")
    given = (*shape, "--n-features", "2048", "--hash-seed", "5")
    assert run("train", folder / "log.tsv", *given, "--model", folder / "c") == 0
    given = ("--format", "clicklog", option, value, "--model", folder / "c")
    assert run("predict", folder / "log.tsv", *given, "--output", folder / "p.npy") != 0
    assert says in capsys.readouterr().err


def test_info_tells_of_names_and_encodings(folder, capsys):
    assert main(["info", str(folder / "m")]) == 0
    assert "hashed columns of 3 columns: n_features=4096, seed=3" in capsys.readouterr().out
    assert run("convert", folder / "rows.csv", folder / "s", *HASHED) == 0
    assert main(["info", str(folder / "s"), "--json"]) == 0
    told = capsys.readouterr().out
    assert '"encoding": "hashed columns of 3 columns: n_features=4096, seed=3"' in told
    assert '"stored_entries"' in told


def scipy_rows(X):
    values = np.ones(X.n_stored) if X.values is None else X.values
    return csr_matrix((values, X.indices, X.indptr), shape=X.shape)


TEXT = ("--label", "label", "--hash-text", "--n-features", "4096", "--hash-seed", "3")


def test_text_is_hashed_beside_numbers(folder):
    assert run("convert", folder / "rows.csv", folder / "s", *TEXT) == 0
    X = scipy_rows(ChunkedDataset.open(folder / "s").load()[0])
    frame = pd.read_csv(folder / "rows.csv")
    assert X.shape == (600, 2 + 4096)
    numbers = X[:, :2].toarray()
    np.testing.assert_array_equal(numbers, frame[["age", "income"]].to_numpy(np.float32))
    alone = scipy_rows(ClickLogEncoder(4096, seed=3).transform(frame[["age", "city", "income"]]))
    hashed = X[:, 2:]
    assert (hashed.sum(axis=1) == 1.0).all()
    assert (alone.multiply(hashed) != hashed).nnz == 0  # in the column that hashing all gives


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("other.csv", ()),
        ("bare.csv", ()),
        ("rows.parquet", ()),
        ("bare.csv", ("--hash-text",)),
        ("bare.csv", ("--hash-seed", "3")),
    ],
)
def test_predictions_keep_numbers_as_the_fit_did(folder, source, options):
    assert run("train", folder / "rows.csv", *TEXT, "--model", folder / "t") == 0
    frame = pd.read_csv(folder / "rows.csv")
    scores = predicted(folder, source, *options, model="t")
    assert ((scores > 0) == (frame.label == 1)).all()  # which depends on the city alone


def test_another_way_to_hash_is_refused(folder, capsys):
    assert run("train", folder / "rows.csv", *TEXT, "--model", folder / "t") == 0
    for model, option in (("t", "--hash-columns"), ("m", "--hash-text")):
        given = ("predict", folder / "bare.csv", option, "--model", folder / model, "--score")
        assert run(*given) == 1
        assert "keep_numbers: expected" in capsys.readouterr().err


def test_a_missing_number_is_zero_and_a_category():
    frame = pd.DataFrame({"a": [1.5, np.nan], "b": ["x", None]})
    X = scipy_rows(ClickLogEncoder(50, keep_numbers=True).transform(frame)).toarray()
    assert X[:, 0].tolist() == [1.5, 0.0]
    assert X[:, 1:].sum(axis=1).tolist() == [1.0, 2.0]


def test_lines_of_text_keep_no_numbers():
    with pytest.raises(ValueError, match="keep_numbers: expected False"):
        next(ClickLogEncoder(50, keep_numbers=True).batches("nothing"))
