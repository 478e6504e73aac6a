"""The check of a GPU runs, measures and writes what it should, on an emulated device."""

import csv
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .emulator.strict_arrays import StrictDevice

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
sys.path.append(str(ROOT))  # they are not installed

from benchmarks.gpu import (  # noqa: E402
    ceilings,
    check,
    dual_parity,
    estimator_parity,
    fits,
    hinges,
    parity,
    peers,
    ranks,
    sanitized,
    searches,
    sections,
    speed,
    streaming,
    transfers,
)
from benchmarks.gpu.data import Shape, logistic  # noqa: E402
from benchmarks.gpu.measurement import Measurement, seconds_per_call  # noqa: E402
from benchmarks.gpu.profiled_device import ProfiledDevice  # noqa: E402
from benchmarks.gpu.report import Report, markdown  # noqa: E402

SMALL = Shape(400, 12), Shape(300, 60, 3)
RATES = ceilings.Ceilings(dict.fromkeys(ceilings.CEILING_NAMES, 1e9))


@pytest.fixture
def quick(monkeypatch):
    """Take a single call for its time."""

    def once(device, call, least_s=0.0):
        call()
        return 1e-3

    for module in (speed, ceilings):
        monkeypatch.setattr(module, "seconds_per_call", once)


def test_primal_verbs_pass_and_a_wrong_one_is_found(monkeypatch):
    def failed():
        some = dict(layouts=(("dense", 5), ("sparse", 20)), dtypes=(np.float32,))
        measurements = list(parity.check_verbs(StrictDevice(), 3, 60, **some))
        names = {measured.name for measured in measurements}
        assert {*parity.VERBS} <= names
        return {measured.name for measured in measurements if not measured.is_good}

    assert failed() == set()
    exact = parity.GpuPrimalEngine.line_point
    monkeypatch.setattr(
        parity.GpuPrimalEngine,
        "line_point",
        lambda self, step: (exact(self, step)[0] * (1 + 1e-8), exact(self, step)[1]),
    )
    assert failed() == {"line_point"}


def dual_failures(**options):
    some = dict(layouts=(("sparse", 8),), dtypes=(np.float64,), **options)
    measurements = list(dual_parity.check_dual(StrictDevice(), 3, 24, **some))
    return measurements, {measured.name for measured in measurements if not measured.is_good}


def test_dual_verbs_and_fits_pass(monkeypatch):
    monkeypatch.setattr(dual_parity, "KINDS", dual_parity.KINDS[:2])
    measurements, failed = dual_failures()
    assert failed == set()
    names = {measured.name for measured in measurements}
    assert {*dual_parity.SWEEP_VERBS, "fit", "fit, at once", "drift of the shared vector"} <= names


@pytest.mark.parametrize(
    ("verb", "wrong", "expected"),
    [
        ("dual_mass", lambda found: (found[0] * (1 + 1e-8), found[1]), "dual_mass"),
        ("exact_sweep", lambda found: (found[0], found[1] * (1 + 1e-8)), "exact_sweep, scaled"),
        ("loss_value", lambda found: found + 1e-3, "loss_value"),
    ],
)
def test_wrong_dual_verb_is_found(monkeypatch, verb, wrong, expected):
    monkeypatch.setattr(dual_parity, "KINDS", dual_parity.KINDS[1:2])
    exact = getattr(dual_parity.GpuEngine, verb)
    monkeypatch.setattr(dual_parity.GpuEngine, verb, lambda *args: wrong(exact(*args)))
    assert expected in dual_failures(has_fits=False)[1]


def test_order_is_compared_number_by_number(monkeypatch):
    assert all(measured.is_good for measured in dual_parity.check_order(StrictDevice(), 5))
    exact = dual_parity._order
    monkeypatch.setattr(dual_parity, "_order", lambda seed, *args: exact(seed + 1, *args))
    measurements = list(dual_parity.check_order(StrictDevice(), 5))
    assert not all(measured.is_good for measured in measurements)


def test_estimators_are_compared_through_device_ids(monkeypatch):
    some = ("logistic", "hinge")
    models = {name: estimator_parity.MODELS[name] for name in some}
    monkeypatch.setattr(estimator_parity, "MODELS", models)
    made = []

    def make():
        made.append(StrictDevice())
        return made[-1]

    measurements = list(estimator_parity.check_estimators(make, seed=1, n_rows=120))
    assert len(measurements) == 2 * 2 * len(models) + 1
    assert all(measured.is_good for measured in measurements)
    assert any("emulated device, emulated device" in measured.note for measured in measurements)
    assert len(made) == 2  # one for each number in device_ids


