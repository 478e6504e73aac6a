"""The comparison with `pyspark.ml` on few rows: the same objective, and a feed that is measured."""

import argparse

import numpy as np
import pytest

pytest.importorskip("pyspark")

from benchmarks.records import write_rows
from benchmarks.spark import compare
from benchmarks.spark.cases import CASES, Objective, make_rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", ["dense_1e-3", "poisson_1e-3"])
def test_fits_of_both_reach_the_same_objective(spark, tmp_path, case):
    n_columns = 400 if CASES[case].data == "click log" else 20
    arguments = argparse.Namespace(cases=[case], rows=600, columns=n_columns, repeats=1, slots=2)
    (found,) = compare.measure(spark, arguments)
    theirs, ours = found
    assert (theirs["library"], ours["library"]) == ("pyspark.ml", "snapml")
    assert 0.0 < ours["objective"] <= theirs["objective"] * (1.0 + 1e-6)
    assert ours["feed_seconds"] > 0.0
    write_rows(tmp_path / "spark.csv", found)


@pytest.mark.parametrize("case", ["click_scaled_1e-3", "dense_1e-3", "click_1e-4"])
def test_the_objective_is_that_of_its_formula(case):
    n_columns = 400 if CASES[case].data == "click log" else 20
    X, y = make_rows(CASES[case].data, 300, n_columns)
    coef = np.random.default_rng(0).normal(size=n_columns)
    wide = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)
    units = wide.std(axis=0, ddof=1) if CASES[case].standardization else 1.0
    expected = np.log1p(np.exp((1.0 - 2.0 * y) * (wide @ coef + 0.3))).mean()
    expected += 0.5 * CASES[case].reg_param * np.square(units * coef).sum()
    assert Objective(X, y, CASES[case]).value(coef, 0.3) == pytest.approx(expected, rel=1e-10)
