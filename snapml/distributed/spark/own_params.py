"""Parameters that `pyspark.ml` does not have, or that take more than there."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters

from snapml.distributed.spark.param_effects import ACCEPTED, PASSED_ON

__all__ = ["HasFeatures", "OwnParams"]


def _column_or_columns(value: Any) -> Any:
    """Return the name of a column, or a list of names."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return list(value)
    raise TypeError(f"expected the name of a column or a list of names, got {value!r}")


def _bytes_or_text(value: Any) -> Any:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise TypeError(f"expected bytes or text such as '4GB', got {value!r}")


class HasFeatures(Params):
    """The features: one column, or several of numbers."""

    featuresCol: Any = Param(
        Params._dummy(),
        "featuresCol",
        "features column name: of vectors or arrays; or a list of names of columns of numbers",
        typeConverter=_column_or_columns,
    )

    def getFeaturesCol(self) -> Any:
        """Return the name of the features column, or the list of names."""
        return self.getOrDefault(self.featuresCol)


class OwnParams(Params):
    """Parameters that `pyspark.ml` does not have."""

    numWorkers: Any = Param(
        Params._dummy(), "numWorkers", PASSED_ON["numWorkers"], typeConverter=TypeConverters.toInt
    )
    useGpu: Any = Param(
        Params._dummy(), "useGpu", PASSED_ON["useGpu"], typeConverter=TypeConverters.toBoolean
    )
    deviceIds: Any = Param(
        Params._dummy(), "deviceIds", PASSED_ON["deviceIds"], typeConverter=TypeConverters.toListInt
    )
    memoryLimit: Any = Param(
        Params._dummy(), "memoryLimit", PASSED_ON["memoryLimit"], typeConverter=_bytes_or_text
    )
    dual: Any = Param(
        Params._dummy(),
        "dual",
        "accepted, without effect: " + ACCEPTED["dual"],
        typeConverter=TypeConverters.toBoolean,
    )
    solver: Any = Param(
        Params._dummy(), "solver", PASSED_ON["solver"], typeConverter=TypeConverters.toString
    )
    nThreads: Any = Param(
        Params._dummy(), "nThreads", PASSED_ON["nThreads"], typeConverter=TypeConverters.toInt
    )
    checkpointDir: Any = Param(
        Params._dummy(),
        "checkpointDir",
        PASSED_ON["checkpointDir"],
        typeConverter=TypeConverters.toString,
    )
    checkpointInterval: Any = Param(
        Params._dummy(),
        "checkpointInterval",
        PASSED_ON["checkpointInterval"],
        typeConverter=TypeConverters.toFloat,
    )
    timeout: Any = Param(
        Params._dummy(), "timeout", PASSED_ON["timeout"], typeConverter=TypeConverters.toFloat
    )
    float32: Any = Param(
        Params._dummy(), "float32", PASSED_ON["float32"], typeConverter=TypeConverters.toBoolean
    )

    def getNumWorkers(self) -> int | None:
        """Return the number of tasks, None for all that the cluster runs at once."""
        return self.getOrDefault(self.numWorkers)

    def getUseGpu(self) -> bool:
        """Return whether tasks train on GPUs."""
        return self.getOrDefault(self.useGpu)

    def getDeviceIds(self) -> list[int] | None:
        """Return the numbers of the GPUs of each host, None for those that Spark gives."""
        return self.getOrDefault(self.deviceIds)

    def getMemoryLimit(self) -> int | str | None:
        """Return what the rows of a task may take, None for what is usual."""
        return self.getOrDefault(self.memoryLimit)

    def getDual(self) -> bool:
        """Return a value that has no effect."""
        return self.getOrDefault(self.dual)

    def getSolver(self) -> str:
        """Return the name of the solver."""
        return self.getOrDefault(self.solver)

    def getNThreads(self) -> int | None:
        """Return the threads of a task, None for the cores that Spark gives it."""
        return self.getOrDefault(self.nThreads)

    def getCheckpointDir(self) -> str | None:
        """Return the folder of checkpoints."""
        return self.getOrDefault(self.checkpointDir)

    def getCheckpointInterval(self) -> float:
        """Return the seconds between two checkpoints."""
        return self.getOrDefault(self.checkpointInterval)

    def getTimeout(self) -> float:
        """Return the seconds that a task waits for another."""
        return self.getOrDefault(self.timeout)

    def getFloat32(self) -> bool:
        """Return whether features are kept in float32."""
        return self.getOrDefault(self.float32)