def test_ceilings_are_named_and_their_sums_are_numpys(quick, monkeypatch):
    measurements = list(ceilings.measure_ceilings(StrictDevice(), n=2**12))
    assert {measured.name for measured in measurements} == {*ceilings.CEILING_NAMES, "launch"}
    assert all(measured.is_good is not False for measured in measurements)
    values = {measured.name: measured.value for measured in measurements}
    assert values["copy"] == 8 * 2**12 / 1e-3
    assert values["gather float64"] == 2**9 / 1e-3
    grid = ceilings._grid
    monkeypatch.setattr(ceilings, "_grid", lambda *args: (grid(*args)[0] + 1,))
    monkeypatch.setattr(ceilings, "_THREADS", 32)
    assert all(m.is_good is not False for m in ceilings.measure_ceilings(StrictDevice(), n=2**10))


def test_floor_is_the_slowest_of_bytes_gathers_and_additions():
    rates = ceilings.Ceilings({**RATES.rates, "read": 8e9, "gather float32": 2e9})
    assert rates.floor_s(16e9) == 2.0
    assert rates.floor_s(16e9, gathers=3e9) == 3.0
    assert rates.floor_s(16e9, gathers=3e9, kind="float32") == 2.0
    assert rates.floor_s(16e9, gathers=3e9, atomics=4e9, kind="int64") == 4.0


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_kernels_are_timed_beside_their_floors(quick, shape):
    kernels = {m.name: m for m in speed.time_kernels(StrictDevice(), shape, RATES, seed=0)}
    n_bytes = 4 * 300 * 3 + 8 * 301 if shape.n_entries else 4 * 400 * 12
    of_a_row = 8 * shape.n_rows
    assert kernels["margins"].reference == pytest.approx((n_bytes + of_a_row) / 1e9)
    expected = "X^T s, at most 0 hot columns" if shape.n_entries else "dense pass, float32 sums"
    assert set(kernels) >= {
        expected, "X^T s", "line_point", "hessian_product of the engine"
    }  # fmt: skip


def test_floor_counts_what_shared_memory_does_not_hold():
    problem, dataset = logistic(Shape(300, 60, 3), seed=0)
    device = StrictDevice()
    data = speed.DeviceDataset.upload(device, problem, dataset)
    counts = np.sort(np.bincount(dataset.matrix.indices, minlength=60))[::-1]
    for most_hot in (0, 7, 60):
        assert speed._cold_entries(device, data, 8, most_hot) == counts[most_hot:].sum()
    small = StrictDevice(shared_bytes_per_block=80)
    assert speed._cold_entries(small, data, 8, 60) == counts[10:].sum()


def test_epochs_are_timed_kernel_by_kernel(monkeypatch):
    monkeypatch.setattr(speed, "_EPOCHS", 1)
    measurements = list(speed.time_epochs(StrictDevice(), Shape(64, 60, 3), RATES, seed=0))
    names = [measured.name for measured in measurements]
    assert names[0] == "epoch in rounds"
    assert "epoch at once" in names
    wall = measurements[0].value
    kernels = [m for m in measurements if m.name.startswith("epoch in rounds: ")]
    assert 0 < sum(measured.value for measured in kernels) <= wall
    assert all("launches an epoch" in measured.note for measured in kernels)


def test_streamed_passes_are_those_of_rows_on_the_card(monkeypatch):
    monkeypatch.setattr(streaming.streamed_dataset, "LEAST_PIECE_BYTES", 256)
    device = StrictDevice(1, 1)
    with device.use():
        measurements = list(streaming.measure_streaming(device, SMALL, 3, 2**10))
    errors = [m for m in measurements if m.name == "error of a pass"]
    assert len(errors) == 2 * len(SMALL)
    assert all(measured.is_good for measured in errors)
    rates = [m for m in measurements if m.name == "pass, sent"]
    assert all(measured.reference == measurements[0].value for measured in rates)
    assert [measured.is_good is None for measured in rates] == [False, True] * len(SMALL)
    shares = [m.value for m in measurements if m.name == "share that stays"]
    assert all(0 < share < 0.5 for share in shares)


