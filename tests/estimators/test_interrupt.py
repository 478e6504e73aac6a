"""Ctrl-C during a fit: prompt, clean, and not the end of the process."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from .conftest import run_python

pytestmark = [
    pytest.mark.skipif(
        sys.platform == "win32", reason="SIGINT cannot be sent to one process on Windows"
    ),
    pytest.mark.skipif(
        not Path("/proc/self/task").is_dir(),
        reason="no /proc/self/task on this platform: native threads cannot be counted",
    ),
]

# Fits that would take minutes: tol=0 is never met.
SETUP = """
    import json, os, signal, threading, time, warnings
    from functools import partial
    import numpy as np
    from scipy.sparse import csr_matrix
    from snapml import LinearSVC, LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 50), dtype=np.float32)
    y = (X[:, 0] + rng.standard_normal(40_000, dtype=np.float32) > 0).astype(int)
    endless = {"tol": 0, "max_iter": 10**9, "n_threads": 2}

    def threads():
        time.sleep(0.02)
        return len(os.listdir("/proc/self/task"))

    def interrupted_fit(model, X):
        sent = []
        def send():
            time.sleep(0.25)
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            model.fit(X, y)
            raised = False
        except KeyboardInterrupt:
            raised = True
        late_s = time.perf_counter() - sent[0] if sent else None
        sender.join()
        return raised, late_s
"""
MODELS = {
    "logistic": "partial(LogisticRegression, solver='sdca')",
    "hinge": "partial(LinearSVC, loss='hinge', solver='sdca')",
    "squared hinge": "partial(LinearSVC, solver='sdca')",
    "asynchronous": "partial(LogisticRegression, solver='sdca', deterministic=False)",
}


def report_of(code):
    """Run code after the setup in a fresh interpreter and return the JSON it prints last."""
    out = run_python(textwrap.dedent(SETUP) + textwrap.dedent(code), timeout_s=45)
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("name", MODELS)
def test_sigint_ends_a_fit_at_once_and_leaves_nothing_behind(name):
    reports = report_of(
        f"""
        make = {MODELS[name]}
        reports = []
        for n_threads in (1, 2):
            for rows in (X, csr_matrix(X)):
                model = make(**endless).set_params(n_threads=n_threads)
                before = threads()
                raised, late_s = interrupted_fit(model, rows)
                stored = [n for n in vars(model) if n.endswith("_") and n != "n_features_in_"]
                reports.append([raised, late_s, stored, threads() - before])
        print(json.dumps(reports))
        """
    )
    assert len(reports) == 4
    for raised, late_s, stored, threads_left in reports:
        assert raised
        assert late_s < 0.5
        assert stored == []
        assert threads_left == 0


@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_interrupted_estimator_fits_again_to_the_bits_of_one_never_interrupted(name):
    raised, same = report_of(
        f"""
        make = {MODELS[name]}
        model = make(**endless)
        raised, _ = interrupted_fit(model, X)
        model.set_params(tol=1e-2).fit(X, y)
        other = make(tol=1e-2, n_threads=2).fit(X, y)
        print(json.dumps([raised, bool(np.array_equal(model.coef_, other.coef_))]))
        """
    )
    assert raised
    assert same


def test_interrupted_second_fit_leaves_the_first_model_as_it_was():
    raised, same = report_of(
        """
        model = LogisticRegression(tol=1e-2, solver="sdca").fit(X, y)
        coef, n_iter = model.coef_.copy(), model.n_iter_.copy()
        model.set_params(**endless)
        raised, _ = interrupted_fit(model, X)
        same = np.array_equal(coef, model.coef_) and np.array_equal(n_iter, model.n_iter_)
        print(json.dumps([raised, bool(same)]))
        """
    )
    assert raised
    assert same


def test_any_exception_of_a_signal_handler_ends_the_fit_when_it_comes():
    raised, seconds = report_of(
        """
        class Late(Exception): pass
        def ring(signum, frame): raise Late
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        start = time.perf_counter()
        try:
            LogisticRegression(**endless, solver="sdca").fit(X, y)
            raised = False
        except Late:
            raised = True
        print(json.dumps([raised, time.perf_counter() - start]))
        """
    )
    assert raised
    assert 1.9 <= seconds < 2.5


def test_handler_that_does_not_raise_lets_the_fit_go_on():
    n_seen, n_iter = report_of(
        """
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        def send():
            for _ in range(3):
                time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGINT)
        sender = threading.Thread(target=send)
        warnings.simplefilter("ignore")
        sender.start()
        model = LogisticRegression(**endless, solver="sdca").set_params(max_iter=200).fit(X, y)
        sender.join()
        print(json.dumps([len(seen), int(model.n_iter_[0])]))
        """
    )
    assert n_seen > 0
    assert n_iter == 200


def test_fit_in_another_thread_leaves_sigint_to_the_main_thread():
    raised, is_fitted = report_of(
        """
        warnings.simplefilter("ignore")
        model = LinearSVC(**endless, solver="sdca").set_params(max_iter=200)
        worker = threading.Thread(target=model.fit, args=(X, y))
        worker.start()
        time.sleep(0.1)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
            raised = False
        except KeyboardInterrupt:
            raised = True
        worker.join()
        print(json.dumps([raised, hasattr(model, "coef_")]))
        """
    )
    assert raised
    assert is_fitted


def test_sigint_ends_the_margins_of_many_rows_too():
    raised, late_s = report_of(
        """
        from snapml.data import DenseMatrix
        from snapml.solvers.rows.cpu_rows import margins

        class Margins:
            def fit(self, X, y):
                margins(DenseMatrix(X), np.ones(1000), 0.0, 1)

        one_row = np.ones(1000, dtype=np.float32)
        many = np.lib.stride_tricks.as_strided(one_row, (20_000_000, 1000), (0, 4))
        print(json.dumps(interrupted_fit(Margins(), many)))
        """
    )
    assert raised
    assert late_s < 0.5
