"""Checks of a DataFrame's columns on the driver, and the features column as tasks read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType

from snapml.distributed.spark.driver.errors import InvalidInput

__all__ = [
    "check_features",
    "check_free",
    "check_number",
    "features_struct",
    "is_connect",
    "quoted",
]


def is_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect, which has no JVM beside it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session.

    Returns
    -------
    bool
        False of a classic session.
    """
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_number(schema: Any, role: str, name: str) -> str:
    """Return the DataFrame's name of a column, which is there, unique and of numbers.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
        Of the DataFrame.
    role : str
        The parameter that names the column.
    name : str
        The column, in upper or lower case.

    Returns
    -------
    str
        In the DataFrame's case.

    Raises
    ------
    InvalidInput
        If it is not so, with both.
    """
    field = _field(schema, role, name)
    if not isinstance(field.dataType, NumericType):
        raise InvalidInput(
            f"{role}: expected a column of numbers, got {name!r} of type "
            f"{field.dataType.simpleString()}"
        )
    return str(field.name)


def check_features(schema: Any, names: str | list[str]) -> str | tuple[str, ...]:
    """Return the DataFrame's names of features: vectors, arrays or columns of numbers.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
        Of the DataFrame.
    names : str or list of str
        The column, or the columns, in upper or lower case.

    Returns
    -------
    str or tuple of str
        In the DataFrame's case.

    Raises
    ------
    InvalidInput
        If they are something else, with the column's name and type.
    """
    if not isinstance(names, str):
        if len(set(names)) < len(names):
            raise InvalidInput(f"featuresCol: expected different columns, got {names}")
        return tuple(check_number(schema, "featuresCol", name) for name in names)
    field = _field(schema, "featuresCol", names)
    dtype = field.dataType
    is_array = isinstance(dtype, ArrayType) and isinstance(dtype.elementType, NumericType)
    if not (is_array or isinstance(dtype, VectorUDT)):
        raise InvalidInput(
            "featuresCol: expected a column of pyspark.ml vectors or of arrays of numbers, or a "
            f"list of columns of numbers, got {names!r} of type {dtype.simpleString()}"
        )
    return str(field.name)


def check_free(schema: Any, names: Iterable[str]) -> None:
    """Refuse names of new columns that are taken.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
        Of the DataFrame.
    names : iterable of str
        Columns that will be added.

    Raises
    ------
    InvalidInput
        With the name.
    """
    taken = {name.lower() for name in schema.names}
    for name in names:
        if name.lower() in taken:
            raise InvalidInput(
                f"expected no column {name!r} yet, got one: drop it, or set another name "
                "(predictionCol, rawPredictionCol, probabilityCol)"
            )
        taken.add(name.lower())


def features_struct(schema: Any, names: str | list[str]) -> Any:
    """Return the features as a column of structures, which all versions of Spark send to tasks.

    Parameters
    ----------
    schema : pyspark.sql.types.StructType
        Of the DataFrame, whose features have been checked.
    names : str or list of str
        The column, or the columns.

    Returns
    -------
    pyspark.sql.Column
        Of type, size, indices and values of vectors; of the values of arrays; or of the numbers.
    """
    if not isinstance(names, str):
        numbers = [F.col(quoted(name)).cast("double") for name in names]
        return F.struct(*[column.alias(f"c{k}") for k, column in enumerate(numbers)])
    column = F.col(quoted(names))
    if isinstance(schema[_field(schema, "featuresCol", names).name].dataType, VectorUDT):
        return F.unwrap_udt(column)
    return F.struct(column.cast("array<double>").alias("values"))


def quoted(name: str) -> str:
    """Return a name that Spark does not split at its dots.

    Parameters
    ----------
    name : str
        Of a column.

    Returns
    -------
    str
        In back quotes.
    """
    return "`" + name.replace("`", "``") + "`"


def _field(schema: Any, role: str, name: str) -> Any:
    """Return the only field of a name, upper or lower case, as Spark finds columns."""
    found = [field for field in schema.fields if field.name.lower() == name.lower()]
    exact = [field for field in found if field.name == name]
    if not found:
        raise InvalidInput(f"{role}: expected one of the columns {schema.names}, got {name!r}")
    if len(found) > 1:
        raise InvalidInput(
            f"{role}: expected one column {name!r}, got {len(found)} of that name in {schema.names}"
        )
    return (exact or found)[0]