def test_searches_share_and_agree():
    measurements = list(searches.compare_searches(StrictDevice, SMALL, 3))
    assert [m.name for m in measurements] == ["shared", "difference of scores"] * len(SMALL)
    assert all(measured.is_good for measured in measurements)


def test_hinges_are_fitted_in_each_way():
    measurements = list(hinges.compare_hinges(StrictDevice, SMALL, (0.1,), 0, 60.0))
    ways = ["continuation", "coordinate ascent", "the default"]
    assert [m.name for m in measurements] == ways * len(SMALL)
    assert all(m.value > 0.0 and m.note.split("; ")[1] for m in measurements)
    for measured, way in zip(
        measurements, ("smoothed", "dual", "smoothed", "smoothed", "dual", "dual"), strict=True
    ):
        assert way in measured.note
        assert float(measured.note.split("gap ")[1].split(" ")[0]) <= 1e-3
    assert [m.is_good is None for m in measurements] == [True, True, False] * len(SMALL)


def test_ranks_add_up_and_fit_as_one_device_does():
    devices = [StrictDevice(), StrictDevice()]
    measurements = list(ranks.measure_ranks(devices, SMALL[0], 1e-3, 0, (3, 1000)))
    assert [m.case for m in measurements] == ["3 numbers", "1,000 numbers", str(SMALL[0])] * 2
    assert all(m.is_good and m.value > 0.0 for m in measurements)
    assert "rank 0 has no NCCL" in measurements[0].note
    assert "SNAPML_NCCL=0 on rank 0" in measurements[3].note


def test_transfers_and_launches_are_timed():
    measurements = list(transfers.measure_transfers(StrictDevice(), 2**10, 3))
    assert len({(measured.name, measured.case) for measured in measurements}) == 8
    assert all(measured.value > 0 for measured in measurements)


def test_profile_counts_launches_of_each_kernel():
    profiled = ProfiledDevice(StrictDevice())
    transfers.reduce.parts_sum(profiled, *(profiled.xp.zeros((2, 3), np.float64) for _ in "ab"))
    assert profiled.times()["parts_sum"][0] == 1
    assert profiled.times() == {}


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_fits_are_judged_by_one_objective(monkeypatch, shape):
    monkeypatch.setattr(fits, "_REPEATS", 1)
    measurements = list(fits.compare_fits(StrictDevice(), shape, [1e-3, 1e-6], seed=0))
    found = {measured.name: measured for measured in measurements}
    ours = ["data resident", "from the host"]
    names = [f"snapml, GPU, {kind}, {tol}" for kind in ours for tol in ("0.001", "1e-06")]
    names += ["judge beside the CPU", "snapml, CPU, 1e-06"]
    assert all(found[name].is_good for name in names)
    peer = [found[f"scikit-learn lbfgs, CPU, {tol}"] for tol in ("0.001", "1e-06")]
    assert 0 < peer[0].value <= peer[1].value < 5.0
    assert "dense_pass" in found["kernels of the fit, 1e-06"].note or shape.n_entries


def test_peer_is_timed_by_its_path_and_not_by_its_tolerance():
    judge = fits._Judge(None, None, 1.0)
    path = peers.Path(1.0, 0.0, [(at_s, np.array([x])) for at_s, x in
                                 [(0.1, 3.0), (0.2, 1.0009), (0.3, 1.5), (0.4, 1.0)]])  # fmt: skip
    object.__setattr__(judge, "distance", lambda point: point.item() - 1.0)
    reached = fits._reached(path, judge, [1e-3, 1e-6, 0.0])
    assert [reached[tol][0] for tol in (1e-3, 1e-6, 0.0)] == [0.2, 0.4, 0.4]
    path.points.pop()
    assert fits._reached(path, judge, [1e-6])[1e-6][0] == math.inf


def test_peer_that_takes_too_long_is_ended():
    _, dataset = logistic(SMALL[0], seed=0)
    path = peers.peers_of(dataset)["scikit-learn lbfgs, CPU"](0.0)
    assert len(path.points) == 1


def test_peer_that_raises_leaves_the_others(monkeypatch):
    def broken(dataset):
        path = peers.Path(1, 0.0, [(0.1, np.zeros(13))])
        return {"one": lambda limit_s: 1 / 0, "other": lambda limit_s: path}

    monkeypatch.setattr(fits, "peers_of", broken)
    monkeypatch.setattr(fits, "_REPEATS", 1)
    measurements = list(fits.compare_fits(StrictDevice(), SMALL[0], [1e-3], seed=0))
    found = {measured.name: measured for measured in measurements}
    assert "ZeroDivisionError" in found["one"].note
    assert found["other, 0.001"].value == math.inf


