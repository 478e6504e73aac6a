"""Which text is compiled with which types: the identity of a kernel, without any compiler."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from snapml import core

__all__ = ["Kernel", "Program", "core_type", "kernel_dir", "loss_macros"]

_CORE_TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "snapml::int32",
    np.dtype(np.int64): "snapml::int64",
}


def kernel_dir() -> Path:
    """Return the folder whose rooms hold the ``.cu`` and ``.cuh`` files."""
    return Path(__file__).parents[1]


def core_type(dtype: np.dtype) -> str:
    """Return the C++ name of a number type.

    Parameters
    ----------
    dtype : numpy.dtype
        float32, float64, int32 or int64.

    Returns
    -------
    str
        As the kernels write it.
    """
    if dtype not in _CORE_TYPES:
        raise TypeError(f"expected one of {[str(t) for t in _CORE_TYPES]}, got {dtype}")
    return _CORE_TYPES[dtype]


def loss_macros(core_name: str) -> dict[str, str]:
    """Return the macros that a loss's name stands for.

    Parameters
    ----------
    core_name : str
        A struct of ``losses.hpp``, with its parameter in brackets where it has one.

    Returns
    -------
    dict of str to str
        ``SNAPML_LOSS``, and ``SNAPML_LOSS_PARAMETER``, which is empty where there is none.
    """
    struct, _, parameter = core_name.rstrip(")").partition("(")
    return {"SNAPML_LOSS": f"snapml::{struct}", "SNAPML_LOSS_PARAMETER": parameter}


@dataclass(frozen=True)
class Program:
    """A ``.cu`` file with the types that it is compiled for.

    Attributes
    ----------
    file : str
        Name of the file, which no two rooms share, without its ending.
    macros : tuple of (str, str)
        Names and values of the ``SNAPML_*`` macros that the file asks for.
    """

    file: str
    macros: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> Path:
        """Where the text is."""
        return _kernel_files()[f"{self.file}.cu"]

    @property
    def options(self) -> tuple[str, ...]:
        """Options of every compiler that reads the text: language, folders of headers, macros."""
        defines = tuple(f"-D{name}={value}" for name, value in self.macros)
        return ("-std=c++17", f"-I{core.include_dir()}", f"-I{kernel_dir()}", *defines)

    @property
    def digest(self) -> str:
        """Of everything that decides what is compiled, included headers too."""
        parts = (_kernel_digest(), core.source_digest(), self.file, *map(repr, self.macros))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Kernel:
    """One ``__global__`` function of a program.

    Attributes
    ----------
    program : Program
        Text and types.
    name : str
        Name of the function, which has C linkage.
    is_cooperative : bool, default=False
        Whether its blocks wait for each other: a launch then fails unless all of them, in one
        dimension, find room on the device at once (`Device.resident_blocks`).
    """

    program: Program
    name: str
    is_cooperative: bool = False


@functools.cache
def _kernel_files() -> dict[str, Path]:
    """All texts by name, in order; looked for once, before a first launch and not at each."""
    return {path.name: path for path in sorted(kernel_dir().glob("*/*.cu*"))}


@functools.cache
def _kernel_digest() -> str:
    digest = hashlib.sha256()
    for name, source in _kernel_files().items():
        digest.update(name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
