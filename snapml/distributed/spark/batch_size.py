"""How large the Arrow batches are that Java sends to tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["small_batches"]

_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
# Java doubles a batch's memory as it grows: beyond a few megabytes in pages that are new each time.
_MOST_BYTES = "1m"

# By session, how many jobs are inside, and what was set before them.
_jobs: dict[int, tuple[int, str | None]] = {}
_lock = threading.Lock()


@contextmanager
def small_batches(session: Any) -> Iterator[None]:
    """Have jobs send rows in batches that Java builds quickly; the setting comes back at the end.

    Several threads may be inside at once. Spark 3.5, which does not know the setting, ignores it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.
    """
    with _lock:
        n_inside, before = _jobs.get(id(session), (0, session.conf.get(_SETTING, None)))
        session.conf.set(_SETTING, _MOST_BYTES)
        _jobs[id(session)] = n_inside + 1, before
    try:
        yield
    finally:
        with _lock:
            n_inside, before = _jobs.pop(id(session))
            if n_inside > 1:
                _jobs[id(session)] = n_inside - 1, before
            elif before is None:
                session.conf.unset(_SETTING)
            else:
                session.conf.set(_SETTING, before)