@pytest.fixture
def report(tmp_path):
    made = Report(tmp_path / "new", {"card": "one"})
    made.clear()
    return made


def context(**changes):
    values = dict(make=StrictDevice, device_id=0, seed=0, scale=1.0, tols=(1e-3,),
                  earlier=list, limit_s=60.0)  # fmt: skip
    return sections.Context(**{**values, **changes})


def put_section(monkeypatch, run):
    monkeypatch.setitem(sections.SECTIONS, "kernels", sections.Section(run, 60))


def test_section_that_raises_keeps_what_it_has_and_fails(monkeypatch, report, capsys):
    def run(*_):
        yield MEASUREMENTS[2]
        raise ZeroDivisionError("of nothing")

    put_section(monkeypatch, run)
    assert check.run_section("kernels", context(), StrictDevice(), report) == 1
    first, last = report.read()
    assert first == MEASUREMENTS[2]
    assert (last.is_good, last.note) == (False, "ZeroDivisionError: of nothing")
    assert "Traceback" in capsys.readouterr().err


def test_section_ends_at_its_limit(monkeypatch, report):
    put_section(monkeypatch, lambda *_: iter([MEASUREMENTS[2]] * 5))
    assert check.run_section("kernels", context(limit_s=0.0), StrictDevice(), report) == 0
    assert [measured.name for measured in report.read()] == ["pass", "cut short"]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import time; time.sleep(60)", "did not end within 1 s"),
        ("import os; os.abort()", "ended with status -6"),
        ("raise SystemExit(1)", None),
    ],
)
def test_process_of_a_section_that_dies_is_a_failure(report, program, says):
    check.supervise("fits", [sys.executable, "-c", program], 1.0, report, {})
    assert [measured.note[-len(says or "") :] for measured in report.read()] == [says] * bool(says)


@pytest.fixture
def in_one_process(monkeypatch):
    """Run the command line on an emulated device, children too; returns the sections that ran."""
    ran = []

    def section(name, is_good):
        def run(context, device):
            ran.append(name)
            assert (context.tols, context.limit_s <= 60) == ((1e-3,), True)
            yield from transfers.measure_transfers(device, 2**8, 2)
            yield Measurement(name, "last", "", 1.0, "", 1.0, is_good)

        return sections.Section(run, 60)

    chosen = {"parity": section("parity", True), "dual parity": section("dual parity", False)}
    for module in (check, sections):
        monkeypatch.setattr(module, "SECTIONS", chosen)
    monkeypatch.setattr(check, "CudaDevice", lambda _: StrictDevice())
    monkeypatch.setattr(check, "facts_of", lambda device, options: {"seed": options.seed})
    monkeypatch.setattr(
        check, "supervise", lambda name, command, *_: check.main(command[3:]) and None
    )
    return ran


def test_command_runs_sections_and_fails_where_one_does(in_one_process, tmp_path):
    options = [f"--output-dir={tmp_path}", "--tol", "1e-3", "--seed=5"]
    assert check.main([*options, "--sections", "parity"]) == 0
    assert in_one_process == ["parity"]
    assert check.main([*options, "--resume"]) == 1
    assert in_one_process == ["parity", "dual parity"]  # the first has rows already
    page = (tmp_path / "check.md").read_text()
    assert "## parity" in page
    assert "**1 of 2 checks passed.**" in page
    assert check.main([*options, "--budget-s=0"]) == 0
    assert in_one_process == ["parity", "dual parity"]
    assert "nothing of the 0 s was left" in (tmp_path / "check.md").read_text()


def test_all_sections_exist_and_the_most_important_come_first():
    names = list(sections.SECTIONS)
    assert names[:3] == ["compile", "parity", "dual parity"]
    assert names.index("kernels") < names.index("fits") < names.index("sanitizer")
    found = list(sections.SECTIONS["compile"].run(context(), StrictDevice()))
    assert found == []  # nothing to compile for an emulated device


def test_ceilings_of_the_same_run_are_used(monkeypatch):
    known = [Measurement("ceilings", name, "one", 2.0, "") for name in ceilings.CEILING_NAMES]
    known += [dataclasses.replace(measured, value=3.0) for measured in known[:1]]
    rates = context(earlier=lambda: known).ceilings(StrictDevice()).rates
    assert rates == dict(dict.fromkeys(ceilings.CEILING_NAMES, 2.0), read=3.0)
    monkeypatch.setattr(sections.ceilings, "measure_ceilings", lambda _: known[:1])
    assert context().ceilings(StrictDevice()).rates == {"read": 2.0}


