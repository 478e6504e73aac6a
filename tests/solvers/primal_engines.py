"""The engines of primal methods that one body of tests runs on."""

import contextlib
import shutil
import tempfile
import weakref
from dataclasses import replace

import pytest
from kernels.emulator.strict_arrays import StrictDevice
from real_device import real_device, with_real_device

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, DenseMatrix
from snapml.solvers.rows import streamed_dataset
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.rows.streamed_dataset import StreamedDataset
from snapml.solvers.rows.streaming_engine import StreamingEngine


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


def on_gpu(problem, dataset, **options):
    """Return an engine of a CUDA device."""
    return GpuPrimalEngine(problem, dataset, real_device(), **options)


def on_store(problem, dataset, **options):
    """Return an engine of rows in a few files, some of which stay in memory."""
    streamed, folder = stored(dataset)
    engine = StreamingEngine(problem, streamed, n_threads=1, **options)
    weakref.finalize(engine, shutil.rmtree, folder)
    return engine


def stored(dataset, n_chunks=12):
    """Return a dataset with its rows in about so many files, and their folder."""
    matrix = dataset.matrix
    folder = tempfile.mkdtemp()
    n_bytes = 16 * matrix.n_stored
    with ChunkWriter(folder, chunk_bytes=max(1, n_bytes // n_chunks)) as writer:
        writer.append(matrix.values if isinstance(matrix, DenseMatrix) else matrix)
    store = ChunkedDataset.open(folder)
    return replace(dataset, matrix=ChunkedMatrix(store, store.manifest.n_bytes - 1)), folder


def streamed_to_gpu(problem, dataset, *, device=None, room=None, **options):
    """Return an engine of an emulated device that keeps some chunks of a store's rows."""
    device = device or StrictDevice()
    streamed, folder = stored(dataset, 5)
    room = 6 * dataset.matrix.n_stored if room is None else room
    with least_pieces(), device.use():
        data = StreamedDataset(device, problem, streamed, room)
        engine = GpuPrimalEngine(problem, data, device, **options)
    weakref.finalize(engine, shutil.rmtree, folder)
    return engine


@contextlib.contextmanager
def least_pieces(n_bytes=256):
    """Let pieces of chunks be as small as tests need them inside ``with``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed_dataset, "LEAST_PIECE_BYTES", n_bytes)
        yield


GPUS = {"host vectors": on_emulated_gpu, "device vectors": with_device_vectors}
MAKERS = {
    "cpu": on_cpu,
    **GPUS,
    "streamed": on_store,
    "streamed to a device": streamed_to_gpu,
    "gpu": on_gpu,
}
ENGINES = with_real_device(["cpu", *GPUS, "streamed", "streamed to a device"])
