"""Spark's daemon of Python workers, whose tasks meet through files of one machine.

The tasks of Spark's own meeting sleep for a second, whatever they wait for.
"""

import os
import time
from pathlib import Path

from preloading_daemon import manager
from pyspark import BarrierTaskContext

TIMEOUT_S = 60.0


def all_gather(context, own):
    """Return what all tasks of a stage have written; none of them is started again."""
    folder = Path(os.environ["MEETINGS"])
    files = [folder / f"{context.stageId()}.{k}" for k in range(len(context.getTaskInfos()))]
    draft = folder / f"{context.taskAttemptId()}.draft"
    draft.write_text(own)
    draft.rename(files[context.partitionId()])
    end = time.monotonic() + TIMEOUT_S
    while not all(file.exists() for file in files):
        if time.monotonic() > end:
            raise TimeoutError(f"expected {len(files)} tasks within {TIMEOUT_S} s")
        time.sleep(0.002)
    return [file.read_text() for file in files]


BarrierTaskContext.allGather = all_gather

if __name__ == "__main__":
    manager()
