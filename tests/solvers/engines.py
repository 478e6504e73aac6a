"""Every engine of dual coordinate ascent, by name: one test body serves them all."""

from kernels.emulator import EmulatedDevice
from real_device import real_device, with_real_device

from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.gpu_engine import GpuEngine

ENGINES = with_real_device(["cpu", "gpu-emulated"])


def make_engine_on(name, problem, dataset, **options):
    """Return an engine on some data; `options` go to its constructor."""
    if name == "cpu":
        return CpuEngine(problem, dataset, n_threads=1, **options)
    device = real_device() if name == "gpu" else EmulatedDevice(4, 4, n_workers=1)
    return GpuEngine(problem, dataset, device, **options)


def make_engine(name, case, rows=slice(None), **options):
    """Return an engine on some rows of a case."""
    return make_engine_on(name, case.problem, case.dataset(rows), **options)
