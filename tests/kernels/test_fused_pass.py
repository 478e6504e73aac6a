"""Margins, loss and gradient of the fused passes against plain NumPy."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from reference.data import make_labels, make_weights, rounding
from reference.losses import ORACLES
from reference.softmax import softmax_loss, softmax_probabilities

from snapml.kernels import DenseRows, Program, Targets
from snapml.kernels.losses import fused_pass

from .emulator import EmulatedDevice
from .layouts import SHAPES, make_matrix

pytestmark = pytest.mark.pairwise

FLOAT64 = np.dtype(np.float64)


class Case:
    """One pass on the device, and the same numbers by NumPy."""

    def __init__(self, core_name, shape, *, dtype=FLOAT64, wide=FLOAT64, n_outputs=1,
                 weights="each row"):  # fmt: skip
        self.core_name = core_name
        n_rows, n_cols = shape
        self.matrix, self.X = make_matrix("dense", dtype, *shape)
        rng = np.random.default_rng(3)
        if core_name == "Softmax":
            self.y = rng.integers(0, n_outputs, n_rows).astype(float)
        else:
            labels = ORACLES[core_name].labels
            self.y = np.array(
                [make_labels(self.X, labels=labels, seed=k) for k in range(n_outputs)]
            )
        given = {
            "none": lambda: None,
            "each row": lambda: make_weights(n_rows),
            "each row and output": lambda: np.array(
                [make_weights(n_rows, seed=k) for k in range(n_outputs)]
            ),
        }[weights]()
        self.c = np.broadcast_to(0.5 if given is None else given, (n_outputs, n_rows))
        labels = self.y.astype(dtype)
        self.targets = Targets(
            labels, None if given is None else given.astype(dtype), 0.5, n_outputs
        )
        self.coef = rng.normal(size=(n_outputs, n_cols + 1)).astype(wide)
        self.margins = np.full((n_outputs, n_rows), np.nan)
        self.A = np.column_stack([self.X, np.full(n_rows, 0.5)])

    def run(self, device):
        args = (device, self.matrix, self.core_name, self.targets, self.coef, 0.5, self.margins)
        return fused_pass.dense_pass(*args)

    def exact(self):
        z = self.coef.astype(float) @ self.A.T
        if self.core_name == "Softmax":
            classes = self.y.astype(int)
            slopes = softmax_probabilities(z) if z.size else z.copy()
            slopes[classes, np.arange(z.shape[1])] -= 1
            values = softmax_loss(z, classes) if z.size else np.zeros(0)
            return z, self.c[0] @ values, self.c * slopes
        oracle = ORACLES[self.core_name]
        return z, np.sum(self.c * oracle.value(z, self.y)), self.c * oracle.gradient(z, self.y)

    def check(self, device):
        result = self.run(device)
        z, loss, slopes = self.exact()
        # Rounding errors are those of the sums of absolute values, in the coefficients' type. An
        # error of a margin moves its slope by no more than twice as much: l'' <= 2.
        rounded = 30 * rounding(self.coef.dtype)
        in_margins = rounded * np.abs(self.coef) @ np.abs(self.A).T
        in_slopes = rounded * np.abs(slopes) + 2 * self.c * in_margins
        found = result[:-1].reshape(self.coef.shape)
        assert np.all(np.abs(self.margins - z) <= in_margins)
        assert abs(result[-1] - loss) <= rounded * loss + np.sum(np.abs(slopes) * in_margins)
        assert np.all(np.abs(found - slopes @ self.A) <= in_slopes @ np.abs(self.A))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("core_name", "n_outputs"), [("Logistic", 1), ("Softmax", 3)])
def test_pass_of_every_shape_equals_the_plain_sums(device, shape, core_name, n_outputs):
    Case(core_name, shape, n_outputs=n_outputs).check(device)


@pytest.mark.parametrize("core_name", ORACLES)
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("weights", ["none", "each row", "each row and output"])
def test_every_loss_takes_every_kind_of_weights(device, core_name, n_outputs, weights):
    Case(core_name, (70, 9), n_outputs=n_outputs, weights=weights).check(device)


@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_float32_rows_are_added_in_the_type_of_the_coefficients(device, wide):
    Case("Squared", (90, 33), dtype=np.dtype(np.float32), wide=np.dtype(wide)).check(device)


@pytest.mark.parametrize("n_cols", [8, 9, 16, 31, 64, 127, 256, 257, 600, 2500, 4096])
def test_last_columns_of_every_team_are_counted_once(device, n_cols):
    Case("Logistic", (11, n_cols)).check(device)


@pytest.mark.parametrize("n_rows", range(1, 20))
def test_last_rows_of_every_tile_are_counted_once(device, n_rows):
    Case("Logistic", (n_rows, 70)).check(device)


def test_dense_pass_repeats_to_the_bit_whatever_order_the_threads_run_in():
    case = Case("Logistic", (300, 9))
    first, *others = (case.run(EmulatedDevice(2, 2, seed=seed)) for seed in range(4))
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_rows_too_long_for_a_block_are_refused_by_name(device):
    with pytest.raises(ValueError, match=r"a pass over 4097 columns .* needs too many threads"):
        Case("Logistic", (1, 4097)).run(device)
    # Coefficients and gradients of so many outputs are too long for any card's blocks.
    with pytest.raises(ValueError, match=r"needs \d+ bytes of a block, which has 512 threads"):
        Case("Softmax", (1, 2000), n_outputs=40).run(device)


# Shared memory of a block: Turing, consumer cards since Ampere, A100, Hopper.
@pytest.mark.parametrize("most_bytes", [65536, 101376, 166912, 232448])
@pytest.mark.parametrize(("n_cols", "n_outputs"), [(1, 1), (28, 3), (300, 2), (2000, 1), (4096, 1)])
def test_shape_of_a_dense_pass_covers_the_row_by_whole_warps(n_cols, n_outputs, most_bytes):
    for itemsize in (4, 8):
        shape = fused_pass.DensePassShape.make(n_cols, n_outputs, itemsize, most_bytes)
        assert shape.team_lanes * (shape.columns - 1) < n_cols <= shape.team_lanes * shape.columns
        assert shape.columns <= fused_pass.MOST_COLUMNS
        assert shape.n_threads % shape.team_lanes == 0
        assert shape.n_threads % 32 == 0
        assert shape.n_threads <= 512
        assert shape.shared_bytes <= most_bytes or (n_cols, most_bytes) == (4096, 65536)


@pytest.mark.parametrize("n_cols", [28, 784, 2000])
def test_tiles_on_the_way_hide_the_latency_of_a_hopper(n_cols):
    """4.3 TB/s times 700 ns are 23 kB for each of 132 multiprocessors."""
    shape = fused_pass.DensePassShape.make(n_cols, 1, 4, 232448)
    assert 2 * shape.shared_bytes <= 232448
    assert 2 * shape.tile_rows * n_cols * 4 >= 2 * 23_000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_cols", [7, 8, 27])
def test_rows_need_not_begin_at_whole_words(device, n_cols, dtype):
    """A copy of 16 bytes between places not aligned to it is an error of the emulator."""
    case = Case("Logistic", (90, n_cols), dtype=np.dtype(dtype))
    expected = case.run(device)
    moved = np.empty(case.X.size + 1, dtype)[1:].reshape(case.X.shape)
    moved[:] = case.matrix.values
    case.matrix = DenseRows(moved)
    np.testing.assert_array_equal(case.run(device), expected)


# 64 and 16 columns: rows that begin in the same bank, whose teams begin with other columns.
@pytest.mark.parametrize("n_cols", [2, 16, 28, 64, 784])
@pytest.mark.parametrize("most_bytes", [24_000, 48_000, 101376])
def test_tiles_of_every_size_give_the_same_sums(n_cols, most_bytes):
    device = EmulatedDevice(2, 2, most_bytes, seed=1)
    Case("Logistic", (131, n_cols), dtype=np.dtype(np.float32)).check(device)


@dataclasses.dataclass(frozen=True)
class Flawed(Program):
    """A program whose text was changed."""

    folder: str = ""

    @property
    def path(self):
        return Path(self.folder) / f"{self.file}.cu"


FLAWS = {
    "copies are not awaited": "    wait_for_copies();\n",
    "tile is used before all have copied": "    wait_for_copies();\n    __syncthreads();\n",
    "labels are not copied": "targets.labels + k * targets.n_rows + first + t);",
}


@pytest.mark.parametrize("removed", FLAWS.values(), ids=FLAWS)
def test_flaw_of_the_pass_gives_other_numbers(removed, tmp_path, monkeypatch):
    device = EmulatedDevice(2, 1, seed=3)
    case = Case("Logistic", (2000, 9))
    expected = case.run(device)
    program = fused_pass.dense_program("Logistic", FLOAT64, FLOAT64, 5)
    text = program.path.read_text()
    assert text.count(removed) == 1
    instead = "" if removed.endswith("\n") else "targets.labels + k);"
    (tmp_path / "dense_pass.cu").write_text(text.replace(removed, instead))
    monkeypatch.setattr(
        fused_pass,
        "dense_program",
        lambda *_: Flawed(program.file, program.macros, str(tmp_path)),
    )
    assert not np.array_equal(case.run(device), expected)