def test_shapes_are_scaled_in_rows_only():
    scaled = context(scale=0.1).shapes
    assert scaled[0] == Shape(1_100_000, 28)
    assert scaled[-1] == Shape(2_000_000, 1_000_000, 39)


def test_options_are_read_and_wrong_ones_refused(capsys):
    options = check.parse(["--sections", "dual-parity", "--seed", "7"])
    assert (options.sections, options.seed, options.device) == (["dual-parity"], 7, 0)
    assert len(check.parse([]).sections) == len(sections.SECTIONS)
    with pytest.raises(SystemExit):
        check.parse(["--sections", "speed"])
    assert "invalid choice: 'speed'" in capsys.readouterr().err


def test_without_a_card_the_check_says_what_it_needs():
    command = [sys.executable, "-m", "benchmarks.gpu.check", "--device", "99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this check needs a CUDA device: device_ids=[99]" in done.stderr
    assert "Traceback" not in done.stderr


def test_sanitizer_that_is_missing_or_finds_something_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [m.name for m in sanitized.sanitize(0, 5.0)] == ["not run"]
    tool = tmp_path / "compute-sanitizer"
    tool.write_text('#!/bin/sh\n[ "$2" = memcheck ] && exit 0\necho 3 hazards; exit 9\n')
    tool.chmod(0o755)
    found = {m.name: m for m in sanitized.sanitize(0, 5.0, ("memcheck", "racecheck"))}
    assert found["memcheck"].is_good
    assert (found["racecheck"].is_good, found["racecheck"].note) == (False, "3 hazards")


MEASUREMENTS = [
    Measurement("parity", "loss", "dense", 1e-13, "", 1e-10, True),
    Measurement("parity", "gradient", "dense", 1e-3, "", 1e-10, False),
    Measurement("kernels", "pass", "10 x 4", 2e-3, "s", 1e-3, None, "a note"),
]


def test_table_counts_failures_and_shows_ratios():
    text = markdown(MEASUREMENTS, {"card": "one"})
    assert "- card: one" in text
    assert "**1 of 2 checks passed.**" in text
    assert text.count("| gradient | dense | 0.001  | 1e-10  | 10000000.00 | **FAILED** |") == 2
    assert "| pass | 10 x 4 | 0.002 s | 0.001 s | 2.00 |  | a note |" in text
    assert text.index("## What failed") < text.index("## parity") < text.index("## kernels")


def test_rows_are_on_disk_as_they_come_and_are_read_back(report):
    for measured in MEASUREMENTS:
        report.add(measured)
        with report.path.open() as stream:
            rows = list(csv.DictReader(stream))
        assert rows[-1]["name"] == measured.name
        assert rows[-1]["card"] == "one"
    assert float(rows[2]["ratio"]) == 2.0
    assert report.read() == MEASUREMENTS
    report.write_page()
    assert report.path.with_suffix(".md").read_text() == markdown(MEASUREMENTS, {"card": "one"})


def test_ratio_is_absent_without_a_reference():
    assert dataclasses.replace(MEASUREMENTS[0], reference=None).ratio is None


def test_time_of_a_call_is_that_of_many():
    calls = []
    seconds = seconds_per_call(StrictDevice(), lambda: calls.append(None), least_s=1e-3)
    assert 0 < seconds < 1e-4
    assert len(calls) > 10


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_data_have_the_shape_and_both_labels(monkeypatch, shape):
    monkeypatch.setattr("benchmarks.gpu.data._PIECE_ROWS", 77)
    problem, dataset = logistic(shape, seed=0)
    assert dataset.matrix.shape == (shape.n_rows, shape.n_cols)
    assert set(np.unique(dataset.labels)) == {-1.0, 1.0}
    if shape.n_entries:
        indices = dataset.matrix.indices.reshape(shape.n_rows, -1)
        np.testing.assert_array_equal(indices // 20, np.tile([0, 1, 2], (shape.n_rows, 1)))
    else:
        assert dataset.matrix.values.std() == pytest.approx(12**-0.5, rel=0.1)
    assert math.isclose(problem.penalty.l2, 1.0)
