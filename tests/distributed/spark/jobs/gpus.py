"""Fits on the emulated GPUs of an executor: those that Spark gives, those that are named, refusals.

python gpus.py SCRIPT, where SCRIPT tells Spark which GPUs there are.
"""

import json
import sys

from data import frame
from pyspark.sql import SparkSession
from session import SETTINGS

from snapml.distributed.spark import LogisticRegression
from snapml.distributed.spark.driver import slots

GPUS = {
    "spark.worker.resource.gpu.amount": "2",
    "spark.worker.resource.gpu.discoveryScript": sys.argv[1],
    "spark.executor.resource.gpu.amount": "2",
}
# An executor of three cores and two GPUs.
builder = SparkSession.builder.master("local-cluster[1,3,1024]")
builder = builder.config("spark.executor.memory", "1024m")
daemon = {"spark.python.daemon.module": "emulating_daemon"}
for name, value in (SETTINGS | GPUS | daemon).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = frame(spark, 2)
shared = {"regParam": 0.05, "weightCol": "weight", "tol": 1e-9}


def told(**parameters):
    """Return coefficients and solver, or what the fit says that refuses the parameters."""
    try:
        model = LogisticRegression(**(shared | parameters)).fit(rows)
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return {"coefficients": model.coefficients.toArray().tolist(), "solver": model.summary.solver}


result = {
    "given": told(useGpu=True),
    "CPU": told(numWorkers=2),
    "named": told(useGpu=True, deviceIds=[0, 1, 1]),
    "too few named": told(useGpu=True, deviceIds=[1]),
    "no such": told(useGpu=True, deviceIds=[0, 5], numWorkers=2),
    "not on GPUs": told(useGpu=True, family="multinomial", elasticNetParam=1.0),
}
slots.WAIT_S = 1.0  # the only executor is there
result["three tasks"] = told(useGpu=True, numWorkers=3)
print(json.dumps(result))
spark.stop()
