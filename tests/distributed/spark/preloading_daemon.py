"""Spark's daemon of Python workers, with what they import loaded before they are forked.

Importing takes a worker two seconds of a core, and Spark starts new ones after a minute of rest.
"""

import pyspark.ml.linalg
from pyspark.daemon import manager

import snapml.distributed.spark.transform
import snapml.distributed.spark.worker

__all__ = ["pyspark", "snapml"]

if __name__ == "__main__":
    manager()
