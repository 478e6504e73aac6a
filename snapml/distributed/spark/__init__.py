"""Linear models that train where a Spark DataFrame is, with the parameters of `pyspark.ml`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "GeneralizedLinearRegression",
    "GeneralizedLinearRegressionModel",
    "InvalidInput",
    "LinearRegression",
    "LinearRegressionModel",
    "LinearSVC",
    "LinearSVCModel",
    "LogisticRegression",
    "LogisticRegressionModel",
]

_HOMES = {
    "GeneralizedLinearRegression": "generalized_linear",
    "GeneralizedLinearRegressionModel": "generalized_linear",
    "InvalidInput": "driver.errors",
    "LinearRegression": "regression",
    "LinearRegressionModel": "regression",
    "LinearSVC": "support_vector_machine",
    "LinearSVCModel": "support_vector_machine",
    "LogisticRegression": "classification",
    "LogisticRegressionModel": "classification",
}


def __getattr__(name: str) -> Any:
    """Import a public class when it is asked for: tasks on executors need none of `pyspark.ml`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
