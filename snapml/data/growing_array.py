"""Vectors that grow where they are, in memory that another process can take over."""

from __future__ import annotations

import functools
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from snapml import _native

__all__ = ["GrowingArray", "by_blocks", "can_share"]

# Reserved beyond what is needed: few moves. What is not filled takes no memory.
_GROWTH = 1.25
_BLOCK_BYTES = 1 << 23
# Of <linux/prctl.h> and prctl(2).
_PR_GET_DUMPABLE, _DUMPABLE_BY_USER = 3, 1


@functools.cache
def can_share() -> bool:
    """Return whether other processes of this user can open memory of this one: on Linux.

    False in a process that was started with rights of a file (setuid, capabilities), or has put
    itself off: others may not look at it then, while it may itself.
    """
    if not hasattr(os, "memfd_create") or not _is_open_to_others():
        return False
    try:
        descriptor = os.memfd_create("snapml")
        try:
            os.close(os.open(_link(descriptor), os.O_RDWR))
        finally:
            os.close(descriptor)
    except OSError:  # a sandbox, or no /proc
        return False
    return True


class GrowingArray:
    """A vector that is neither copied nor filled with zeros where it grows.

    Parameters
    ----------
    dtype : numpy dtype
        Of its entries.
    is_shared : bool, default=False
        Whether another process is to take it over without a copy; needs `can_share`.
    """

    def __init__(self, dtype: np.dtype, *, is_shared: bool = False) -> None:
        self._dtype, self._size = np.dtype(dtype), 0
        self._map: mmap.mmap | np.ndarray | None = None
        self._descriptor: int | None = None
        if is_shared:
            self._own(os.memfd_create("snapml"))

    @classmethod
    def handed_over(cls, path: Path) -> GrowingArray:
        """Return what another process has handed over; it cannot grow.

        Parameters
        ----------
        path : pathlib.Path
            As `hand_over` has returned it.

        Raises
        ------
        OSError
            If the other process has ended.
        """
        array = cls(np.dtype(path.suffix[1:]))
        descriptor = array._own(os.open(path, os.O_RDWR))
        n_bytes = os.fstat(descriptor).st_size
        if n_bytes and sys.platform == "win32":
            array._map = mmap.mmap(descriptor, n_bytes)
        elif n_bytes:
            # mmap.mmap would hold a descriptor of its own, and processes have few.
            array._map = _native.joined_memory([(descriptor, n_bytes)], 0)
        array._size = n_bytes // array._dtype.itemsize
        return array

    @classmethod
    def joined(cls, parts: Sequence[GrowingArray], sizes: Sequence[int]) -> GrowingArray:
        """Return several vectors as one, over their memory; it cannot grow.

        Parameters
        ----------
        parts : sequence of GrowingArray
            Shared ones of one dtype, or handed over by such. They are of use no more.
        sizes : sequence of int
            How many entries of each come first, whole pages. The others follow, in memory of their
            own.
        """
        array = cls(parts[0]._dtype)
        item = array._dtype.itemsize
        array._size = sum(part._size for part in parts)
        whole = []
        for part, size in zip(parts, sizes, strict=True):
            if part._descriptor is None:
                raise ValueError("parts: expected shared vectors, got a private one")
            whole.append((part._descriptor, size * item))
        array._map = _native.joined_memory(whole, array.n_bytes - sum(size for _, size in whole))
        first, entries = sum(sizes), array.filled()
        for part, size in zip(parts, sizes, strict=True):
            rest = part.filled()[size:]
            entries[first : first + len(rest)] = rest
            first += len(rest)
        return array

    @property
    def is_shared(self) -> bool:
        """Whether other processes can have the memory."""
        return self._descriptor is not None

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that the entries take."""
        return self._size * self._dtype.itemsize

    def append(self, part: np.ndarray, n_threads: int = 1) -> None:
        """Copy entries.

        Parameters
        ----------
        part : ndarray of shape (n,)
            They are converted.
        n_threads : int, default=1
            Threads to use.
        """
        first, self._size = self._size, self._size + len(part)
        if self._map is None or self.n_bytes > len(self._map):
            self._grow(int(_GROWTH * self.n_bytes))
        own = self.filled()[first:]

        def copy(block: slice) -> None:
            own[block] = part[block]

        by_blocks(copy, len(part), _BLOCK_BYTES // self._dtype.itemsize, n_threads)

    def filled(self) -> np.ndarray:
        """Return the entries, over the memory of this vector."""
        if self._map is None:
            return np.empty(0, self._dtype)
        return np.frombuffer(self._map, self._dtype, self._size)

    def hand_over(self, folder: Path, name: str) -> None:
        """Have the entries where `handed_over` finds them, and have none here.

        The process must not end, and this vector must live, until they have been taken.

        Parameters
        ----------
        folder : pathlib.Path
            Where.
        name : str
            Of the file there.

        Raises
        ------
        OSError
            If they have to go to the disk and that is full.
        """
        path = folder / f"{name}.{self._dtype.name}"
        if self._descriptor is None:
            self.filled().tofile(path)
        else:
            os.ftruncate(self._descriptor, self.n_bytes)
            path.symlink_to(_link(self._descriptor))
        self._map, self._size = None, 0

    def release(self) -> None:
        """Free the memory of a vector that was handed over, here and in the other process."""
        self._map, self._size = None, 0
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)

    def _own(self, descriptor: int) -> int:
        weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor
        return descriptor

    def _grow(self, n_bytes: int) -> None:
        n_bytes = max(mmap.PAGESIZE, n_bytes)
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, n_bytes)
            self._map = mmap.mmap(self._descriptor, n_bytes)
            return
        if isinstance(self._map, mmap.mmap):
            try:
                self._map.resize(n_bytes)
                return
            except (SystemError, BufferError):  # not on this system, or somebody looks at it
                pass
        before = self._map
        if sys.platform == "win32":  # where such memory is private, and belongs to no file
            self._map = mmap.mmap(-1, n_bytes)
        else:
            self._map = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if before is not None:
            np.copyto(
                np.frombuffer(self._map, np.uint8, len(before)), np.frombuffer(before, np.uint8)
            )


def by_blocks(work: Callable[[slice], None], size: int, step: int, n_threads: int) -> None:
    """Have threads work on blocks of an array, in NumPy's loops that let others run.

    Parameters
    ----------
    work : callable
        Gets a slice.
    size, step : int
        Of the array and of a block.
    n_threads : int
        Threads to use.
    """
    blocks = [slice(first, first + step) for first in range(0, size, step)]
    if n_threads == 1 or len(blocks) == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, blocks):
            pass


def _is_open_to_others() -> bool:
    """Return whether Linux lets other processes of the user see the files of this one."""
    import ctypes  # no other module of Python asks

    return bool(ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == _DUMPABLE_BY_USER)


def _link(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"
