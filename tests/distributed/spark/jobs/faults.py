"""Fits that meet faults, in a session that starts failed stages again; prints what came of each.

Usage: faults.py FOLDER, which is that of the variable FAULTS of faulty_daemon.py.
"""

import json
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from data import arrays
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from session import SETTINGS

from snapml.distributed.spark import LogisticRegression

FOLDER = Path(sys.argv[1])
KEPT = FOLDER / "kept"
# Rows on the disk, so that each task trains for itself: those in memory would go to the first one.
APART = {"memoryLimit": 1000}
ENDLESS = {"solver": "sdca", "tol": 0.0, "maxIter": 10**7}


def session():
    # Two tasks at once, four tries.
    builder = SparkSession.builder.master("local[2,4]").appName("faults")
    for name, value in {**SETTINGS, "spark.python.daemon.module": "faulty_daemon"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def passes():
    """Return process, partition and number of each pass so far."""
    path = FOLDER / "passes"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def alive(pids):
    """Return the processes that still run."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def seconds_until(is_so, most=250.0):
    start = time.monotonic()
    while not is_so():
        if time.monotonic() - start > most:
            raise TimeoutError(f"not so after {most} s")
        time.sleep(0.05)
    return time.monotonic() - start


def attempts(spark, group):
    """Return how often the stages of a group were begun, at most."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    return 1 + max(stage.currentAttemptId for stage in stages)


def fitted(rows, fault=None, act=None, trains=(0, 1), **params):
    """Fit, and return the model or the error, how long it took and what it left."""
    (FOLDER / "passes").unlink(missing_ok=True)
    if fault is not None:
        (FOLDER / "fault").write_text(json.dumps(fault))
    if act is not None:
        threading.Thread(target=when_it_runs, args=[act, set(trains)], daemon=True).start()
    start, found = time.monotonic(), {}
    try:
        model = LogisticRegression(**{"regParam": 0.01, "tol": 1e-8, **params}).fit(rows)
        found |= {"coef": model.coefficients.toArray().tolist(), "gap": model.gap}
    except BaseException as error:
        found |= {"error": type(error).__name__, "message": str(error)[:20000]}
    found["seconds"] = time.monotonic() - start
    seen = passes()
    pids = list(dict.fromkeys(pid for pid, _, _ in seen))
    found["firsts"] = [min(n for pid, _, n in seen if pid == each) for each in pids]
    found["n_passes"] = max((n for _, _, n in seen), default=0)
    if found.get("error") not in (None, "InvalidInput"):  # Spark keeps processes that answered
        found["seconds_to_end"] = seconds_until(lambda: not alive(pids))
    found["left"] = [path.name for path in KEPT.iterdir()]
    found["threads"] = [each.name for each in threading.enumerate()]
    return found


def when_it_runs(act, partitions):
    """Do something once these tasks of a fit have made some passes."""
    seconds_until(lambda: {partition for _, partition, n in passes() if n > 3} == partitions)
    act()


def main():
    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    X, y, _ = arrays(2)
    rows = [(float(label), Vectors.dense(x)) for x, label in zip(X, y, strict=True)]
    frame = spark.createDataFrame(rows, ["label", "features"]).repartition(2).cache()
    bad = spark.createDataFrame([(float("nan"), Vectors.dense([1.0]))], ["label", "features"])
    kept = {"checkpointDir": str(KEPT), "checkpointInterval": 0.0}
    cancel = partial(spark.sparkContext.cancelJobGroup, "cancelled")
    interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
    alone = partial(fitted, frame, **APART)
    together = partial(fitted, frame, trains=[0])
    cases = {
        "whole": alone,
        # Before tasks are lost: while Spark puts away what is left of one, it may end the Python
        # process of the next fit, too, and start that one's stage again.
        "error": partial(alone, fault=["error", 3, 1], **kept),
        "label": partial(fitted, bad),
        "killed": partial(alone, fault=["SIGKILL", 3, 1], **kept),
        "stopped": partial(alone, fault=["SIGSTOP", 3, 1], timeout=3.0, **kept),
        "cancelled": partial(alone, act=cancel, **ENDLESS, **kept),
        # Rows in memory that are few are fitted in one call unless their state is to be kept.
        "whole team": partial(together, **kept),
        "killed team": partial(together, fault=["SIGKILL", 3, 0], **kept),
        "stopped team": partial(together, fault=["SIGSTOP", 3, 0], timeout=3.0, **kept),
        "interrupted": partial(together, act=interrupt, **ENDLESS, **kept),
        "after": alone,
    }
    for name in sys.argv[2:] or cases:
        spark.sparkContext.setJobGroup(name, name)
        found = cases[name]()
        print(json.dumps({"case": name, "n_attempts": attempts(spark, name), **found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
