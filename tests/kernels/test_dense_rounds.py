"""Rounds whose rows stay in shared memory: as in two reads, and as written out in NumPy."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from snapml.kernels.descent import coordinate_descent
from snapml.kernels.descent.dense_rounds import DenseRoundsShape
from snapml.problems import Hinge, Logistic, Squared

from .descent_case import DescentCase
from .emulator import EmulatedDevice


def run(case, rows, *, n_epochs=2, has_tiles=True, stiffness=None, monkeypatch=None):
    """Run epochs in rounds; return the last one's order, sums and vector."""
    if not has_tiles:
        monkeypatch.setattr(case.descent, "_capacity_of_tiles", lambda: 0)
    assert (case.descent._shape_of_tiles(rows) is not None) == has_tiles
    return [case.run(e, rows=rows, stiffness=stiffness or rows) for e in range(n_epochs)][-1]


def assert_follows_the_oracle(case, rows, tolerance, n_epochs=2):
    slow = case.slow
    for epoch in range(n_epochs):
        order, sums, shared = case.run(epoch, rows=rows, stiffness=rows)
        slow.run(order, rows, offset=case.offset, stiffness=rows)
        found = case.duals, shared, [sums.gap, sums.slope, sums.single]
        exact = slow.duals, slow.shared, [slow.gap, slow.slope, slow.single]
        for one, other in zip(found, exact, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_features", [1, 3, 27, 28, 29, 128, 784])
@pytest.mark.parametrize("layout", ["dense", "centred"])
def test_rows_of_every_length_follow_the_oracle(n_features, layout):
    case = DescentCase(Logistic(), layout, n_rows=23, n_features=n_features, scale=0.2)
    assert case.descent._shape_of_tiles(8) is not None
    assert_follows_the_oracle(case, 8, 1e-9)


@pytest.mark.parametrize("n_features", [2000, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_rows_follow_the_oracle_with_and_without_tiles(n_features, dtype):
    """5,000 numbers of 8 bytes are too many for the tiles of the emulated device."""
    case = DescentCase(Squared(), "dense", dtype, n_rows=9, n_features=n_features, scale=0.1)
    has_tiles = (n_features, dtype) != (5000, "float64") and n_features * 4 * 4 < 60_000
    assert (case.descent._shape_of_tiles(4) is not None) == has_tiles
    assert_follows_the_oracle(case, 4, 1e-9 if dtype == "float64" else 2e-3)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 45, 64, 200])
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=lambda loss: loss.core_name)
def test_rounds_of_every_size_follow_the_oracle(loss, rows):
    """45 rows: rounds that are full or not, larger than the data, and blocks without a row."""
    device = EmulatedDevice(n_multiprocessors=3, blocks_each=1)
    assert_follows_the_oracle(DescentCase(loss, "dense", device=device), rows, 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["dense", "centred"])
def test_tiles_change_nothing_but_rounding(layout, dtype, monkeypatch):
    cases = [DescentCase(Logistic(), layout, dtype, n_features=40, scale=0.3) for _ in range(2)]
    _, sums, shared = run(cases[0], 12)
    _, other_sums, other_shared = run(cases[1], 12, has_tiles=False, monkeypatch=monkeypatch)
    tolerance = 1e-11 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(shared, other_shared, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        dataclasses.astuple(sums), dataclasses.astuple(other_sums), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("has_tiles", [True, False], ids=["tiles", "two reads"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_epochs_give_equal_bits(dtype, has_tiles, monkeypatch):
    results = set()
    for seed in range(4):
        device = EmulatedDevice(n_multiprocessors=3, blocks_each=1, seed=seed)
        case = DescentCase(Logistic(), "dense", dtype, n_features=29, device=device)
        _, sums, shared = run(case, 12, has_tiles=has_tiles, monkeypatch=monkeypatch)
        results.add((case.duals.tobytes(), shared.tobytes(), sums))
    assert len(results) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [4, 5, 8])
def test_rows_need_not_begin_at_whole_words(n_features, dtype):
    """A copy of 16 bytes between places not aligned to it is an error of the emulator."""
    case = DescentCase(Logistic(), "dense", dtype, n_features=n_features)
    expected = run(case, 12)
    other = DescentCase(Logistic(), "dense", dtype, n_features=n_features)
    places = np.empty(other.X.size + 1, dtype)
    moved = places[1:].reshape(other.X.shape)
    moved[:] = other.matrix.rows.values
    object.__setattr__(other.matrix.rows, "values", moved)
    found = run(other, 12)
    assert found[1] == expected[1]
    np.testing.assert_array_equal(found[2], expected[2])


FLAWS = {
    "blocks do not meet": ("    barrier.wait();\n", ""),
    "copies are not awaited": ("    wait_for_copies();\n", ""),
    "array is not cleared": ("changes[turn * size + j] = 0;", ""),
    "changes do not wait for all steps": ("rounds.take_steps(visited);\n    __syncthreads();",
                                          "rounds.take_steps(visited);"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Flawed(coordinate_descent.Program):
    """A program whose text was changed."""

    folder: str = ""

    @property
    def path(self):
        return Path(self.folder) / f"{self.file}.cu"


@pytest.mark.parametrize(("found", "instead"), FLAWS.values(), ids=FLAWS)
def test_flaw_of_the_schedule_gives_other_numbers(found, instead, tmp_path):
    device = EmulatedDevice(n_multiprocessors=4, blocks_each=1, seed=5)
    case = DescentCase(Logistic(), "dense", n_features=33, n_rows=120, device=device)
    expected = run(case, 8, n_epochs=1)
    flawed = DescentCase(Logistic(), "dense", n_features=33, n_rows=120, device=device)
    program = flawed.descent._dense_program
    text = program.path.read_text()
    assert text.count(found) == 1
    (tmp_path / "dense_rounds.cu").write_text(text.replace(found, instead))
    flawed.descent._dense_program = Flawed(program.file, program.macros, str(tmp_path))
    assert not np.array_equal(run(flawed, 8, n_epochs=1)[2], expected[2])


def test_shape_covers_the_round_and_fits():
    device = EmulatedDevice(n_multiprocessors=132, shared_bytes_per_block=232448)
    for n_cols, itemsize in [(1, 4), (28, 4), (784, 4), (784, 8), (2000, 4), (8000, 4)]:
        most = DenseRoundsShape.capacity(device, n_cols, itemsize)
        assert most >= 4 * 132
        for n_slots in (1, 131, 132, 133, most):
            shape = DenseRoundsShape.make(device, n_cols, itemsize, n_slots)
            assert (shape.n_blocks - 1) * shape.slots_each < n_slots
            assert shape.n_blocks * shape.slots_each >= n_slots
            assert shape.n_blocks <= 132
            assert shape.slots_each <= shape.n_threads <= 512
            assert shape.shared_bytes <= 232448
        assert DenseRoundsShape.make(device, n_cols, itemsize, 2 * most + 1000) is None
    assert DenseRoundsShape.capacity(device, 20_000, 4) == 0
