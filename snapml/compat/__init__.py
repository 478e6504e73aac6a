"""IBM Snap ML's names, on the estimators and loaders of this library (docs/migrating.md).

Its modules are flat here: what was ``from snapml.io import load_svmlight_file`` is ``from
snapml.compat import load_svmlight_file``, and so for its ``Loaders``, ``Writers``, ``utils`` and
``metrics``, and `sml_io` of pai4sk. New code is better written for `snapml` itself, which has
scikit-learn's names: each model here holds such a one, fitted, in ``estimator_``.
"""

from typing import NoReturn

from snapml.compat.linear_regression import LinearRegression
from snapml.compat.loaders import (
    copy_as_gpu_cmatrix,
    dump_to_snap_format,
    load_from_snap_format,
    load_from_svmlight_format,
    load_snap_file,
    load_svmlight_file,
    read_from_snap_format,
    write_to_snap_format,
)
from snapml.compat.logistic_regression import LogisticRegression
from snapml.compat.metrics import (
    accuracy_score,
    hinge_loss,
    log_loss,
    mean_squared_error,
    r2_score,
)
from snapml.compat.support_vector_machine import SupportVectorMachine
from snapml.compat.trees import DecisionTreeClassifier, DecisionTreeRegressor

SnapLogisticRegression = LogisticRegression
SnapSVMClassifier = SupportVectorMachine
SnapDecisionTreeClassifier = DecisionTreeClassifier
SnapDecisionTreeRegressor = DecisionTreeRegressor

__all__ = [
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "LinearRegression",
    "LogisticRegression",
    "SnapDecisionTreeClassifier",
    "SnapDecisionTreeRegressor",
    "SnapLogisticRegression",
    "SnapSVMClassifier",
    "SupportVectorMachine",
    "accuracy_score",
    "copy_as_gpu_cmatrix",
    "dump_to_snap_format",
    "hinge_loss",
    "load_from_snap_format",
    "load_from_svmlight_format",
    "load_snap_file",
    "load_svmlight_file",
    "log_loss",
    "mean_squared_error",
    "r2_score",
    "read_from_snap_format",
    "write_to_snap_format",
]

_ELSEWHERE = {
    "RandomForestClassifier": "scikit-learn, LightGBM or XGBoost has one",
    "RandomForestRegressor": "scikit-learn, LightGBM or XGBoost has one",
    "BoostingMachineClassifier": "LightGBM, XGBoost or scikit-learn has boosted trees",
    "BoostingMachineRegressor": "LightGBM, XGBoost or scikit-learn has boosted trees",
}


def __getattr__(name: str) -> NoReturn:
    """Say of Snap ML's names that are not here where else to look."""
    if name in _ELSEWHERE:
        # Of an AttributeError an import statement would show nothing.
        raise ImportError(f"{name} of Snap ML is not in this library: {_ELSEWHERE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
