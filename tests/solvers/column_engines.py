"""The engines of working-set descent that one body of tests runs on."""

from kernels.emulator.strict_arrays import StrictDevice

from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.columns.gpu_columns import GpuColumns


def on_emulated_gpu(problem, dataset, *, n_threads=1, **options):
    """Return an engine of an emulated device whose arrays are as strict as CuPy's."""
    return GpuColumns(problem, dataset, StrictDevice(), **options)


ENGINES = {"cpu": CpuColumnEngine, "gpu-emulated": on_emulated_gpu}
