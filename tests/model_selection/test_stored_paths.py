"""`LogisticRegressionCV` over stores, files and streams: what it finds in rows in memory."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold

from snapml import LogisticRegression, LogisticRegressionCV
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.searches.shared import fits as shared_fits
from tests.estimators.test_callbacks import Recorder

QUIET = {"use_legacy_attributes": False, "scoring": "neg_log_loss", "l1_ratios": (0,)}
EXACT = {"Cs": [1e-2, 1.0], "cv": 3, "tol": 1e-11, "max_iter": 5000, **QUIET}


def write(path, X, y=None, weights=None):
    with ChunkWriter(path, chunk_bytes=2000) as writer:
        writer.append(X, y, weights)
    store = ChunkedDataset.open(path, memory_limit=0)
    assert store.n_chunks > 1
    return store


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:240, :12], y[:240].astype(float)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X - X.mean(0), y.astype(float)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary stores are."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture
def n_shared(monkeypatch):
    """How many models each shared solve has fitted."""
    sizes, solve = [], shared_fits.many_models.solve

    def counted(problem, products, targets, *args, **kwargs):
        sizes.append(len(targets.factors))
        return solve(problem, products, targets, *args, **kwargs)

    monkeypatch.setattr(shared_fits.many_models, "solve", counted)
    return sizes


def assert_same(stored, in_memory, atol=1e-6):
    for name in ("scores_", "coefs_paths_", "coef_", "intercept_"):
        found, expected = getattr(stored, name), getattr(in_memory, name)
        assert not np.isnan(expected).any()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=atol, err_msg=name)
    np.testing.assert_allclose(stored.C_, in_memory.C_)
    np.testing.assert_allclose(stored.l1_ratio_, in_memory.l1_ratio_)
    assert stored.scores_.dtype == in_memory.scores_.dtype
    assert stored.coefs_paths_.dtype == in_memory.coefs_paths_.dtype
    np.testing.assert_array_equal(stored.classes_, in_memory.classes_)
    assert stored.n_features_in_ == in_memory.n_features_in_


@pytest.mark.parametrize("refit", [True, False], ids=["refit", "mean"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_folds_share_the_reads_of_a_store(cancer, is_sparse, refit, n_shared, tmp_path):
    X, y = cancer
    X = sparse.csr_matrix(X * (np.abs(X) > 0.5)) if is_sparse else X
    model = LogisticRegressionCV(**EXACT, refit=refit)
    stored = clone(model).fit(write(tmp_path / "store", X, y))
    assert n_shared == [6]
    assert_same(stored, model.fit(X, y))
    if refit:
        assert stored.gap_ <= 1e-11 * stored.objective_
        assert "chunks in memory" in stored.solver_
    np.testing.assert_array_equal(stored.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"l1_ratios": (0, 1), "tol": 1e-9},
        {"l1_ratios": (0.5,), "tol": 1e-9, "scoring": "roc_auc"},
        {"solver": "liblinear", "scoring": "accuracy"},
        {"solver": "sdca", "scoring": make_scorer(log_loss, response_method="predict_proba")},
        {"fit_intercept": False, "solver": "pqn"},
        {"class_weight": "balanced", "scoring": "f1"},
        {"class_weight": {0.0: 3.0, 1.0: 0.5}},
    ],
    ids=lambda parameters: "-".join(map(str, parameters.values()))[:40],
)
def test_two_classes_with_other_parameters(cancer, parameters, tmp_path):
    X, y = cancer
    model = LogisticRegressionCV(**EXACT | parameters)
    stored = clone(model).fit(write(tmp_path / "store", X, y))
    assert_same(stored, model.fit(X, y), atol=2e-4)  # of certified gaps, not of coefficients


@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_several_classes(iris, multi_class, tmp_path):
    X, y = iris
    model = LogisticRegressionCV(**EXACT, multi_class=multi_class)
    stored = clone(model).fit(write(tmp_path / "store", X, y))
    assert_same(stored, model.fit(X, y))
    legacy = clone(model).set_params(use_legacy_attributes=True)
    both = clone(legacy).fit(str(tmp_path / "store")), legacy.fit(X, y)
    for label in (0.0, 1.0, 2.0):
        found, expected = (one.coefs_paths_[label] for one in both)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert both[0].C_.tolist() == both[1].C_.tolist()


@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_that_lack_a_class(iris, n_classes, multi_class, tmp_path):
    X, y = (part[y_of] for y_of in [iris[1] < n_classes] for part in iris)
    cv = KFold(n_classes)  # in the order of the classes: each fold leaves one out
    model = LogisticRegressionCV(**EXACT | {"cv": cv}, multi_class=multi_class)
    stored = clone(model).fit(write(tmp_path / "store", X, y))
    assert_same(stored, model.fit(X, y), atol=1e-5)


@pytest.mark.parametrize("where", ["store", "fit"])
@pytest.mark.parametrize("l1_ratio", [0, 0.5])
def test_weights_of_rows_are_those_of_fits_and_scores(cancer, where, l1_ratio, tmp_path):
    X, y = cancer
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = LogisticRegressionCV(**EXACT | {"l1_ratios": (l1_ratio,), "tol": 1e-9})
    given = {"sample_weight": weights}
    store = write(tmp_path / "store", X, y, weights if where == "store" else None)
    stored = clone(model).fit(store, **(given if where == "fit" else {}))
    plain = clone(model).fit(X, y)
    assert_same(stored, model.fit(X, y, **given), atol=1e-4)
    assert np.abs(stored.scores_ - plain.scores_).max() > 1e-3


@pytest.mark.parametrize("l1_ratio", [0, 0.7])
def test_offsets_of_rows(cancer, l1_ratio, tmp_path):
    X, y = cancer
    offset = np.random.default_rng(1).normal(size=len(y))
    model = LogisticRegressionCV(**EXACT | {"l1_ratios": (l1_ratio,), "tol": 1e-9})
    store = write(tmp_path / "store", X, y)
    stored = clone(model).fit(store, offset=offset)
    assert_same(stored, model.fit(X, y, offset=offset), atol=1e-4)
    assert stored.has_offset_
    found = stored.score(store, y, offset=offset)
    assert found == pytest.approx(model.score(X, y, offset=offset), abs=1e-5)
    with pytest.raises(ValueError, match="offset: expected that of each row"):
        stored.score(store, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_keep_their_dtype(cancer, dtype, tmp_path):
    X, y = cancer[0].astype(dtype), cancer[1]
    for l1_ratio in (0, 0.5):
        model = LogisticRegressionCV(**EXACT | {"l1_ratios": (l1_ratio,), "tol": 1e-6})
        stored = clone(model).fit(write(tmp_path / f"store{l1_ratio}", X, y))
        assert_same(stored, model.fit(X, y), atol=5e-3)
        assert stored.coef_.dtype == dtype


def test_labels_of_any_kind_beside_a_store(cancer, tmp_path):
    X, y = cancer
    labels = np.where(y > 0, "benign", "malignant")
    model = LogisticRegressionCV(**EXACT | {"cv": StratifiedKFold(3, shuffle=True, random_state=0)})
    stored = clone(model).fit(write(tmp_path / "store", X), labels)
    assert_same(stored, model.fit(X, labels))
    assert stored.classes_.tolist() == ["benign", "malignant"]


def test_a_file_and_a_stream_are_searched_by_way_of_a_temporary_store(cancer, temporary, tmp_path):
    X, y = cancer
    names = [f"f{k}" for k in range(X.shape[1])]
    header = ",".join([*names, "y"])
    table = np.column_stack([X, y])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header=header, comments="")
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"))
    model = LogisticRegressionCV(**EXACT)
    in_memory = clone(model).fit(X, y)
    named = clone(model).fit(str(tmp_path / "rows.csv"), "y")
    assert named.feature_names_in_.tolist() == names
    plain = clone(model).fit(tmp_path / "rows.svm")
    assert not hasattr(plain, "feature_names_in_")
    streamed = clone(model).fit(
        (X[first : first + 50], y[first : first + 50]) for first in range(0, 240, 50)
    )
    for found in (named, plain, streamed):
        assert_same(found, in_memory, atol=1e-4)
    assert plain.score(tmp_path / "rows.svm", y) == pytest.approx(in_memory.score(X, y), abs=1e-4)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("l1_ratio", [0, 1])
def test_a_failed_search_leaves_neither_a_store_nor_a_model(
    cancer, l1_ratio, temporary, monkeypatch
):
    X, y = cancer
    model = LogisticRegressionCV(**QUIET | {"l1_ratios": (l1_ratio,)})

    def fail(*args, **kwargs):
        assert list(temporary.iterdir())
        raise MemoryError("of this test")

    monkeypatch.setattr(LogisticRegression, "_run", fail)
    with pytest.raises(MemoryError, match="of this test"):
        model.fit(iter([(X, y)]))
    assert not list(temporary.iterdir())
    assert set(vars(model)) == set(model.get_params())


def test_chunks_in_memory_serve_all_fits(iris, tmp_path, monkeypatch):
    X, y = iris
    store = write(tmp_path / "store", X, y)
    reads, read = [], ChunkedDataset.matrix

    def counted(self, number, *args):
        reads.append(number)
        return read(self, number, *args)

    monkeypatch.setattr(ChunkedDataset, "matrix", counted)
    LogisticRegressionCV(**EXACT, memory_limit="1GB", n_jobs=2).fit(store)
    assert sorted(reads) == list(range(store.n_chunks))
    reads.clear()
    LogisticRegressionCV(**EXACT, memory_limit=0).fit(store)
    assert len(reads) > 20 * store.n_chunks


@pytest.mark.parametrize("l1_ratio", [0, 1])
def test_time_bounds_a_search_over_a_store(cancer, l1_ratio, tmp_path, monkeypatch):
    X, y = cancer
    store = write(tmp_path / "store", X, y)
    model = LogisticRegressionCV(**EXACT | {"l1_ratios": (l1_ratio,)}, max_time_s=1e-9)
    with pytest.raises(TimeoutError, match="expected at least one candidate to be judged"):
        model.fit(store)
    assert set(vars(model)) == set(model.get_params())
    with pytest.warns(ConvergenceWarning):
        LogisticRegressionCV(**EXACT | {"max_iter": 1}).fit(store)


def test_callbacks_see_steps_and_passes_over_a_store(cancer, tmp_path):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    X, y = cancer
    store, seen = write(tmp_path / "store", X, y), Recorder()
    model = LogisticRegressionCV(**EXACT).set_callbacks(seen).fit(store)
    assert seen.calls.count("end step") > 6  # of the fold's models, and of their shared steps
    assert seen.calls.index("end pass") > seen.calls.index("end step")
    assert seen.models
    assert all(rows is store and labels is None for rows, labels, _ in seen.data)
    np.testing.assert_allclose(seen.models[-1].coef_, model.coef_, rtol=1e-4)


def test_what_a_store_cannot_serve_is_refused(cancer, iris, temporary, tmp_path):
    X, y = cancer
    store = write(tmp_path / "store", X, y)
    own = LogisticRegressionCV(**QUIET | {"scoring": lambda model, X, y: 0.0})
    for rows in (store, str(tmp_path / "store")):
        with pytest.raises(TypeError, match=r"scoring by name or .* takes rows in memory"):
            own.fit(rows)
    batches = iter([(X, y)])
    with pytest.raises(TypeError, match="which takes rows in memory"):
        own.fit(batches)
    assert next(batches)[0] is X  # nothing was read
    model = LogisticRegressionCV(**QUIET)
    with pytest.raises(ValueError, match="written without labels"):
        model.fit(write(tmp_path / "unlabelled", X))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[240, 3\]"):
        model.fit(store, [0.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="there is none"):
        model.fit(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="memory_limit"):
        LogisticRegressionCV(**QUIET, memory_limit="much").fit(store)
    with pytest.raises(NotImplementedError, match="on a store"):
        LogisticRegressionCV(**QUIET | {"l1_ratios": (1,)}).fit(write(tmp_path / "three", *iris))
    assert not list(temporary.iterdir())
