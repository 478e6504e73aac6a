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
y = {labels}
def retrain():
    while True:
        Model({parameters}).fit(X, y)
threading.Thread(target=retrain, daemon=True).start()
time.sleep(1.0)
raise SystemExit(7)
"""


NUMBERS = "(X[:, 0] > 0.5).astype(int)"
TEXT = "np.where(X[:, 0] > 0.5, 'yes', 'no')"


@pytest.mark.parametrize(
    ("name", "parameters", "labels"),
    [
        ("LogisticRegression", "", NUMBERS),
        ("LogisticRegression", "", TEXT),
        ("LogisticRegression", "n_threads=1", NUMBERS),
        ("Lasso", "alpha=1e-3", NUMBERS),
        ("LinearSVC", "loss='hinge', C=100", NUMBERS),
        ("DecisionTreeClassifier", "max_depth=8", NUMBERS),
    ],
)
def test_a_daemon_thread_in_fit_does_not_abort_the_program(name, parameters, labels):
    program = PROGRAM.format(name=name, parameters=parameters, labels=labels)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 7, ended.stderr
    assert ended.stderr == ""
