"""Jobs that end with the call that has started them."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snapml.distributed.spark.driver.columns import is_connect

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
        with _raising_on_ctrl_c():
            yield
    except BaseException:
        cancel(tag)
        raise
    finally:
        remove(tag)


@contextmanager
def _raising_on_ctrl_c() -> Iterator[None]:
    """Have Spark's handler of Ctrl-C end in KeyboardInterrupt.

    That of Spark 4.0 does not where its call of the JVM fails: the main thread is in another one.
    """
    theirs = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    is_of_spark = getattr(theirs, "__module__", "").startswith("pyspark.")
    if not (callable(theirs) and is_main and is_of_spark):
        yield
        return

    def handle(number: int, frame: Any) -> None:
        try:
            theirs(number, frame)
        except Exception as failure:
            raise KeyboardInterrupt from failure

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)
