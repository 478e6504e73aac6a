"""The check of a GPU runs, measures and writes what it should, on an emulated device."""

import csv
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from snapml.solvers import device_choice

from .emulator.strict_arrays import StrictDevice

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
sys.path.append(str(ROOT))  # they are not installed

from benchmarks.gpu import check, fits, parity, speed  # noqa: E402
from benchmarks.gpu.data import Shape, logistic  # noqa: E402
from benchmarks.gpu.measurement import Measurement, markdown, seconds_per_call  # noqa: E402

SMALL = Shape(400, 12), Shape(300, 60, 3)


@pytest.fixture
def quick(monkeypatch):
    """Take a single call for its time."""

    def once(device, call, least_s=0.0):
        call()
        return 1e-3

    monkeypatch.setattr(speed, "seconds_per_call", once)


def test_verbs_pass_and_a_wrong_one_is_found(monkeypatch):
    monkeypatch.setattr(parity, "LAYOUTS", (("dense", 5), ("sparse", 20)))

    def errors():
        return list(parity.check_verbs(StrictDevice(), seed=3, n_rows=60))

    assert len(errors()) == 2 * 2 * 4 * 9  # layouts, types, losses, verbs
    assert all(measured.is_good for measured in errors())
    exact = parity.GpuPrimalEngine.line_point
    monkeypatch.setattr(
        parity.GpuPrimalEngine,
        "line_point",
        lambda self, step: (exact(self, step)[0] * (1 + 1e-8), exact(self, step)[1]),
    )
    failed = {measured.name for measured in errors() if not measured.is_good}
    assert failed == {"line_point"}


def test_estimators_are_compared_through_device_ids(monkeypatch):
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    measurements = list(parity.check_estimators(0, seed=1, n_rows=300))
    assert len(measurements) == 5
    assert all(measured.is_good for measured in measurements)
    assert all("emulated device" in measured.note for measured in measurements)


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_kernels_are_timed_beside_a_read_of_the_rows(quick, shape):
    device = StrictDevice()
    ceilings = {m.name: m.value for m in speed.measure_ceilings(device, n=2**12)}
    assert set(ceilings) == {"copy", "gather", "atomic"}
    assert ceilings["copy"] == 8 * 2**12 / 1e-3
    kernels = {m.name: m for m in speed.time_kernels(device, shape, ceilings, seed=0)}
    n_bytes = 4 * 400 * 12 if not shape.n_entries else 4 * 300 * 3 + 8 * 301
    for measured in kernels.values():
        assert measured.reference == pytest.approx(n_bytes / ceilings["copy"])
    expected = "X^T s, at most 0 hot columns" if shape.n_entries else "dense pass, float32 sums"
    assert {expected, "X^T s", "margins", "line_point", "hessian_product of the engine"} <= set(
        kernels
    )


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_fits_are_judged_by_one_objective(shape):
    measurements = list(fits.compare_fits(StrictDevice(), shape, 1e-5, seed=0))
    names = [measured.name for measured in measurements]
    assert names[:3] == [
        "snapml, GPU, data resident", "snapml, GPU, from the host", "snapml, CPU"
    ]  # fmt: skip
    assert all(measured.is_good for measured in measurements[:3])
    assert measurements[0].ratio == 1.0


def test_sections_run_in_order_on_scaled_data(quick, monkeypatch):
    monkeypatch.setattr(check, "DENSE", (Shape(10_000, 4),))
    monkeypatch.setattr(check, "SPARSE", ())
    monkeypatch.setattr(
        speed, "measure_ceilings", lambda _: [Measurement("c", "copy", "", 1.0, "B/s")]
    )
    options = check.parse(["--sections", "fits", "kernels", "--scale", "0.01", "--tol", "1e-3"])
    sections = [measured.section for measured in check.run(StrictDevice(), options)]
    assert sections[0] == "c"
    assert list(dict.fromkeys(sections[1:])) == ["kernels", "fits"]


def test_options_are_read_and_wrong_ones_refused(capsys):
    options = check.parse(["--sections", "parity", "--seed", "7"])
    assert (options.sections, options.seed, options.device) == (["parity"], 7, 0)
    assert check.parse([]).sections == list(check.SECTIONS)
    with pytest.raises(SystemExit):
        check.parse(["--sections", "speed"])
    assert "invalid choice: 'speed'" in capsys.readouterr().err


def test_without_a_card_the_check_says_what_it_needs():
    command = [sys.executable, "-m", "benchmarks.gpu.check", "--device", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this check needs a CUDA device: device_ids=[99]" in done.stderr
    assert "Traceback" not in done.stderr


MEASUREMENTS = [
    Measurement("parity", "loss", "dense", 1e-13, "", 1e-10, True),
    Measurement("parity", "gradient", "dense", 1e-3, "", 1e-10, False),
    Measurement("kernels", "pass", "10 x 4", 2e-3, "s", 1e-3, None, "a note"),
]


def test_table_counts_failures_and_shows_ratios():
    text = markdown(MEASUREMENTS, {"card": "one"})
    assert "- card: one" in text
    assert "**1 of 2 checks passed.**" in text
    assert "| gradient | dense | 0.001  | 1e-10  | 10000000.00 | **FAILED** |" in text
    assert "| pass | 10 x 4 | 0.002 s | 0.001 s | 2.00 |  | a note |" in text
    assert text.index("## parity") < text.index("## kernels")


def test_rows_of_the_csv_carry_the_facts(tmp_path):
    check.write(tmp_path / "new", MEASUREMENTS, {"card": "one"})
    with (tmp_path / "new" / "check.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["loss", "gradient", "pass"]
    assert all(row["card"] == "one" for row in rows)
    assert float(rows[2]["ratio"]) == 2.0
    assert (tmp_path / "new" / "check.md").read_text() == markdown(MEASUREMENTS, {"card": "one"})


def test_ratio_is_absent_without_a_reference():
    assert dataclasses.replace(MEASUREMENTS[0], reference=None).ratio is None


def test_time_of_a_call_is_that_of_many():
    calls = []
    seconds = seconds_per_call(StrictDevice(), lambda: calls.append(None), least_s=1e-3)
    assert 0 < seconds < 1e-4
    assert len(calls) > 10


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_data_have_the_shape_and_both_labels(shape):
    problem, dataset = logistic(shape, seed=0)
    assert dataset.matrix.shape == (shape.n_rows, shape.n_cols)
    assert set(np.unique(dataset.labels)) == {-1.0, 1.0}
    if shape.n_entries:
        assert dataset.matrix.n_stored == shape.n_rows * shape.n_entries
        assert 0 <= dataset.matrix.indices.min() <= dataset.matrix.indices.max() < shape.n_cols
    assert math.isclose(problem.penalty.l2, 1.0)
