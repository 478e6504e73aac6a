"""The engines of primal methods that one body of tests runs on."""

import shutil
import tempfile
import weakref
from dataclasses import replace

from kernels.emulator.strict_arrays import StrictDevice

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, DenseMatrix
from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.streaming_engine import StreamingEngine


def on_cpu(problem, dataset, **options):
    """Return an engine of the CPU."""
    return CpuPrimalEngine(problem, dataset, n_threads=1, **options)


def on_emulated_gpu(problem, dataset, *, device=None, **options):
    """Return an engine of an emulated device whose arrays are as strict as CuPy's."""
    return GpuPrimalEngine(problem, dataset, device or StrictDevice(), **options)


def on_store(problem, dataset, **options):
    """Return an engine of rows in a few files, some of which stay in memory."""
    matrix = dataset.matrix
    folder = tempfile.mkdtemp()
    n_bytes = 16 * matrix.n_stored
    with ChunkWriter(folder, chunk_bytes=max(1, n_bytes // 12)) as writer:
        writer.append(matrix.values if isinstance(matrix, DenseMatrix) else matrix)
    store = ChunkedDataset.open(folder)
    streamed = replace(dataset, matrix=ChunkedMatrix(store, store.manifest.n_bytes - 1))
    engine = StreamingEngine(problem, streamed, n_threads=1, **options)
    weakref.finalize(engine, shutil.rmtree, folder)
    return engine


ENGINES = {"cpu": on_cpu, "gpu-emulated": on_emulated_gpu, "streamed": on_store}
