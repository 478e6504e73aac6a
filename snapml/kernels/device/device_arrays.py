"""Arrays of other libraries in a GPU's memory: recognised, taken over and given back.

Recognised by what they offer (DLPack, ``__cuda_array_interface__``), so that no library is imported
for it; they are taken over without a copy, and on the stream that the protocols agree on.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.sparse import issparse

from snapml.kernels.device.cuda_device import pointer_device
from snapml.kernels.device.device import Device

__all__ = [
    "BFLOAT16_HINT",
    "adopted",
    "cuda_device_of",
    "given_back",
    "host_copy_of",
    "is_device_frame",
]

BFLOAT16_HINT = (
    "expected float32, float64 or integers; convert bfloat16 where it is, X.float() in PyTorch or "
    "X.astype('float32') in JAX"
)
"""What helps where an array has numbers that the kernels do not read."""

# DLPack's types of devices: a GPU's memory, and memory that moves between it and the host.
_CUDA, _CUDA_MANAGED = 2, 13


def cuda_device_of(array: Any) -> int | None:
    """Return the number of the GPU that an array is on.

    Parameters
    ----------
    array : object
        An array, sparse matrix or data frame of any library; anything else is of the host.

    Returns
    -------
    int or None
        As CUDA counts the visible devices; None for what is on the host.

    Raises
    ------
    ValueError
        If the array lies on several devices.
    """
    if isinstance(array, np.ndarray) or issparse(array):
        return None
    if is_device_frame(array):
        return pointer_device(0)  # cuDF works on the current device
    if hasattr(type(array), "tocsr"):  # sparse, of CuPy's kind
        return cuda_device_of(array.data)
    if hasattr(type(array), "__dlpack_device__"):
        try:
            kind, number = array.__dlpack_device__()
        except BufferError as error:
            if _is_on_gpus(array):
                raise ValueError(f"expected an array on one device: {error}") from error
            return None
        return int(number) if int(kind) in (_CUDA, _CUDA_MANAGED) else None
    interface = getattr(array, "__cuda_array_interface__", None)
    return None if interface is None else pointer_device(interface["data"][0])


def is_device_frame(data: Any) -> bool:
    """Return whether this is a frame or a column of cuDF."""
    return hasattr(type(data), "to_cupy")


def adopted(device: Device, name: str, array: Any) -> Any:
    """Return an array of another library as one of the device, over the same memory.

    Parameters
    ----------
    device : Device
        Where the array is.
    name : str
        What to call it in messages.
    array : object
        What `cuda_device_of` found there.

    Returns
    -------
    array of the device
        Not to be written to. A copy for a data frame, whose columns lie apart.

    Raises
    ------
    ValueError
        If its library does not export it; the message says what would help.
    """
    try:
        with device.use():
            return device.adopt(array.to_cupy() if is_device_frame(array) else array)
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: {_export_hint(array)}; got: {error}") from error


def given_back(device: Device, array: Any, like: Any) -> Any:
    """Return an array of the device as one of another array's library, over the same memory.

    Parameters
    ----------
    device : Device
        Where the array is.
    array : array of the device
        Any shape.
    like : object
        An array of the library.

    Returns
    -------
    object
        An array of `like`'s library where that takes DLPack, else one of the device.
    """
    array = device.xp.ascontiguousarray(array)
    if isinstance(like, device.xp.ndarray):
        return array
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(array)
    for base in type(like).__mro__:  # PyTorch's tensors have no namespace yet
        library: Any = sys.modules.get(base.__module__.partition(".")[0])
        if hasattr(library, "from_dlpack"):
            return library.from_dlpack(array)
    return array


def host_copy_of(array: Any) -> str:
    """Return what a user writes to copy an array to the host, for messages.

    Parameters
    ----------
    array : object
        Called X there.

    Returns
    -------
    str
        An expression in X.
    """
    if is_device_frame(array):
        return "X.to_pandas()"
    if hasattr(type(array), "tocsr"):
        return "X.get()"
    if hasattr(array, "detach"):
        return "X.detach().cpu()"
    return "numpy.asarray(X)" if hasattr(array, "__array_namespace__") else "cupy.asnumpy(X)"


def _is_on_gpus(array: Any) -> bool:
    """Return whether an array that lies on several devices, as JAX's may, lies on GPUs."""
    devices = array.devices() if hasattr(array, "devices") else ()
    return any(device.platform == "gpu" for device in devices)


def _export_hint(array: Any) -> str:
    if getattr(array, "requires_grad", False):
        return "expected a tensor without gradients, X.detach()"
    if "bfloat16" in str(getattr(array, "dtype", "")):
        return BFLOAT16_HINT
    return "expected a dense array of numbers, or a CSR or CSC matrix of cupyx.scipy.sparse"
