"""The fits of the table: models x layouts x dtypes x places x threads x numbers of models."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from kernels.emulator.strict_arrays import StrictDevice
from scipy.sparse import csr_matrix

from snapml import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV
from snapml.solvers import threads
from snapml.solvers.plan import device_choice

MODELS: dict[str, Callable[..., Any]] = {
    "logistic": lambda **kw: LogisticRegression(**kw),
    "logistic C=inf": lambda **kw: LogisticRegression(C=np.inf, **kw),
    "logistic sdca": lambda **kw: LogisticRegression(solver="sdca", C=10.0, **kw),
    "logistic pqn": lambda **kw: LogisticRegression(solver="pqn", fit_intercept=False, **kw),
    "logistic balanced": lambda **kw: LogisticRegression(class_weight="balanced", **kw),
    "logistic liblinear": lambda **kw: LogisticRegression(
        solver="liblinear", intercept_scaling=3.0, **kw
    ),
    "logistic l1": lambda **kw: LogisticRegression(C=0.1, l1_ratio=1.0, **kw),
    "logistic l1 liblinear": lambda **kw: LogisticRegression(
        C=0.1, l1_ratio=1.0, solver="liblinear", **kw
    ),
    "logistic elastic net": lambda **kw: LogisticRegression(C=0.3, l1_ratio=0.4, **kw),
    "multinomial": lambda **kw: LogisticRegression(**kw),
    "multinomial C=inf": lambda **kw: LogisticRegression(C=np.inf, **kw),
    "multinomial l1": lambda **kw: LogisticRegression(C=0.2, l1_ratio=1.0, **kw),
    "one against the rest": lambda **kw: LogisticRegression(multi_class="ovr", **kw),
    "squared hinge": lambda **kw: LinearSVC(**kw),
    "squared hinge sdca": lambda **kw: LinearSVC(solver="sdca", **kw),
    "squared hinge l1": lambda **kw: LinearSVC(penalty="l1", dual=False, C=0.1, **kw),
    "squared hinges": lambda **kw: LinearSVC(class_weight="balanced", **kw),
    "hinge": lambda **kw: LinearSVC(loss="hinge", **kw),
    "hinge sdca": lambda **kw: LinearSVC(loss="hinge", solver="sdca", **kw),
    "ridge": lambda **kw: Ridge(**kw),
    "ridge sdca": lambda **kw: Ridge(solver="sdca", tol=1e-7, **kw),
    "ridge pqn": lambda **kw: Ridge(solver="pqn", **kw),
    "ridge positive": lambda **kw: Ridge(positive=True, **kw),
    "ridge targets": lambda **kw: Ridge(alpha=3.0, **kw),
    "ridge classifier": lambda **kw: RidgeClassifier(**kw),
    "least squares": lambda **kw: LinearRegression(**kw),
    "lasso": lambda **kw: Lasso(alpha=0.05, **kw),
    "lasso positive": lambda **kw: Lasso(alpha=0.05, positive=True, **kw),
    "elastic net": lambda **kw: ElasticNet(alpha=0.05, l1_ratio=0.3, **kw),
    "logistic cv": lambda **kw: LogisticRegressionCV(Cs=4, cv=3, use_legacy_attributes=False, **kw),
    "lasso cv": lambda **kw: LassoCV(alphas=8, cv=3, **kw),
    "elastic net cv": lambda **kw: ElasticNetCV(alphas=6, cv=3, l1_ratio=[0.3, 0.9], **kw),
    "ridge cv": lambda **kw: RidgeCV(alphas=[0.1, 1.0, 10.0]),
    "ridge classifier cv": lambda **kw: RidgeClassifierCV(alphas=[0.1, 1.0, 10.0]),
    "search logistic": lambda **kw: GridSearchCV(
        LogisticRegression(**kw), {"C": [0.1, 1.0, 10.0]}, cv=3
    ),
    "search squared hinge": lambda **kw: GridSearchCV(LinearSVC(**kw), {"C": [0.1, 1.0]}, cv=3),
    "search ridge": lambda **kw: GridSearchCV(Ridge(**kw), {"alpha": [0.1, 1.0, 10.0]}, cv=3),
}
FOLDED = [name for name in MODELS if name.endswith(" cv") or name.startswith("search")]
LAYOUTS = [("dense", "float64"), ("dense", "float32"), ("csr", "float64"), ("csr", "float32")]
FIRST = ["logistic", "logistic l1", "multinomial", "squared hinge", "hinge", "ridge", "lasso"]
ON_STORES = [*FIRST, "logistic C=inf", "elastic net", "squared hinges"]
ON_DEVICES = [*FIRST, "logistic C=inf", "logistic sdca", "one against the rest"]
STREAMED = ["logistic", "multinomial", "squared hinge", "ridge"]


@dataclass(frozen=True)
class Fit:
    """One row of the table."""

    model: str
    data: str  # tall, wide or many
    layout: str
    dtype: str
    place: str = "memory"  # or store, device, devices, store to device
    n_threads: int = 2

    @property
    def name(self) -> str:
        """What the table calls it."""
        return "/".join(
            [self.model, self.data, self.layout, self.dtype, self.place, str(self.n_threads)]
        )


def _every() -> Iterator[Fit]:
    for model in MODELS:
        if model in FOLDED:
            yield from (Fit(model, "tall", *where) for where in LAYOUTS[::3])
        else:
            yield from (Fit(model, "tall", *where) for where in LAYOUTS)
    for model in FIRST:
        yield Fit(model, "wide", "csr", "float64")
        yield Fit(model, "wide", "dense", "float32")
        yield Fit(model, "many", "dense", "float64")
        yield Fit(model, "tall", "csr", "float64", n_threads=1)
    for model in ON_STORES:
        yield from (Fit(model, "tall", *where, "store") for where in LAYOUTS[::3])
    for model in ON_DEVICES:
        yield from (Fit(model, "tall", *where, "device") for where in LAYOUTS[1:3])
    for model in STREAMED:
        yield Fit(model, "tall", "dense", "float64", "devices")
        yield Fit(model, "tall", "csr", "float32", "devices")
        yield Fit(model, "tall", "dense", "float32", "store to device")


FITS = {fit.name: fit for fit in _every()}
SHAPES = {"tall": (600, 12), "wide": (120, 500), "many": (30_000, 8)}


def make_data(fit: Fit) -> tuple[Any, np.ndarray]:
    """Return X and y, whose values are the same in every layout and dtype of a shape."""
    shape = SHAPES[fit.data]
    rng = np.random.default_rng(7)
    X = rng.integers(-8, 9, size=shape) / 4.0
    X *= rng.random(shape) < (0.4 if fit.layout == "csr" else 1.0)
    truth = rng.integers(-4, 5, size=(shape[1], 3)) / 4.0
    noise = rng.integers(-8, 9, size=(shape[0], 3)) / 8.0
    scores = X @ truth + noise * np.sqrt(shape[1])
    if fit.model.startswith(("multinomial", "one", "squared hinges", "ridge classifier")):
        y = scores.argmax(axis=1)
    elif fit.model == "ridge targets":
        y = scores
    elif _is_regression(fit.model):
        y = scores[:, 0] + 10.0
    else:
        y = (scores[:, 0] > 1.0).astype(int)
    X = X.astype(fit.dtype)
    return (csr_matrix(X) if fit.layout == "csr" else X), y


def _is_regression(model: str) -> bool:
    return model.startswith(("ridge", "least", "lasso", "elastic", "search ridge"))


class Answer(NamedTuple):
    """What a fit has found."""

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: str
    solver: str
    objective: float  # NaN where the class has none
    gap: float


@contextlib.contextmanager
def _stored(X: Any, y: np.ndarray, limit: int | str) -> Iterator[ChunkedDataset]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        with ChunkWriter(path, chunk_bytes=16_000) as writer:
            writer.append(X, y)
        yield ChunkedDataset.open(path, memory_limit=limit)


def _emulated(_: int) -> StrictDevice:
    return StrictDevice()


def run(fit: Fit) -> Answer:
    """Fit and return the answer; small data get the threads that are asked for."""
    X, y = make_data(fit)
    settings: dict[str, Any] = {"n_threads": fit.n_threads}
    if "device" in fit.place:
        settings["device_ids"] = [0, 1] if fit.place == "devices" else [0]
        if fit.model in ("hinge", "logistic sdca"):
            settings["max_iter"] = 8  # an epoch takes the emulator long
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # what is warned of is other tests' subject
        stack.enter_context(mock.patch.object(threads, "_ENTRIES_PER_THREAD", 1))
        stack.enter_context(mock.patch.object(device_choice, "make_device", new=_emulated))
        model = MODELS[fit.model](**settings)
        if fit.place.startswith("store"):
            store = stack.enter_context(_stored(X, y, 0))
            model.fit(store)
        else:
            model.fit(X, y)
    model = getattr(model, "best_estimator_", model)
    return Answer(
        np.asarray(model.coef_),
        np.asarray(model.intercept_),
        _numbers(getattr(model, "n_iter_", None)),
        str(getattr(model, "solver_", "")),
        float(np.sum(getattr(model, "objective_", np.nan))),
        float(np.sum(getattr(model, "gap_", np.nan))),
    )


def _numbers(n_iter: Any) -> str:
    return "" if n_iter is None else " ".join(str(k) for k in np.ravel(n_iter))
