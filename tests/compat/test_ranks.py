"""Estimators under Snap ML's names on ranks of an MPI job say that each trains its own model."""

import warnings

import numpy as np
import pytest

from snapml import compat

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(float)
CLASSES = (
    "LogisticRegression",
    "SupportVectorMachine",
    "LinearRegression",
    "DecisionTreeRegressor",
)


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch):
    for launcher in ("OMPI_COMM_WORLD", "PMI", "MV2_COMM_WORLD"):
        monkeypatch.delenv(f"{launcher}_SIZE", raising=False)
        monkeypatch.delenv(f"{launcher}_RANK", raising=False)


@pytest.mark.parametrize("launcher", ["OMPI_COMM_WORLD", "PMI", "MV2_COMM_WORLD"])
@pytest.mark.parametrize("name", CLASSES)
def test_first_of_several_ranks_is_warned(monkeypatch, name, launcher):
    monkeypatch.setenv(f"{launcher}_SIZE", "2")
    monkeypatch.setenv(f"{launcher}_RANK", "0")
    says = f"one of 2 ranks .* trains a {name} of its own.*snapml.distributed.mpi"
    with pytest.warns(UserWarning, match=says) as caught:
        getattr(compat, name)().fit(X, Y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("variables", [{}, {"SIZE": "1", "RANK": "0"}, {"SIZE": "2", "RANK": "1"}])
def test_others_are_not(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.LogisticRegression().fit(X, Y)
