"""The data as the engines see them: matrices over the user's own memory, or chunks in files."""

from snapml.data.click_log import make_click_log
from snapml.data.compressed import CompressedMatrix
from snapml.data.dataset import Dataset, DenseMatrix, Matrix
from snapml.data.store.chunk_writer import ChunkWriter
from snapml.data.store.chunked_dataset import ChunkedDataset
from snapml.data.store.chunked_matrix import ChunkedMatrix
from snapml.data.store.row_groups import RowGroups

__all__ = [
    "ChunkWriter",
    "ChunkedDataset",
    "ChunkedMatrix",
    "CompressedMatrix",
    "Dataset",
    "DenseMatrix",
    "Matrix",
    "RowGroups",
    "make_click_log",
]
