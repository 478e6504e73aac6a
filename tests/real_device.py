"""Whether this machine has a CUDA device: test bodies then run on it too, under the mark `gpu`."""

import functools

import pytest

from snapml.kernels import CudaDevice

__all__ = ["real_device", "why_no_device", "with_real_device"]


@functools.cache
def real_device():
    """Return the first CUDA device; the same one each time, so that kernels are loaded once."""
    return CudaDevice(0)


@functools.cache
def why_no_device():
    """Return what keeps this process from having a CUDA device, or None."""
    try:
        real_device()
    except RuntimeError as error:
        return str(error)
    return None


def with_real_device(params):
    """Return parameters of tests, and "gpu" among them where there is a CUDA device.

    Elsewhere the parameter is absent: thousands of skipped tests would say what
    kernels/test_cuda_device.py says once.
    """
    if why_no_device() is not None:
        return list(params)
    return [*params, pytest.param("gpu", marks=pytest.mark.gpu)]
