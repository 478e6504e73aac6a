"""The blocks of the documentation that train on Spark run as they are written."""

import re
from pathlib import Path

import numpy as np
import pytest

import snapml

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGES = ["docs/spark.md", "docs/migrating.md"]


@pytest.fixture
def clicks(spark):
    """Return a DataFrame with the columns that pages name."""
    from pyspark.ml.functions import array_to_vector

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(400, 3))
    labels = (numbers[:, 0] + rng.normal(size=400) > 0).astype(float)
    names = ["age", "price", "hour", "clicked", "weight", "values"]
    rows = [
        (*map(float, row), float(label), 1.0 + k % 2, [float(each) for each in row])
        for k, (row, label) in enumerate(zip(numbers, labels, strict=True))
    ]
    frame = spark.createDataFrame(rows, names)
    return frame.withColumn("label", frame.clicked).withColumn(
        "vectors", array_to_vector(frame["values"])
    )


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run(page, spark, clicks, tmp_path):
    if not (ROOT / page).exists():
        pytest.skip("no docs beside these tests")
    found = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    block, *others = [block for block in found if "snapml.distributed.spark" in block]
    models, table = str(tmp_path / "models"), str(tmp_path / "clicks")
    if page == "docs/spark.md":
        clicks.drop("values", "vectors", "label").write.parquet(table)
    block = block.replace("hdfs:///models/clicks", models).replace(
        'parquet("clicks")', f'parquet("{table}")'
    )
    frame = (
        clicks.withColumnRenamed("vectors", "features") if page == "docs/migrating.md" else clicks
    )
    names = {"spark": spark, "df": frame}
    exec(compile(block, page, "exec"), names)
    best = names.get("best", names["model"])
    assert best.gap <= 1e-3
    if page == "docs/spark.md":
        [file] = Path(models).glob("**/bestModel/**/model/part-*")
        np.testing.assert_array_equal(snapml.load(file).coef_[0], best.coefficients.toArray())
    policies = clicks.withColumnsRenamed(
        {"vectors": "features", "clicked": "claims", "hour": "log_exposure"}
    )
    for block in others:
        names = {"policies": policies}
        exec(compile(block, page, "exec"), names)
        assert names["model"].gap <= 1e-3
        assert len(names["model"].summary.pValues) == 4
