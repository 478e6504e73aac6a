"""The command line: what the library does, and exit codes, messages and files left behind."""

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, r2_score

import snapml
from snapml import DecisionTreeClassifier, DecisionTreeRegressor, Lasso
from snapml.cli import main, make_parser
from snapml.cli.estimator_options import ESTIMATORS
from snapml.cli.exit_codes import LISTED
from snapml.cli.progress import ProgressLine
from snapml.cli.scores import RunningScore
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.io import load_svmlight
from snapml.io.readers.batch import Batch

DOCUMENT = Path(__file__).parents[2] / "docs" / "command_line.md"

OF_COUNTS = {
    "poisson": [],
    "gamma": [],
    "tweedie": ["--power", "1.5"],
    "negative-binomial": ["--theta", "0.5"],
    "glm": ["--family", "tweedie (1.3)", "--link", "log"],
}


def write_svmlight(path, n_rows=300, n_columns=6, *, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_columns)), 3)
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=n_rows) > 0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{k + 1}:{float(v)!r}" for k, v in enumerate(row))
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def rows(tmp_path):
    return write_svmlight(tmp_path / "rows.svm")


@pytest.fixture
def store(tmp_path, rows, capsys):
    path = tmp_path / "store"
    assert main(["convert", str(rows), str(path), "--chunk-bytes", "2KB", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    return path


@pytest.fixture
def model(tmp_path, store):
    path = tmp_path / "model"
    assert main(["train", str(store), "--model", str(path), "--quiet"]) == 0
    return path


def error_of(capsys, *arguments):
    """Return the exit code and the only line on stderr."""
    code = main([str(argument) for argument in arguments])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("snapml: ")
    return code, lines[0]


def usage_error_of(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    return capsys.readouterr().err


def table_of(text):
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines())


def test_conversion_writes_the_rows(tmp_path, rows, capsys):
    path = tmp_path / "store"
    assert main(["convert", str(rows), str(path), "--dtype", "float64"]) == 0
    found = table_of(capsys.readouterr().out)
    assert found["rows"] == "300"
    assert found["classes"] == "-1, 1"
    X, y = load_svmlight(rows)
    found, labels = ChunkedDataset.open(path).load()
    np.testing.assert_array_equal(found.values, X.data)
    np.testing.assert_array_equal(labels, y)
    assert main(["convert", str(rows), str(path), "--append", "--quiet"]) == 0
    assert ChunkedDataset.open(path).shape == (600, 6)


def test_csv_columns_have_their_roles(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    (tmp_path / "rows.csv").write_text("1;0.5;2;1\n0;0.25;3;4\n")
    arguments = ["--label", "0", "--weight", "3", "--no-header", "--delimiter", ";"]
    assert main(["convert", f"{tmp_path}/rows.csv", f"{tmp_path}/store", *arguments]) == 0
    store = ChunkedDataset.open(tmp_path / "store")
    assert store.load()[0].tolist() == [[0.5, 2.0], [0.25, 3.0]]
    assert store.labels().tolist() == [1.0, 0.0]
    assert store.weights().tolist() == [1.0, 4.0]


def test_categories_of_csv_are_hashed(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "rows.csv").write_text("y,a,b\n" + "1,red,x\n0,blue,x\n" * 20)
    how = ["--label", "y", "--hash-columns"]
    source, model = f"{tmp_path}/rows.csv", f"{tmp_path}/model"
    train = ["train", source, "--model", model, "--n-features", "64", "--quiet", *how]
    assert main(train) == 0
    predict = ["predict", source, "--model", model, "--output", f"{tmp_path}/p.npy", *how]
    assert main(predict) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), [1.0, 0.0] * 20)


def test_click_logs_are_encoded_alike_for_training_and_prediction(tmp_path, capsys):
    lines = ["1\t3\tred", "0\t\tblue"] * 20
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    (tmp_path / "unlabelled").write_text("\n".join(line[2:] for line in lines) + "\n")
    how = ["--format", "clicklog", "--n-numbers", "1", "--n-categories", "1", "--hash-seed", "5"]
    train = ["train", f"{tmp_path}/log", "--model", f"{tmp_path}/model", "--n-features", "128"]
    assert main([*train, "--quiet", *how]) == 0
    predict = ["predict", f"{tmp_path}/unlabelled", "--model", f"{tmp_path}/model", "--no-labels"]
    assert main([*predict, "--output", f"{tmp_path}/p.txt", "--quiet", *how]) == 0
    assert (tmp_path / "p.txt").read_text().split() == ["1.0", "0.0"] * 20
    capsys.readouterr()


@pytest.mark.parametrize("estimator", OF_COUNTS)
def test_counts_and_amounts_are_trained_and_predicted(tmp_path, estimator, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).round(3)
    y = rng.poisson(np.exp(X[:, 0])) + 1.0
    rows = np.column_stack([y, X])
    header = "target,a,b,c"
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header=header, comments="")
    train = ["train", f"{tmp_path}/rows.csv", "--label", "target", "--estimator", estimator]
    train += OF_COUNTS[estimator]
    assert main([*train, "--alpha", "0.01", "--model", f"{tmp_path}/model", "--quiet"]) == 0
    model = snapml.load(tmp_path / "model")
    predict = ["predict", f"{tmp_path}/rows.csv", "--model", f"{tmp_path}/model", "--quiet"]
    assert main([*predict, "--output", f"{tmp_path}/means.txt"]) == 0
    means = np.loadtxt(tmp_path / "means.txt")
    np.testing.assert_allclose(means, np.exp(X @ model.coef_ + model.intercept_), rtol=1e-5)
    capsys.readouterr()


