"""Fixtures of all tests: every registered loss, both number types, property tests that repeat."""

import gc
import logging
import os

# As many processes run at once as there are cores: BLAS threads beside them would only wait for
# each other, a seventh of the time. Read where NumPy is loaded, here and in what tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest
from combinations import pytest_addoption, pytest_collection_modifyitems

from snapml.problems import Loss, Softmax
from snapml.solvers import threads
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]  # hooks

# The hundreds of programs that tests start compile the package once, not each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_collection_finish():
    """Let no collection of garbage walk through all tests again."""
    gc.freeze()


@pytest.fixture(
    scope="session",
    params=[cls for cls in Loss.__subclasses__() if cls is not Softmax and cls.has_dual_step],
    ids=lambda cls: cls.__name__,
)
def loss(request):
    return request.param()


@pytest.fixture(scope="session", params=["float32", "float64"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture(autouse=True)
def log_as_it_was():
    """Take back what a fit with `verbose` sets up where nobody else has: the next test may look."""
    logger = logging.getLogger("snapml")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.fixture
def small_data_get_threads(monkeypatch):
    """Let a fit on a few rows use as many threads as it asks for."""
    monkeypatch.setattr(threads, "_ENTRIES_PER_THREAD", 1)


@pytest.fixture
def no_polish(monkeypatch):
    """Let a fit on a few rows stop where the tolerance is met, like one on many."""
    monkeypatch.setattr(CpuEngine, "free_visits", 0)
