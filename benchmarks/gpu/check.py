"""Check and time everything that runs on a GPU; writes a CSV and a page of Markdown.

Run from the repository's root::

    python -m benchmarks.gpu.check --output-dir gpu_check

Sections run one after the other, each in a process of its own: one that raises, hangs or breaks the
driver's context is recorded as failed, and the next begins afresh. Every row is on disk as soon as
it is known.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.gpu.measurement import Measurement
from benchmarks.gpu.report import Report
from benchmarks.gpu.sections import SECTIONS, Context
from benchmarks.records import machine_facts
from snapml.kernels import CudaDevice, Device

__all__ = ["facts_of", "main", "parse", "run_section", "supervise"]

# What a child may need beyond its limit to end a measurement that it is in.
_GRACE_S = 10.0
_TIMED = ("ceilings", "kernels", "fits", "epochs", "transfers", "streaming", "searches", "ranks")


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
    names = [name.replace(" ", "-") for name in SECTIONS]
    parser.add_argument("--sections", nargs="+", choices=names, default=names)
    parser.add_argument("--device", type=int, default=0, help="as CUDA counts them")
    parser.add_argument("--scale", type=float, default=1.0, help="of the timed data's rows")
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6])
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--budget-s", type=float, default=330.0, help="of all sections together")
    parser.add_argument("--output-dir", type=Path, default=Path("gpu_check"))
    parser.add_argument("--resume", action="store_true", help="keep what is in the output folder")
    parser.add_argument("--child", type=float, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = time.time_ns() % 2**31
    return options


def run_section(name: str, context: Context, device: Device, report: Report) -> int:
    """Run one section in this process.

    Parameters
    ----------
    name : str
        Of `SECTIONS`.
    context : Context
        For it.
    device : Device
        The card, in use.
    report : Report
        Gets every measurement as it comes.

    Returns
    -------
    int
        How many checks failed; one that raises counts as one.
    """
    n_failed, end_s = 0, time.monotonic() + context.limit_s
    try:
        for measured in SECTIONS[name].run(context, device):
            report.add(measured)
            n_failed += measured.is_good is False
            if measured.is_good is False or name in _TIMED:
                _show(measured)
            if time.monotonic() > end_s:
                report.add(_cut_short(name, f"stopped at its limit of {context.limit_s:.0f} s"))
                break
    except Exception as error:
        traceback.print_exc()
        report.add(_failed(name, f"{type(error).__name__}: {error}"))
        n_failed += 1
    return n_failed


def supervise(
    name: str, command: Sequence[str], limit_s: float, report: Report, environment: dict[str, str]
) -> None:
    """Run one section in a process of its own, and record how it ends if it cannot.

    Parameters
    ----------
    name : str
        Of the section.
    command : sequence of str
        Runs it, and exits with 0, or with 1 where it has recorded what failed.
    limit_s : float
        Seconds after which it is ended.
    report : Report
        Where it writes to.
    environment : dict of str to str
        Of the process.
    """
    print(f"{name}: at most {limit_s:.0f} s", flush=True)
    try:
        status = subprocess.run(command, env=environment, timeout=limit_s, check=False).returncode
    except subprocess.TimeoutExpired:
        report.add(_failed(name, f"did not end within {limit_s:.0f} s"))
        return
    if status not in (0, 1):
        report.add(_failed(name, f"its process ended with status {status}"))


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
        "compute capability": cupy.cuda.Device(device.device_id).compute_capability,
        "CUDA of the driver": cupy.cuda.runtime.driverGetVersion(),
        "driver": _driver(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "NVRTC": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "CuPy": cupy.__version__,
        "PyTorch": _version("torch"),
        "scikit-learn": _version("scikit-learn"),
        **machine_facts(),
        "seed": options.seed,
        "scale": options.scale,
    }


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
    report = Report(options.output_dir, facts_of(device, options))
    if options.child is not None:
        return _child(device, options, report)
    if not (options.resume and report.path.exists()):
        report.clear()
    end_s = time.monotonic() + options.budget_s
    done = {measured.section for measured in report.read()}
    for name in options.sections:
        section = name.replace("-", " ")
        limit_s = min(SECTIONS[section].limit_s, end_s - time.monotonic())
        if section in done:
            continue
        if limit_s < 1.0:
            report.add(_cut_short(section, f"nothing of the {options.budget_s:g} s was left"))
            continue
        shared = [
            f"--{option}={getattr(options, option)}" for option in ("device", "scale", "seed")
        ]
        command = [sys.executable, "-m", "benchmarks.gpu.check", "--sections", name, *shared,
                   "--tol", *map(str, options.tol), f"--output-dir={options.output_dir}",
                   f"--child={limit_s}"]  # fmt: skip
        supervise(section, command, limit_s + _GRACE_S, report, _environment(section))
        report.write_page()
    report.write_page()
    return _verdict(report)


def _child(device: CudaDevice, options: argparse.Namespace, report: Report) -> int:
    (name,) = options.sections
    context = Context(
        lambda: CudaDevice(options.device),
        options.device,
        options.seed,
        options.scale,
        tuple(options.tol),
        report.read,
        options.child,
    )
    with device.use():
        return int(run_section(name.replace("-", " "), context, device, report) > 0)


def _environment(section: str) -> dict[str, str]:
    """Return the environment of a section: SciPy reads one switch when it is imported."""
    return {**os.environ, "SCIPY_ARRAY_API": "1"} if section == "fits" else dict(os.environ)


def _verdict(report: Report) -> int:
    measurements = report.read()
    n_failed = sum(measured.is_good is False for measured in measurements)
    print(f"{n_failed} of {len(measurements)} measurements failed; see {report.path}")
    return int(n_failed > 0)


def _show(measured: Measurement) -> None:
    ratio = (
        "" if measured.ratio is None else f", {measured.ratio:.2f} times {measured.reference:.3g}"
    )
    print(f"{measured.section}: {measured.name}, {measured.case}: {measured.value:.4g} "
          f"{measured.unit}{ratio} {measured.note}", flush=True)  # fmt: skip


def _failed(section: str, note: str) -> Measurement:
    return Measurement(section, "the section", "", 1.0, "failures", None, False, note)


def _cut_short(section: str, note: str) -> Measurement:
    return Measurement(section, "cut short", "", 1.0, "sections", note=note)


def _driver() -> str:
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.split("\n")[0].strip()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
