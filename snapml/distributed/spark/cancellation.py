"""Jobs that end with the call that has started them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snapml.distributed.spark.columns import is_connect

__all__ = ["cancelled_on_error"]


@contextmanager
def cancelled_on_error(session: Any) -> Iterator[None]:
    """Cancel the jobs that were started inside ``with`` where it ends by an exception.

    After Ctrl-C Spark's own handler does so only where the main thread does not wait for a job: in
    a call of the JVM it cannot make another one.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.
    """
    tag = f"snapml-fit-{secrets.token_hex(8)}"
    if is_connect(session):
        add, remove, cancel = session.addTag, session.removeTag, session.interruptTag
    else:
        context = session.sparkContext
        add, remove, cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)
    try:
        yield
    except BaseException:
        cancel(tag)
        raise
    finally:
        remove(tag)
