"""The engines of primal methods that one body of tests runs on."""

from kernels.emulator.strict_arrays import StrictDevice
from real_device import real_device, with_real_device

from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine


def on_cpu(problem, dataset, **options):
    """Return an engine of the CPU."""
    return CpuPrimalEngine(problem, dataset, n_threads=1, **options)


def on_emulated_gpu(problem, dataset, *, device=None, **options):
    """Return an engine of an emulated device whose arrays are as strict as CuPy's."""
    return GpuPrimalEngine(problem, dataset, device or StrictDevice(), **options)


def on_gpu(problem, dataset, **options):
    """Return an engine of a CUDA device."""
    return GpuPrimalEngine(problem, dataset, real_device(), **options)


MAKERS = {"cpu": on_cpu, "gpu-emulated": on_emulated_gpu, "gpu": on_gpu}
ENGINES = with_real_device(["cpu", "gpu-emulated"])