@pytest.mark.parametrize("estimator", [each for each in ESTIMATORS if each not in OF_COUNTS])
@pytest.mark.parametrize("source", ["store", "file"])
def test_training_gives_the_model_of_the_library(
    tmp_path, rows, store, estimator, source, monkeypatch, capsys
):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = tmp_path / "model"
    arguments = [str(store if source == "store" else rows), "--model", str(path)]
    if estimator in ("lasso", "elasticnet", "linear", "quantile"):
        arguments += ["--in-memory"]
    if estimator in ("lasso", "elasticnet"):
        arguments += ["--alpha", "0.01"]
    assert main(["train", *arguments, "--estimator", estimator]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no progress where stderr is no terminal
    loaded = snapml.load(path)
    found = table_of(out)
    assert found["estimator"] == type(loaded).__name__
    assert found["rows"] == "300"
    assert found["ran on"] == "CPU"
    assert float(found["objective"]) == pytest.approx(loaded.objective_, rel=1e-6)
    X, y = load_svmlight(rows, dtype=np.float32)
    parameters = {"alpha": 0.01} if estimator in ("lasso", "elasticnet") else {}
    direct = ESTIMATORS[estimator](**parameters).fit(X, y)
    assert type(loaded) is type(direct)
    np.testing.assert_allclose(loaded.coef_, direct.coef_, rtol=0.01, atol=1e-4)
    assert not any((tmp_path / "temporary").iterdir())


def test_options_become_parameters(tmp_path, store, capsys):
    arguments = "--C 0.5 --l1-ratio 0 --class-weight=-1=1,1=2.5 --tol 1e-3 --max-iter 77 --seed 3"
    arguments += " --threads 1 --no-deterministic --no-intercept --memory-limit 1MB --solver pqn"
    train = ["train", str(store), "--model", f"{tmp_path}/model", *arguments.split()]
    assert main([*train, "--multi-class", "ovr"]) == 0
    found = snapml.load(tmp_path / "model").get_params()
    expected = {
        "C": 0.5,
        "l1_ratio": 0.0,
        "class_weight": {-1.0: 1.0, 1.0: 2.5},
        "tol": 1e-3,
        "max_iter": 77,
        "random_state": 3,
        "n_threads": 1,
        "deterministic": False,
        "fit_intercept": False,
        "memory_limit": 10**6,
        "solver": "pqn",
        "multi_class": "ovr",
        "verbose": 0,
    }
    assert {name: found[name] for name in expected} == expected
    capsys.readouterr()


def test_weights_of_a_store_count(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(100, 3)), rng.random(100)
    y = X.sum(axis=1) + rng.normal(size=100)
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(X, y, weights)
    expected = snapml.Ridge().fit(X, y, weights)
    for more in ([], ["--in-memory"]):
        train = ["train", f"{tmp_path}/store", "--model", f"{tmp_path}/m", "--estimator", "ridge"]
        assert main([*train, *more]) == 0
        np.testing.assert_allclose(snapml.load(tmp_path / "m").coef_, expected.coef_, rtol=1e-4)
    capsys.readouterr()


def test_fit_that_stops_early_has_its_own_code(tmp_path, store, capsys):
    train = ["train", str(store), "--model", f"{tmp_path}/model", "--tol", "1e-12"]
    code, line = error_of(capsys, *train, "--max-iter", "1", "--quiet")
    assert code == 3
    assert "--tol 1e-12 was not reached" in line
    assert snapml.load(tmp_path / "model").coef_.shape == (1, 6)


def test_verbose_prints_each_read(tmp_path, store, capsys):
    assert main(["train", str(store), "--model", f"{tmp_path}/m", "--verbose", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "certified gap" in err
    assert snapml.load(tmp_path / "m").verbose == 0


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("kind", ["store", "rows"])
def test_predictions_are_those_of_the_model(tmp_path, rows, store, model, method, kind, capsys):
    source = store if kind == "store" else rows
    arguments = ["predict", str(source), "--model", str(model), "--output", f"{tmp_path}/p.npy"]
    assert main([*arguments, "--method", method]) == 0
    assert table_of(capsys.readouterr().out) == {"rows": "300"}
    expected = getattr(snapml.load(model), method)(load_svmlight(rows)[0])
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected, rtol=1e-5, atol=1e-6)


def test_scores_are_those_of_scikit_learn(tmp_path, rows, store, model, capsys):
    assert main(["predict", str(rows), "--model", str(model), "--score"]) == 0
    found = table_of(capsys.readouterr().out)
    X, y = load_svmlight(rows)
    loaded = snapml.load(model)
    assert float(found["accuracy"]) == pytest.approx(accuracy_score(y, loaded.predict(X)))
    assert float(found["log loss"]) == pytest.approx(log_loss(y, loaded.predict_proba(X)))
    ridge = ["train", str(store), "--model", f"{tmp_path}/r", "--estimator", "ridge", "--quiet"]
    assert main(ridge) == 0
    assert main(["predict", str(store), "--model", f"{tmp_path}/r", "--score"]) == 0
    found = table_of(capsys.readouterr().out)
    expected = r2_score(y, snapml.load(tmp_path / "r").predict(X))
    assert float(found["R2"]) == pytest.approx(expected, rel=1e-5)


def test_running_scores_add_up_over_unequal_weighted_batches():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(90, 3)), rng.random(90)
    y = X.sum(axis=1) + rng.normal(size=90) + 1e3
    model = snapml.Ridge().fit(X, y)
    score = RunningScore(model)
    for begin, end in ((0, 1), (1, 40), (40, 90)):
        part = slice(begin, end)
        score.add(Batch(X[part], y[part], weights[part]), [model.predict(X[part])])
    expected = r2_score(y, model.predict(X), sample_weight=weights)
    assert float(score.values()["R2"]) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", ["classifier", "categories", "regressor", "outputs"])
def test_trees_predict_and_are_told_of(tmp_path, rows, name, capsys):
    X, y = load_svmlight(rows)
    X = X.toarray()
    tree = {
        "classifier": DecisionTreeClassifier(max_depth=3),
        "categories": DecisionTreeClassifier(
            max_depth=3, splitter="hist", max_bins=300, categorical_features=[0]
        ),
        "regressor": DecisionTreeRegressor(max_depth=3),
        "outputs": DecisionTreeClassifier(max_depth=3, splitter="best"),
    }[name]
    X[:, 0] = X[:, 0] > 0  # two categories
    np.save(tmp_path / "rows.npy", X)
    tree.fit(X, np.column_stack([y, -y]) if name == "outputs" else y).save(tmp_path / "tree")
    predict = ["predict", f"{tmp_path}/rows.npy", "--model", f"{tmp_path}/tree", "--quiet"]
    assert main([*predict, "--output", f"{tmp_path}/p.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), tree.predict(X))
    assert main(["info", f"{tmp_path}/tree"]) == 0
    found = table_of(capsys.readouterr().out)
    assert (found["nodes"], found["depth"]) == (str(tree.tree_.node_count), "3")
    assert found.get("classes") == {"regressor": None, "outputs": "-1, 1; -1, 1"}.get(name, "-1, 1")


def test_a_method_that_the_model_lacks_is_named(tmp_path, rows, capsys):
    X, y = load_svmlight(rows)
    Lasso().fit(X, y).save(tmp_path / "lasso")
    predict = ["predict", rows, "--model", f"{tmp_path}/lasso", "--output", f"{tmp_path}/p.npy"]
    code, line = error_of(capsys, *predict, "--method", "predict_proba")
    assert (code, "method: expected one of ['predict'] of Lasso" in line) == (1, True)


def test_info_tells_of_stores_models_and_rows(rows, store, model, capsys):
    assert main(["info", str(store), "--verify"]) == 0
    found = table_of(capsys.readouterr().out)
    assert found["kind"] == "chunk store"
    assert found["rows"] == "300"
    assert found["stored entries"] == "1,800"
    assert found["dtype"] == "float32"
    assert found["checksums"] == "right"
    assert main(["info", str(model)]) == 0
    found = table_of(capsys.readouterr().out)
    assert found["class"] == "LogisticRegression"
    assert found["classes"] == "-1, 1"
    assert found["coefficients"] == "1x6"
    assert main(["info", str(rows), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 300
    assert found["columns"] == 6
    assert found["classes"] == "-1, 1"


def test_damage_is_found(store, model, capsys):
    chunk = max(store.glob("chunk-*"))
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    assert main(["info", str(store)]) == 0
    capsys.readouterr()
    code, line = error_of(capsys, "info", store, "--verify", "--quiet")
    assert code == 1
    assert f"{chunk}: the checksum of labels is wrong" in line
    model.write_bytes(model.read_bytes()[:-1])
    assert error_of(capsys, "info", model)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("convert none.svm store", "none.svm: expected a file or folder with rows, found none"),
        ("convert rows.svm .", "expected a new or empty folder"),
        ("convert rows.svm s --n-features 2", "--n-features 2"),
        ("train none --model m", "none: expected a file or folder"),
        ("train rows.svm --model none/m", "none/m: expected an existing folder"),
        ("train rows.svm --model m --C -1", "C == -1.0, must be > 0"),
        ("train rows.svm --model m --devices 0", ""),
        ("predict rows.svm --model rows.svm --score", "expected a model file of snapml"),
        ("predict rows.svm --model none --score", "No such file"),
        ("predict rows.svm --model m --output p.bin", "expected a name that ends in .npy"),
        ("info none", "none"),
        ("info .", "expected the folder of a store"),
    ],
)
def test_failures_are_one_line_and_leave_nothing(
    tmp_path, rows, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, line = error_of(capsys, *arguments.split())
    assert code == 1
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before


def test_store_names_what_the_user_can_do_for_an_estimator_in_memory(tmp_path, store, capsys):
    train = ["train", store, "--model", tmp_path / "m", "--estimator", "linear"]
    code, line = error_of(capsys, *train)
    assert code == 1
    assert "--in-memory" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("learn", "invalid choice: 'learn'"),
        ("train rows.svm", "required: --model"),
        ("train rows.svm --model m --estimator tree", "invalid choice: 'tree'"),
        ("train rows.svm --model m --estimator ridge --C 1", "--C: --estimator ridge has no such"),
        ("train rows.svm --model m --loss hinge", "--loss: --estimator logistic has no such"),
        ("train rows.svm --model m --memory-limit many", "expected bytes"),
        ("train rows.svm --model m --class-weight 1:2", "expected 'balanced' or weights"),
        ("train rows.svm --model m --devices all", "expected numbers of GPUs"),
        ("convert rows.svm s --chunk-bytes 0", "expected bytes"),
        ("convert rows.svm s --chunk-bytes auto", "expected bytes"),
        ("predict rows.svm --model m", "expected --output FILE, --score, or both"),
    ],
)
def test_bad_usage_has_code_2(capsys, arguments, message):
    assert message in usage_error_of(capsys, *arguments.split())


def test_options_of_files_are_refused_for_a_store(tmp_path, store, capsys):
    train = ["train", store, "--model", tmp_path / "m", "--label", "y"]
    assert "a store says itself" in usage_error_of(capsys, *train)


def test_debug_shows_where_an_error_comes_from(capsys):
    with pytest.raises(FileNotFoundError):
        main(["info", "none", "--debug"])


def test_interrupted_conversion_leaves_nothing(tmp_path, rows, monkeypatch, capsys):
    calls = []
    flush = ChunkWriter._flush

    def interrupted(self):
        calls.append(flush(self))
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ChunkWriter, "_flush", interrupted)
    arguments = ("convert", rows, tmp_path / "store", "--chunk-bytes", "1KB")
    assert error_of(capsys, *arguments) == (130, "snapml: interrupted")
    assert not (tmp_path / "store").exists()


def test_interrupted_fit_leaves_no_model(tmp_path):
    write_svmlight(tmp_path / "rows.svm", 20_000, 30)
    command = [sys.executable, "-m", "snapml", "train", "rows.svm", "--model", "model"]
    endless = ["--estimator", "svc", "--loss", "hinge", "--solver", "sdca", "--C", "100"]
    arguments = ["--tol", "0", "--max-iter", "1000000", "--verbose", "--threads", "1"]
    process = subprocess.Popen(
        [*command, *endless, *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    first = process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert first.startswith("epoch"), first + rest
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "snapml: interrupted"
    assert "Traceback" not in rest
    assert [path.name for path in tmp_path.iterdir()] == ["rows.svm"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_on_a_terminal_only(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("read", False) as line:
        line.bytes(10**6, 4 * 10**6)
        line.bytes(2 * 10**6, 4 * 10**6)  # too soon after the first
        line.bytes(4 * 10**6, 4 * 10**6)
    first, last, blank, end = terminal.getvalue().split("\r")[1:]
    assert re.match(r"read 1 MB, \d+ MB/s \[#{7} {23}\] 25 %, \d:\d\d left", first)
    assert re.match(r"read 4 MB, \d+ MB/s \[#{30}\] 100 %, 0:00 left", last)
    assert (blank.strip(), end) == ("", "")
    for stream, is_quiet in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressLine("read", is_quiet) as line:
            line.bytes(1, 1)
            line.text("text")
        assert stream.getvalue() == ""


def test_fit_shows_its_gap_on_a_terminal(tmp_path, store, monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["train", str(store), "--model", f"{tmp_path}/model"]) == 0
    assert "certified gap" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert snapml.load(tmp_path / "model").verbose == 0


def parsers():
    """Return the parser of each command by name."""
    [commands] = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return commands.choices


def test_every_option_is_explained_in_help_and_in_the_document():
    sections = dict(
        re.findall(r"^## `snapml (\w+)`\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.M | re.S)
    )
    assert set(sections) == set(parsers())
    shared = DOCUMENT.read_text().split("## Options that several commands share")[1]
    for name, parser in parsers().items():
        options = {}
        for action in parser._actions:
            assert action.help or action.choices, action
            options |= dict.fromkeys(action.option_strings)
        written = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", sections[name]))
        common = set(re.findall(r"^\| `(--[\w-]+)", shared, re.M))
        assert set(options) - {"-h", "--help"} <= written | common, name
        assert written <= set(options), name
    for code in LISTED:
        assert re.search(rf"^\| {code} \|", DOCUMENT.read_text(), re.M)


def test_commands_run_as_a_module():
    run = subprocess.run(
        [sys.executable, "-m", "snapml", "--help"], capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0
    for name in parsers():
        assert name in run.stdout
    assert "130 interrupted" in run.stdout
