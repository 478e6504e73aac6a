"""Spark's daemon of Python workers, whose tasks meet the faults that a test asks for.

The folder of the environment variable FAULTS gets a line for each pass of each worker. A file
`fault` there names what befalls a task at a pass, and its partition, once.
"""

import json
import os
import signal
from pathlib import Path

import preloading_daemon
from pyspark import TaskContext
from pyspark.daemon import manager

from snapml.solvers.stopping import Progress

__all__ = ["preloading_daemon"]

FOLDER = Path(os.environ["FAULTS"])
see_epoch = Progress.see_epoch


def met(how):
    """Meet a fault."""
    if how == "error":
        raise ValueError("what the rows have caused")
    os.kill(os.getpid(), getattr(signal, how))


def seen(progress, gap):
    n_seen, partition = len(progress.history), TaskContext.get().partitionId()
    with (FOLDER / "passes").open("a") as stream:
        stream.write(json.dumps([os.getpid(), partition, n_seen]) + "\n")
    fault = FOLDER / "fault"
    if fault.exists():
        how, *at = json.loads(fault.read_text())
        if [n_seen, partition] == at:
            fault.unlink()
            met(how)
    return see_epoch(progress, gap)


if __name__ == "__main__":
    Progress.see_epoch = seen
    manager()
