"""What the classic tests show, over Spark Connect: fit, predict, evaluate, save, load, refuse."""

import json
import sys
from functools import partial

from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

from snapml.distributed.spark import LogisticRegression, LogisticRegressionModel
from snapml.distributed.spark.driver import slots


def said(fit):
    try:
        fit()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
rows = [
    (float(k % 3 == 0), Vectors.dense([float(k % 7), float(k % 3), 1.0 / (k + 1)]), 1.0 + k % 2)
    for k in range(90)
]
frame = spark.createDataFrame(rows, ["label", "features", "weight"])
model = LogisticRegression(regParam=0.1, weightCol="weight", tol=1e-9).fit(frame)
scored = model.transform(frame)
first = scored.head()
model.save(f"{folder}/model")
model.write().overwrite().save(f"{folder}/model")
loaded = LogisticRegressionModel.load(f"{folder}/model")
n_slots = slots.n_tasks(spark, None)
estimator = LogisticRegression(weightCol="weight")
refusals = {
    "to_pyspark": said(model.to_pyspark),
    "missing": said(partial(LogisticRegression(labelCol="missing").fit, frame)),
    "weight": said(partial(estimator.fit, frame.withColumn("weight", -frame.weight))),
    "empty": said(partial(estimator.fit, frame.limit(0))),
    "workers": said(partial(LogisticRegression(numWorkers=3).fit, frame)),
}
spark.conf.set("spark.sql.leafNodeDefaultParallelism", "5")
refusals["unset"] = said(partial(estimator.fit, frame))
result = {
    "session": type(spark).__module__,
    "coefficients": model.coefficients.toArray().tolist(),
    "intercept": model.intercept,
    "prediction": first.prediction,
    "probability": first.probability.toArray().tolist(),
    "one": model.predictProbability(first.features).toArray().tolist(),
    "metadata": scored.schema["prediction"].metadata,
    "accuracy": model.summary.accuracy,
    "area": model.summary.areaUnderROC,
    "n_points": model.summary.roc.count(),
    "is_same": bool(loaded.coefficients == model.coefficients),
    "n_slots": n_slots,
    "refusals": refusals,
}
print(json.dumps(result))
spark.stop()
