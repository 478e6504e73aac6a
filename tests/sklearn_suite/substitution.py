"""pytest plugin: scikit-learn's test modules see snapml's classes under scikit-learn's names.

Loaded with ``-p tests.sklearn_suite.substitution`` before any test module is imported. Everything
in scikit-learn is imported first, so that its own code keeps its own classes; only what is
imported afterwards, the tests, sees ours. A test counts as ours if it got one of our estimators as
a parameter, constructed or fitted one, or called one of our functions, while it ran.
"""

import functools
import importlib
import inspect
import json
import os
import pkgutil
import warnings
from pathlib import Path

import pytest
import sklearn

import snapml

NAMESPACES = ("sklearn.linear_model", "sklearn.svm", "sklearn.tree")
PROPERTY = "snapml"  # name under which a test's report carries what it touched
_touched: set[str] = set()
_our_classes: list[type] = []


def import_all_of_sklearn():
    """Import every module of scikit-learn but its tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in pkgutil.walk_packages(sklearn.__path__, "sklearn."):
            parts = found.name.split(".")
            if not {"tests", "conftest", "externals", "_build_utils"} & set(parts):
                try:
                    importlib.import_module(found.name)
                except ImportError:  # needs something that is not installed here
                    continue


def replacements():
    """Return {(namespace, name): (theirs, ours)} for every public name that both have."""
    found = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in snapml.__all__:
            if name in module.__all__:
                found[namespace, name] = (getattr(module, name), getattr(snapml, name))
    return found


def _noting(name, function):
    """Return the function, which from now on notes that the test running uses ours."""

    @functools.wraps(function)
    def noting(*args, **kwargs):
        _touched.add(name)
        return function(*args, **kwargs)

    return noting


def _instrument(name, theirs, ours):
    """Return what the tests shall see under the name."""
    if not inspect.isclass(ours):
        return _noting(name, ours)
    _our_classes.append(ours)
    for method in ("__init__", "fit"):
        setattr(ours, method, _noting(name, getattr(ours, method)))
    # Fixtures of GLM tests make their data by the loss, which they ask estimators for.
    if hasattr(theirs, "_get_loss"):
        ours._get_loss = theirs._get_loss
    return ours


def pytest_configure(config):
    """Substitute, before the first test module is imported."""
    import_all_of_sklearn()
    pairs = replacements()
    for (namespace, name), (theirs, ours) in pairs.items():
        setattr(importlib.import_module(namespace), name, _instrument(name, theirs, ours))
    _substitute_in_common_checks({theirs: ours for theirs, ours in pairs.values()})


def _substitute_in_common_checks(ours):
    """Let scikit-learn's checks of all estimators run on our classes, and on these only.

    They use scikit-learn's choice of parameters, but not its list of expected failures.
    """
    from sklearn.utils._test_common import instance_generator

    for table in ("INIT_PARAMS", "PER_ESTIMATOR_CHECK_PARAMS"):
        entries = getattr(instance_generator, table)
        for cls in ours:
            if cls in entries:
                entries[ours[cls]] = entries[cls]
    listed = instance_generator.all_estimators

    def all_estimators(type_filter=None):
        # The list may name their class, ours, or both, by where it comes upon them.
        chosen = ((name, ours.get(cls, cls)) for name, cls in listed(type_filter=type_filter))
        return sorted({(n, cls) for n, cls in chosen if cls in ours.values()}, key=lambda c: c[0])

    instance_generator.all_estimators = all_estimators


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Note what one test touches, an estimator it gets as a parameter included."""
    _touched.clear()
    given = getattr(item, "callspec", None)
    values = () if given is None else given.params.values()
    _touched.update(type(v).__name__ for v in values if isinstance(v, tuple(_our_classes)))
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Hand the notes to the report."""
    item.user_properties = [p for p in item.user_properties if p[0] != PROPERTY]
    item.user_properties.append((PROPERTY, sorted(_touched)))
    yield


def pytest_runtest_logreport(report):
    """Append one line per phase of a test to the file that run.py reads."""
    crash = getattr(report.longrepr, "reprcrash", None)
    line = {
        "test": report.nodeid.partition("::")[2],
        "phase": report.when,
        "outcome": report.outcome,
        "was_xfail": hasattr(report, "wasxfail"),
        "touched": dict(report.user_properties).get(PROPERTY, []),
        "message": "" if crash is None else crash.message,
        "duration_s": report.duration,
    }
    with Path(os.environ["SNAPML_SUITE_LOG"]).open("a") as log:
        log.write(json.dumps(line) + "\n")
