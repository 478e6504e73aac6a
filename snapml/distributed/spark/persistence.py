"""Estimators and models in folders, written through Spark wherever it can write.

A model's folder has ``metadata``, as Spark's own writers leave it, and ``model``: one file that
`snapml.load` reads without Spark.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

import snapml
from snapml.distributed.spark.conversion import numbers_of
from snapml.distributed.spark.driver.columns import is_connect
from snapml.distributed.spark.driver.errors import InvalidInput

__all__ = ["EstimatorReader", "EstimatorWriter", "ModelReader", "ModelWriter"]


class EstimatorWriter(MLWriter):
    """Writes parameters.

    Parameters
    ----------
    instance : Params
        Whose.
    """

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        """Write to a folder that does not exist."""
        DefaultParamsWriter.saveMetadata(self.instance, path, _for_metadata(self))

    def _handleOverwrite(self, path: str) -> None:
        """Remove a folder; over Connect the server does, since version 4.0 of Spark."""
        if not is_connect(self.sparkSession):
            super()._handleOverwrite(path)
            return
        try:
            from pyspark.ml.connect.readwrite import RemoteMLWriter
        except ImportError:
            raise InvalidInput(
                "overwrite: expected a classic session, or Spark 4.0 or later with Connect"
            ) from None
        RemoteMLWriter.handleOverwrite(path, True)


class ModelWriter(EstimatorWriter):
    """Writes parameters, and the model's numbers."""

    def saveImpl(self, path: str) -> None:
        """Write to a folder that does not exist."""
        from pyspark.sql import functions as F

        super().saveImpl(path)
        content = _file_content(self.instance.to_sklearn())
        rows = self.sparkSession.createDataFrame([(bytearray(content),)], "value binary")
        # Text is written byte by byte, with one line end behind it, on any file system.
        text = rows.coalesce(1).select(F.col("value").cast("string"))
        text.write.option("compression", "none").text(f"{path}/model")


class EstimatorReader(MLReader):
    """Reads what `EstimatorWriter` has written.

    Parameters
    ----------
    cls : type
        The class that is expected.
    """

    def __init__(self, cls: type[Any]) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """Return the instance.

        Parameters
        ----------
        path : str
            The folder.

        Returns
        -------
        Params
            With the parameters and the uid that it was saved with.
        """
        metadata = DefaultParamsReader.loadMetadata(path, _for_metadata(self))
        expected = f"{self.cls.__module__}.{self.cls.__name__}"
        if metadata["class"] != expected:
            raise InvalidInput(f"{path}: expected a {expected}, got a {metadata['class']}")
        instance = self.cls()
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance


class ModelReader(EstimatorReader):
    """Reads what `ModelWriter` has written."""

    def load(self, path: str) -> Any:
        """Return the model.

        Parameters
        ----------
        path : str
            The folder.

        Returns
        -------
        SparkModel
            It predicts the same to the bit; it has no summary.
        """
        instance = super().load(path)
        files = self.sparkSession.read.format("binaryFile").option("pathGlobFilter", "part-*")
        found = files.load(f"{path}/model").select("content").collect()
        if len(found) != 1:
            raise InvalidInput(f"{path}/model: expected one file, got {len(found)}")
        instance._take(numbers_of(_loaded(bytes(found[0]["content"]))))
        return instance


def _for_metadata(files: Any) -> Any:
    """Return what metadata are written and read with: a context before version 4 of Spark."""
    session = files.sparkSession
    return session if int(session.version.split(".")[0]) >= 4 else session.sparkContext


def _file_content(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.read_bytes()


def _loaded(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        return snapml.load(path)
