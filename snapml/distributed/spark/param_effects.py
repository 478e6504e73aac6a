"""What each parameter does: decides a fit, is accepted without effect, or is refused."""

from __future__ import annotations

__all__ = ["ACCEPTED", "BOUNDS", "PASSED_ON", "REFUSED"]

PASSED_ON = {
    "maxIter": "most reads of the data",
    "regParam": "factor of the penalty",
    "elasticNetParam": "share of the L1 norm in the penalty",
    "tol": "relative duality gap at which a fit ends",
    "fitIntercept": "an intercept without penalty",
    "standardization": "penalise coefficients in units of their columns' standard deviations",
    "family": "distribution of the labels",
    "link": "function of the mean that is linear: the family's",
    "variancePower": "power of the mean that a 'tweedie' variance is proportional to",
    "linkPower": "power of the mean that is linear, of family 'tweedie': 0, the logarithm",
    "offsetCol": "added to the linear prediction of each row as it is",
    "linkPredictionCol": "names a column of linear predictions",
    "weightCol": "weights of rows",
    "featuresCol": "a column of vectors or arrays, or a list of columns of numbers",
    "labelCol": "labels",
    "threshold": "predictions, not the fit",
    "thresholds": "predictions, not the fit",
    "predictionCol": "names a column of predictions",
    "rawPredictionCol": "names a column of predictions",
    "probabilityCol": "names a column of predictions",
    "solver": "'auto', 'pqn' or 'sdca'; Spark's 'normal', 'l-bfgs' and 'irls' choose like 'auto'",
    "numWorkers": "tasks; as many as the cluster runs at once where it is not set",
    "useGpu": "whether tasks train on GPUs: those that Spark gives them, or deviceIds",
    "deviceIds": "numbers of the GPUs of each host, one a task; those that Spark gives if not set",
    "memoryLimit": "memory for the rows of a task; more stream from its disk",
    "nThreads": "threads of a task; the cores that Spark gives it where it is not set",
    "checkpointDir": "folder that all machines see; from it a stage that is started again goes on",
    "checkpointInterval": "seconds between two writes to checkpointDir",
    "timeout": "seconds that a task waits for another before it fails",
    "float32": "keep features in float32 instead of float64",
}
"""What decides a fit or its predictions."""

ACCEPTED = {
    "aggregationDepth": "sums go from task to task, without a tree",
    "maxBlockSizeInMB": "tasks lay their rows out by themselves",
    "loss": "'squaredError' only; 'huber' is refused",
    "epsilon": "belongs to the loss 'huber'",
    "dual": "the answer is the same; solver='sdca' asks for dual coordinate ascent",
}
"""What is accepted so that programs for `pyspark.ml` run, and has no effect."""

BOUNDS = (
    "lowerBoundsOnCoefficients",
    "upperBoundsOnCoefficients",
    "lowerBoundsOnIntercepts",
    "upperBoundsOnIntercepts",
)

REFUSED = dict.fromkeys(BOUNDS, "there is no solver with bounds: use pyspark.ml's class")
"""What raises when it is set."""
