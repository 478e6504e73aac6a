"""Check and time everything that runs on a GPU; writes a CSV and a page of Markdown.

Run from the repository's root::

    python -m benchmarks.gpu.check --output-dir gpu_check
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu import fits, parity, speed
from benchmarks.gpu.data import Shape
from benchmarks.gpu.measurement import Measurement, markdown
from benchmarks.records import machine_facts
from snapml.kernels import CudaDevice, Device

__all__ = ["facts_of", "main", "parse", "run", "write"]

SECTIONS = ("parity", "estimators", "sanitizer", "ceilings", "kernels", "fits")
DENSE = (Shape(11_000_000, 28), Shape(1_000_000, 784), Shape(400_000, 2000))
SPARSE = (Shape(20_000_000, 1_000_000, 39),)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options.

    Parameters
    ----------
    arguments : list of str
        Of the command line.

    Returns
    -------
    argparse.Namespace
        With a field for each option.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.check", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--device", type=int, default=0, help="as CUDA counts them")
    parser.add_argument("--scale", type=float, default=1.0, help="of the timed data's rows")
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6])
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--output-dir", type=Path, default=Path("gpu_check"))
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = time.time_ns() % 2**31
    return options


def run(device: Device, options: argparse.Namespace) -> Iterator[Measurement]:
    """Run the sections that were asked for, in their order.

    Parameters
    ----------
    device : Device
        The card.
    options : argparse.Namespace
        Of `parse`.

    Yields
    ------
    Measurement
        As soon as it is known.
    """
    wanted, seed = options.sections, options.seed
    if "parity" in wanted:
        yield from parity.check_verbs(device, seed)
    if "estimators" in wanted:
        yield from parity.check_estimators(options.device, seed)
    if "sanitizer" in wanted:
        yield from _sanitize(options)
    ceilings: dict[str, float] = {}
    if "ceilings" in wanted or "kernels" in wanted:
        for measured in speed.measure_ceilings(device):
            ceilings[measured.name] = measured.value
            yield measured
    for shape in (*DENSE, *SPARSE):
        shape = dataclasses.replace(shape, n_rows=max(1000, int(shape.n_rows * options.scale)))
        if "kernels" in wanted:
            yield from speed.time_kernels(device, shape, ceilings, seed)
        for tol in options.tol if "fits" in wanted else ():
            yield from fits.compare_fits(device, shape, tol, seed)


def _sanitize(options: argparse.Namespace) -> Iterator[Measurement]:
    """Run the parity of verbs under compute-sanitizer."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        note = "compute-sanitizer is not on the PATH"
        yield Measurement("sanitizer", "not run", "", 0.0, "errors", note=note)
        return
    for tool in ("memcheck", "racecheck"):
        check = [sys.executable, "-m", "benchmarks.gpu.sanitized", str(options.device)]
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *check]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        is_good = done.returncode == 0
        yield Measurement(
            "sanitizer", tool, "parity", float(not is_good), "failures", None, is_good, *last
        )


def facts_of(device: CudaDevice, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a reader must know about card, machine and software.

    Parameters
    ----------
    device : CudaDevice
        The card.
    options : argparse.Namespace
        Of `parse`.

    Returns
    -------
    dict
        Names and values, without names of hosts or users.
    """
    cupy = device.xp
    return {
        "card": device.description,
        "compute capability": device.xp.cuda.Device(device.device_id).compute_capability,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "NVRTC": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "CuPy": cupy.__version__,
        **machine_facts(),
        "seed": options.seed,
        "scale": options.scale,
    }


def write(folder: Path, measurements: list[Measurement], facts: dict[str, Any]) -> None:
    """Write ``check.csv`` and ``check.md``.

    Parameters
    ----------
    folder : pathlib.Path
        Made if need be.
    measurements : list of Measurement
        Results.
    facts : dict
        Repeated in every row of the CSV.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in dataclasses.fields(Measurement)]
    with (folder / "check.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*names, "ratio", *facts], lineterminator="\n")
        writer.writeheader()
        for measured in measurements:
            own = {**dataclasses.asdict(measured), "ratio": measured.ratio}
            writer.writerow({**own, **facts})
    (folder / "check.md").write_text(markdown(measurements, facts))


def main(arguments: list[str]) -> int:
    """Run the check.

    Parameters
    ----------
    arguments : list of str
        Of the command line.

    Returns
    -------
    int
        1 if a check failed.
    """
    options = parse(arguments)
    try:
        device = CudaDevice(options.device)
    except RuntimeError as error:
        raise SystemExit(f"this check needs a CUDA device: {error}") from error
    measurements = []
    with device.use():
        for measured in run(device, options):
            measurements.append(measured)
            if measured.is_good is False or measured.section not in ("parity", "estimators"):
                print(f"{measured.section}: {measured.name}, {measured.case}: "
                      f"{measured.value:.4g} {measured.unit} {measured.note}")  # fmt: skip
    write(options.output_dir, measurements, facts_of(device, options))
    n_failed = sum(measured.is_good is False for measured in measurements)
    print(f"{n_failed} of {len(measurements)} measurements failed; see check.md")
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
