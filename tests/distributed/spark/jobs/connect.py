"""What the classic tests show, over Spark Connect: fit, predict, evaluate, save, load, refuse."""

import json
import sys

from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

from snapml.distributed.spark import LogisticRegression, LogisticRegressionModel

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
try:
    model.to_pyspark()
    refusal = ""
except RuntimeError as error:
    refusal = str(error)
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
    "refusal": refusal,
}
print(json.dumps(result))
spark.stop()
