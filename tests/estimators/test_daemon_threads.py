"""A program that ends while a daemon thread fits ends with its own exit code."""

import subprocess
import sys

import pytest

PROGRAM = """
import threading, time, warnings
import numpy as np
from snapml import {name} as Model
warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((50_000, 30))
y = (X[:, 0] > 0.5).astype(int)
def retrain():
    while True:
        Model({parameters}).fit(X, y)
threading.Thread(target=retrain, daemon=True).start()
time.sleep(1.0)
raise SystemExit(7)
"""


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LogisticRegression", ""),
        ("LogisticRegression", "n_threads=1"),
        ("Lasso", "alpha=1e-3"),
        ("LinearSVC", "loss='hinge', C=100"),
        ("DecisionTreeClassifier", "max_depth=8"),
    ],
)
def test_a_daemon_thread_in_fit_does_not_abort_the_program(name, parameters):
    program = PROGRAM.format(name=name, parameters=parameters)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 7, ended.stderr
    assert ended.stderr == ""
