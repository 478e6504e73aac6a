"""Fits on the executors of a standalone cluster: the model, and what installations that differ say.

python executors.py URL FILE, where FILE is what the second worker reads about its installation.
"""

import json
import sys
from pathlib import Path

from data import frame
from pyspark.sql import SparkSession
from session import SETTINGS

from snapml.distributed.spark import LogisticRegression

url, installation = sys.argv[1], Path(sys.argv[2])
builder = SparkSession.builder.master(url).config("spark.executor.memory", "512m")
builder = builder.config("spark.python.worker.reuse", "false")  # all read the file
builder = builder.config("spark.stage.maxConsecutiveAttempts", "1")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def n_busy_executors():
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    found = [executors.apply(k) for k in range(executors.size())]
    return sum(each.id() != "driver" and each.completedTasks() > 0 for each in found)


# No executor has registered yet.
estimator = LogisticRegression(regParam=0.05, weightCol="weight", tol=1e-9, numWorkers=2)
rows = frame(spark, 2)
model = estimator.fit(rows)
result = {
    "coefficients": model.coefficients.toArray().tolist(),
    "intercept": model.intercept,
    "n_executors": n_busy_executors(),
}
for state in ("other version", "no pyarrow"):
    installation.write_text(state)
    try:
        estimator.fit(rows)
    except Exception as error:
        result[state] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
spark.stop()
