"""The data as the engines see them: matrices over the user's own memory, labels, weights."""

from snapml.data.click_log import make_click_log
from snapml.data.compressed import CompressedMatrix
from snapml.data.dataset import Dataset, DenseMatrix, Matrix

__all__ = ["CompressedMatrix", "Dataset", "DenseMatrix", "Matrix", "make_click_log"]
