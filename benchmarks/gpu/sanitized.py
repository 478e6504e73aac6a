"""Small cases of everything, for compute-sanitizer, which slows kernels down a lot.

Run by the check, or by hand::

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m benchmarks.gpu.sanitized
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu import ceilings, dual_parity, parity
from benchmarks.gpu.measurement import Measurement
from snapml.kernels import CudaDevice, Device

__all__ = ["TOOLS", "sanitize", "small_cases"]

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Long rows that are read twice, and of each other layout one.
_LAYOUTS = (("dense", 13), ("dense", 300), ("dense", 5000), ("sparse", 60), ("ones", 60))


def small_cases(device: Device, n_rows: int = 100) -> Iterator[Measurement]:
    """Run every kernel at least once.

    Parameters
    ----------
    device : Device
        Runs the kernels.
    n_rows : int, default=100
        Of the data.

    Yields
    ------
    Measurement
        As in the other sections.
    """
    some: dict[str, Any] = dict(dtypes=(np.float32,))
    yield from parity.check_verbs(device, 0, n_rows, layouts=_LAYOUTS, **some)
    layouts = tuple(case for case in dual_parity.LAYOUTS if case[1] < 1000)[::2]
    yield from dual_parity.check_dual(device, 0, n_rows, layouts=layouts, has_fits=False, **some)
    yield from ceilings.measure_ceilings(device, 2**12)


def sanitize(device_id: int, limit_s: float, tools: Sequence[str] = TOOLS) -> Iterator[Measurement]:
    """Run `small_cases` under the tools of compute-sanitizer, beside each other.

    Parameters
    ----------
    device_id : int
        As CUDA counts them.
    limit_s : float
        Seconds after which a tool is stopped.
    tools : sequence of str
        Of compute-sanitizer.

    Yields
    ------
    Measurement
        Good where a tool reports nothing and the cases pass; the note is the tool's last line.
    """
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        note = "compute-sanitizer is not on the PATH"
        yield Measurement("sanitizer", "not run", "", 0.0, "reports", note=note)
        return
    case = [sys.executable, "-m", "benchmarks.gpu.sanitized", "--device", str(device_id)]
    running = {
        tool: subprocess.Popen(
            [sanitizer, "--tool", tool, "--error-exitcode", "9", *case],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for tool in tools
    }
    end_s = time.monotonic() + limit_s
    for tool, process in running.items():
        yield _outcome(tool, process, max(1.0, end_s - time.monotonic()))


def _outcome(tool: str, process: subprocess.Popen[str], limit_s: float) -> Measurement:
    started_s = time.monotonic()
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        passed_s = time.monotonic() - started_s
        note = f"stopped after {passed_s:.0f} s: {_last_line(output)}"
        return Measurement("sanitizer", tool, "small cases", 1.0, "runs cut short", note=note)
    status = float(process.returncode)
    note = _last_line(output)
    return Measurement("sanitizer", tool, "small cases", status, "status", 0, status == 0, note)


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "no output"


def main(arguments: list[str]) -> int:
    """Run `small_cases`, each allocation on its own, so that its ends are seen.

    Parameters
    ----------
    arguments : list of str
        Of the command line.

    Returns
    -------
    int
        1 if a case failed.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.sanitized")
    parser.add_argument("--device", type=int, default=0, help="as CUDA counts them")
    device = CudaDevice(parser.parse_args(arguments).device)
    device.xp.cuda.set_allocator(None)
    with device.use():
        failed = [measured for measured in small_cases(device) if measured.is_good is False]
    for measured in failed:
        print(measured)
    return int(len(failed) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
