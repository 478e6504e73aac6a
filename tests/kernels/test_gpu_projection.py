"""The projection counts what a fit reads, and adds up floors; it says that it is none of both."""

import csv
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
sys.path.append(str(ROOT))  # they are not installed

from benchmarks.gpu import projection  # noqa: E402
from benchmarks.gpu.data import Shape, logistic  # noqa: E402
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine  # noqa: E402


def test_calls_are_counted_by_name_and_those_of_samples_apart():
    problem, dataset = logistic(Shape(200, 5), seed=0)
    engine = projection.CountingEngine(CpuPrimalEngine(problem, dataset))
    coef = dataset.labels[:6][None].astype(float)
    engine.fused_pass(coef)
    engine.accept()
    engine.hessian_product(coef)
    sample = engine.sample(40)
    for _ in range(3):
        sample.fused_pass(coef)
    assert engine.counts == {
        "fused_pass": 1, "hessian_product": 1, "sample.rows": 40, "sample.fused_pass": 3
    }  # fmt: skip


def test_floor_is_bytes_gathers_or_atomics_over_their_rates(monkeypatch):
    monkeypatch.setattr(projection, "RATES", dict.fromkeys(projection.RATES, 1e6))
    assert projection._read_floor_s(Shape(1000, 20), 1000) == pytest.approx(0.092)
    assert projection._read_floor_s(Shape(1000, 50, 20), 1000) == pytest.approx(0.192)
    monkeypatch.setitem(projection.RATES, "gathers", 1e4)  # 35 % of 20,000 entries
    assert projection._read_floor_s(Shape(1000, 50, 20), 1000) == pytest.approx(0.796)
    monkeypatch.setitem(projection.RATES, "atomics", 5e3)
    assert projection._read_floor_s(Shape(1000, 50, 20), 1000) == pytest.approx(2.1)


def test_rows_say_that_they_are_projected(tmp_path, monkeypatch):
    case = projection.Case(Shape(4000, 5), Shape(400, 5))
    monkeypatch.setattr(projection, "CASES", (case,))
    projection.main(["--output", str(tmp_path / "out.csv"), "--tol", "1e-3"])
    with (tmp_path / "out.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert row["kind"] == "projection"
    assert int(row["reads"]) >= 2
    assert float(row["fit_floor_ms"]) >= int(row["reads"]) * float(row["read_floor_ms"])
