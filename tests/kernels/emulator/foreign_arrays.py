"""Arrays of other libraries in an emulated GPU's memory, which nothing may copy to the host.

Each offers what its original does of DLPack and ``__cuda_array_interface__``, and refuses what
would be a copy: CuPy's and PyTorch's arrays do, JAX's copy in silence.
"""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
from scipy.sparse import csc_matrix

from .strict_arrays import DeviceArray


class _Producer:
    """What exports its memory by DLPack."""

    def __init__(self, data, number=0):
        self._data, self.number = np.asarray(data), number
        self.shape, self.dtype, self.ndim = self._data.shape, self._data.dtype, self._data.ndim

    def __dlpack_device__(self):
        return (2, self.number)

    def __dlpack__(self, *, stream=None, max_version=None, copy=None):
        assert stream is not None, "the consumer must say on which stream it will read"
        return self._data.__dlpack__(max_version=max_version)

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __len__(self):
        return len(self._data)

    @classmethod
    def from_dlpack(cls, array):
        assert array.__dlpack_device__()[0] == 2
        return cls(array._data)


class Tensor(_Producer):
    """Stands for ``torch.Tensor``: the library is found by the class's module."""

    __module__ = "torchlike"

    def __init__(self, data, number=0, requires_grad=False):
        super().__init__(data, number)
        self.requires_grad = requires_grad

    def detach(self):
        return Tensor(self._data, self.number)

    def __dlpack__(self, **kwargs):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return super().__dlpack__(**kwargs)


torchlike = sys.modules["torchlike"] = ModuleType("torchlike")
torchlike.Tensor, torchlike.from_dlpack = Tensor, Tensor.from_dlpack


class Array(_Producer):
    """Stands for ``jax.Array``: read-only, and with a namespace of its own."""

    def __init__(self, data, number=0):
        super().__init__(np.array(data), number)
        self._data.flags.writeable = False

    def __array_namespace__(self):
        return SimpleNamespace(from_dlpack=Array.from_dlpack)


class Bfloat16Array(Array):
    """One whose type CuPy has not."""

    def __init__(self, data):
        super().__init__(data)
        self.dtype = "bfloat16"

    def __dlpack__(self, **_):
        raise NotImplementedError("CuPy does not support bfloat16 yet")


class Interface:
    """Stands for a device array of Numba: ``__cuda_array_interface__`` and nothing else."""

    def __init__(self, data):
        self._data = data
        self.__cuda_array_interface__ = dict(data.__array_interface__, stream=1)


class Frame(pd.DataFrame):
    """Stands for ``cudf.DataFrame``: columns apart, with names."""

    def to_cupy(self):
        return DeviceArray(np.asfortranarray(pd.DataFrame.to_numpy(self)))

    def to_numpy(self, *_, **__):
        raise AssertionError("rows go to the host")


class Series(pd.Series):
    """Stands for ``cudf.Series``."""

    def to_cupy(self):
        return DeviceArray(pd.Series.to_numpy(self))


class _Sparse:
    """What matrices of ``cupyx.scipy.sparse`` share."""

    ndim = 2

    def __init__(self, host):
        self._host = host
        self.shape, self.dtype = host.shape, host.dtype
        names = ("data", "indices", "indptr")
        self.data, self.indices, self.indptr = (DeviceArray(getattr(host, n)) for n in names)

    def get(self):
        raise AssertionError("rows go to the host")


class Csr(_Sparse):
    """Stands for ``cupyx.scipy.sparse.csr_matrix``."""

    format = "csr"

    def tocsr(self):
        return self


class Csc(_Sparse):
    """Stands for ``cupyx.scipy.sparse.csc_matrix``."""

    format = "csc"

    def __init__(self, host):
        super().__init__(csc_matrix(host))

    def tocsr(self):
        raise AssertionError("cuSPARSE takes neither 64-bit indices nor entries of every type")
