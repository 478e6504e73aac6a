"""How large the Arrow batches are that Java sends to tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["small_batches"]

_logger = logging.getLogger("snapml")

_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
# Java doubles a batch's memory as it grows: beyond a few megabytes in pages that are new each time.
_MOST_BYTES = "1m"

# By session, how many jobs are inside, and what was set before them.
_jobs: dict[Hashable, tuple[int, str | None]] = {}
_lock = threading.Lock()


@contextmanager
def small_batches(session: Any) -> Iterator[None]:
    """Have jobs send rows in batches that Java builds quickly; the setting comes back at the end.

    Several threads may be inside at once. Spark 3.5, which does not know the setting, ignores it.
    Where a platform refuses it, a warning is logged: rows then come in larger batches.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.
    """
    key = _identity(session)
    with _lock:
        is_set = _enter(session.conf, key)
    try:
        yield
    finally:
        if is_set:
            with _lock:
                _leave(session.conf, key)


def _identity(session: Any) -> Hashable:
    """Return what is equal for all Python objects that stand for one session."""
    if hasattr(session, "_jsparkSession"):
        key: Hashable = session._jsparkSession  # compared by Java
        return key
    return str(session.session_id)


def _enter(conf: Any, key: Hashable) -> bool:
    """Count a job; return whether the setting is made."""
    if key in _jobs:
        n_inside, before = _jobs[key]
    else:
        try:
            n_inside, before = 0, conf.get(_SETTING, None)
            conf.set(_SETTING, _MOST_BYTES)
        except Exception as refusal:  # of a platform, by a class of its own
            _logger.warning("%s=%s was refused: %s", _SETTING, _MOST_BYTES, refusal)
            return False
    _jobs[key] = n_inside + 1, before
    return True


def _leave(conf: Any, key: Hashable) -> None:
    """Bring the setting back once the last job has ended."""
    n_inside, before = _jobs.pop(key)
    if n_inside > 1:
        _jobs[key] = n_inside - 1, before
        return
    try:
        if before is None:
            conf.unset(_SETTING)
        else:
            conf.set(_SETTING, before)
    except Exception as refusal:  # as of a session that has ended; what the job raised counts
        _logger.warning("%s could not be set back to %s: %s", _SETTING, before, refusal)
