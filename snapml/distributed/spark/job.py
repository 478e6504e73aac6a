"""One barrier stage that reads a DataFrame into chunk stores and trains on them."""

from __future__ import annotations

from typing import Any

from snapml.distributed.spark.request import FitOutcome, FitRequest

__all__ = ["fit"]


def fit(dataframe: Any, request: FitRequest) -> list[FitOutcome]:
    """Fit the models of a request on the rows of a DataFrame, where they are.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows; classic or of Spark Connect.
    request : FitRequest
        What to fit.

    Returns
    -------
    list of FitOutcome
        One per pair of penalties.

    Raises
    ------
    ValueError
        If a column is missing or holds what it must not; with the column's name, and the row's
        content where possible.
    RuntimeError
        If tasks failed beyond Spark's retries, or there are fewer slots than workers.
    """
    raise NotImplementedError
