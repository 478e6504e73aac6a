"""Whether the Python of Spark's workers has this package, asked once before a session's fits."""

from __future__ import annotations

import shutil
import sys
import weakref
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

__all__ = ["check_worker_python"]

_DISTRIBUTION = "snapml-open"
_CHECKED: weakref.WeakSet[Any] = weakref.WeakSet()


def check_worker_python(session: Any) -> None:
    """Refuse a session whose workers could not run a fit, in one sentence.

    Without it the tasks of a fit fail four times, with a traceback each.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.

    Raises
    ------
    RuntimeError
        If the workers' Python is of another version, or lacks snapml or has another one.
    """
    if session in _CHECKED or _is_ours(session):
        return
    # A function by value: by name it would need the package that is looked for.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        row = session.range(1).mapInArrow(_look, "python string, version string").collect()[0]
    except Exception as error:
        lacks = _what_lacks(str(error))
        if lacks is None:
            raise
        raise RuntimeError(_advice(_name(session), lacks)) from None
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    own = metadata.version(_DISTRIBUTION)
    if row["version"] is None:
        raise RuntimeError(_advice(row["python"], "it lacks snapml"))
    if row["version"] not in ("", own):
        raise RuntimeError(_advice(row["python"], f"it has snapml-open {row['version']}"))
    _CHECKED.add(session)


def _is_ours(session: Any) -> bool:
    """Return whether all workers are of this machine and run the Python that runs this."""
    context = getattr(session, "_sc", None)  # which Spark Connect does not have
    if context is None or not str(context.master).startswith("local"):
        return False
    path = shutil.which(context.pythonExec)
    return path is not None and Path(path).absolute() == Path(sys.executable).absolute()


def _name(session: Any) -> str:
    context = getattr(session, "_sc", None)
    return "Python" if context is None else str(context.pythonExec)


def _look(batches: Iterator[Any]) -> Iterator[Any]:
    """Return a worker's Python, and which snapml it has; None is none, '' an unknown one."""
    import sys
    from importlib import metadata, util

    import pyarrow as pa

    version = None
    if util.find_spec("snapml") is not None:
        try:
            version = metadata.version("snapml-open")
        except metadata.PackageNotFoundError:
            version = ""
    for batch in batches:
        n_rows = batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [pa.array([sys.executable] * n_rows), pa.array([version] * n_rows, pa.string())],
            ["python", "version"],
        )


def _what_lacks(text: str) -> str | None:
    """Return what an error of a worker says about its Python; None where it is another error."""
    if "PYTHON_VERSION_MISMATCH" in text:
        return "it is of another version"
    for line in text.splitlines():
        if "No module named" in line or "PACKAGE_NOT_INSTALLED" in line:
            return line.strip()
    if "Cannot run program" in text:
        return "there is no such program on the workers"
    return None


def _advice(python: str, lacks: str) -> str:
    return (
        f"Spark's workers run {python!r}, which cannot run this fit: {lacks}. Expected Python "
        f"{sys.version_info[0]}.{sys.version_info[1]} with snapml-open "
        f"{metadata.version(_DISTRIBUTION)}: set PYSPARK_PYTHON (or spark.pyspark.python) to its "
        f"path before the session starts, on this machine PYSPARK_PYTHON={sys.executable}"
    )
