"""The one meeting of tasks by Spark itself, before they are connected."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from snapml.distributed.tcp import PeerError

__all__ = ["gathered"]


def gathered(context: Any, own: str, timeout_s: float) -> list[str]:
    """Return what all tasks of a barrier stage have to say.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
        Of this task. Spark by itself would let it wait for a year.
    own : str
        What this task says.
    timeout_s : float
        Most seconds to wait for the others.

    Returns
    -------
    list of str
        In the order of partitions.

    Raises
    ------
    PeerError
        If not all have come in time.
    """
    found: Future[list[str]] = Future()

    def gather() -> None:
        try:
            found.set_result(context.allGather(own))
        except BaseException as failure:
            found.set_exception(failure)

    # A daemon: its task fails where it waits in vain, and the process ends with the task.
    threading.Thread(target=gather, name="snapml meeting", daemon=True).start()
    try:
        return found.result(timeout_s)
    except TimeoutError as failure:
        raise PeerError(f"not all tasks had read their rows after {timeout_s:g} s") from failure
