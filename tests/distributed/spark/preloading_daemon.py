"""Spark's daemon of Python workers, with what they import loaded before they are forked.

Importing takes a worker two seconds of a core, and Spark starts new ones after a minute of rest.
"""

import os
import sys
from pathlib import Path

import pyspark.ml.linalg
from pyspark.daemon import manager

import snapml.distributed.spark.tasks.worker
import snapml.distributed.spark.transform

__all__ = ["pyspark", "snapml"]


def differ():
    """Be what a file says about the installation on a host of a cluster, where there is one."""
    path = Path(os.environ.get("INSTALLATION", os.devnull))
    state = path.read_text() if path.exists() else ""
    if state == "other version":
        snapml.__version__ = "0.0.1"
    elif state == "no pyarrow":
        sys.modules["pyarrow"] = None


if __name__ == "__main__":
    os.register_at_fork(after_in_child=differ)
    manager()
