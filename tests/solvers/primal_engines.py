"""The engines of primal methods that one body of tests runs on."""

from kernels.emulator.strict_arrays import StrictDevice

from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine


def on_cpu(problem, dataset, **options):
    """Return an engine of the CPU."""
    return CpuPrimalEngine(problem, dataset, n_threads=1, **options)


def on_emulated_gpu(problem, dataset, *, device=None, **options):
    """Return an engine of an emulated device whose arrays are as strict as CuPy's."""
    return GpuPrimalEngine(problem, dataset, device or StrictDevice(), **options)


def with_device_vectors(problem, dataset, **options):
    """Return the same with coefficients and gradients on the device, however few."""
    engine = on_emulated_gpu(problem, dataset, **options)
    engine.vectors = engine.xp
    return engine


GPUS = {"host vectors": on_emulated_gpu, "device vectors": with_device_vectors}
ENGINES = {"cpu": on_cpu, **GPUS}
