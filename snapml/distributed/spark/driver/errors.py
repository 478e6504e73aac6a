"""The exception of what a user has given to an estimator or a model."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException

__all__ = ["InvalidInput"]


class InvalidInput(IllegalArgumentException, ValueError):
    """A parameter or a column is not as described: both Spark's exception and Python's."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])
