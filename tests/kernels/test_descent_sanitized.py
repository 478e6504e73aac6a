"""The descents' kernels under sanitizers: no race but the marked ones, no access outside.

One small process for all of them: under TSan a thread of the emulator costs a millisecond.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from .emulator.build import environment_of

LAUNCHES = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kernels.descent_case import DescentCase
from kernels.emulator import EmulatedDevice
from kernels.test_adjoint import make_case, sweep
from kernels.test_column_descent import Case, columns

for layout in ("int32", "dense"):
    case = DescentCase(layout=layout, n_rows=16, device=EmulatedDevice(seed=1, n_workers=4))
    case.run(rows=8, stiffness=4.0)
    case.descent._capacity_of_tiles = lambda: 0
    case.run(rows=8, stiffness=4.0)
    case.run(rows=8, at_once=True, stiffness=4.0)
    case.sums.dual(case.duals, 1.0, 1.0, np.empty(case.n_rows))
    case.sums.loss(None, 0.5, np.empty(case.n_rows), np.empty(case.n_rows))
    case.sums.gradient_terms(np.zeros(case.n_rows), 1.0)
    device = EmulatedDevice(seed=1, n_workers=4)
    Case(columns(layout, 20, 8), layout, device=device, l1=0.1).sweep(4, 3.0)
    sweep(make_case(layout, 16, 40), layout, np.ones(40), np.ones(16), n_workers=4)
print("no report")
"""


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizer_has_nothing_to_report(sanitizer):
    command = [sys.executable, "-c", LAUNCHES, str(Path(__file__).parents[1])]
    environment = environment_of(sanitizer)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout + done.stderr == "no report\n"
