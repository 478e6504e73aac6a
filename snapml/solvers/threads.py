"""How many threads a fit may use."""

from __future__ import annotations

import functools
import itertools
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from numbers import Integral
from pathlib import Path
from typing import Any

import threadpoolctl

from snapml import _native

__all__ = [
    "FEW_OPERATIONS",
    "available_threads",
    "blas_threads_for",
    "limit_blas_threads",
    "multiply_blas_threads",
    "resolve_n_threads",
]

# A thread that has less to do than this costs more than it brings: starting and joining a team
# takes tens of microseconds, and every further replica costs epochs.
_ENTRIES_PER_THREAD = 200_000
FEW_OPERATIONS = 2e9
"""Of BLAS, on one thread some tens of milliseconds."""


class _NativeThreadController(threadpoolctl.LibController):
    """Lets ``threadpoolctl.threadpool_limits`` govern the CPU engine."""

    user_api = "snapml"
    internal_api = "snapml"
    filename_prefixes = ("_native",)
    check_symbols = ("snapml_get_num_threads", "snapml_set_num_threads")

    def get_num_threads(self) -> int:
        return int(self.dynlib.snapml_get_num_threads()) or available_threads()

    def set_num_threads(self, num_threads: int) -> None:
        # The number read where there is no limit lifts it: threadpoolctl restores what it read.
        self.dynlib.snapml_set_num_threads(0 if num_threads == available_threads() else num_threads)

    def get_version(self) -> str | None:
        return None

    def set_additional_attributes(self) -> None:
        """Nothing beyond the three above."""


threadpoolctl.register(_NativeThreadController)


def available_threads() -> int:
    """Return the number of threads this process may keep busy.

    Returns
    -------
    int
        The least of the CPU affinity, the control group's quota, and the first of
        ``OMP_NUM_THREADS`` (which joblib sets in its workers) and the affinity.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        cores = os.cpu_count() or 1
    limits = [cores, _cgroup_cores()]
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested.isdigit() and int(requested) > 0:
        limits.append(int(requested))
    return max(1, min(limits))


def resolve_n_threads(n_threads: int | None, n_stored: int) -> int:
    """Return the number of threads one fit uses.

    Parameters
    ----------
    n_threads : int or None
        The user's wish; None means all that are available, a negative number counts from that
        end as in joblib (-1 is all, -2 all but one).
    n_stored : int
        Entries that one sweep over the data reads.

    Returns
    -------
    int
        At least 1. Small data get fewer threads than asked for.

    Raises
    ------
    ValueError
        If `n_threads` is 0 or not an integer.
    """
    wish: Any = -1 if n_threads is None else n_threads
    if isinstance(wish, bool) or not isinstance(wish, Integral) or wish == 0:
        raise ValueError(f"n_threads: expected None or an integer other than 0, got {wish!r}")
    most = n_stored // _ENTRIES_PER_THREAD
    if most <= 1:  # to ask the system takes longer than one row's prediction
        return 1
    asked = int(wish)
    wanted = asked if asked > 0 else max(1, available_threads() + 1 + asked)
    limit = _native.get_thread_limit()
    if limit > 0:
        wanted = min(wanted, limit)
    return min(wanted, most)


def limit_blas_threads(n_threads: int) -> AbstractContextManager[Any]:
    """Keep BLAS and LAPACK to a number of threads.

    Parameters
    ----------
    n_threads : int
        At least 1.

    Returns
    -------
    context manager
        The limit holds inside; of several inside each other, the innermost.
    """
    if _blas_limits.is_innermost(n_threads):  # which takes longer again than a small product
        return nullcontext()
    return _blas_limits.hold(n_threads)


def blas_threads_for(
    n_operations: float, n_threads: int | None = None
) -> AbstractContextManager[Any]:
    """Keep BLAS and LAPACK to one thread for what takes one no time.

    OpenBLAS's threads wait for each other at every panel. Where a core has other work, of Java or
    of another task, that takes hundreds of times as long as a small matrix on one thread.

    Parameters
    ----------
    n_operations : float
        Multiplications and additions: 2 m n k of a product, n^3 / 3 of a Cholesky factor.
    n_threads : int, default=None
        Threads for more operations; None leaves the limit as it is.

    Returns
    -------
    context manager
        The limit, if there is one, holds inside.
    """
    if n_operations <= FEW_OPERATIONS:
        return limit_blas_threads(1)
    return nullcontext() if n_threads is None else limit_blas_threads(n_threads)


@contextmanager
def multiply_blas_threads(factor: int) -> Iterator[None]:
    """Give BLAS and LAPACK the threads of several processes, while the others wait.

    Parameters
    ----------
    factor : int
        Number of processes, this one among them; no other fit of this one runs.
    """
    libraries = itertools.chain(*_blas_libraries()) if factor > 1 else ()
    found = [(library, library.num_threads) for library in libraries]
    try:
        for library, n_threads in found:
            _set_num_threads(library, factor * n_threads)
        yield
    finally:
        for library, n_threads in found:
            _set_num_threads(library, n_threads)


class _BlasLimits:
    """The limits of all fits that run now: BLAS has one number of threads for the whole process.

    The least of all threads' holds, and never more than the user's own. Each restoring what it
    found would leave the limit of another one behind. On OpenMP each thread has a number of its
    own, which each fit restores.
    """

    def __init__(self) -> None:
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, list[int]] = {}  # of each thread, the innermost last
        self._least: int | None = None  # of those held
        self._found: list[tuple[Any, int]] = []

    def forget(self) -> None:
        """Start afresh in a forked child, where the fits of other threads do not run.

        Such a fit may have been inside a product of OpenBLAS on several threads, whose lock stays
        taken in the child: there, products stay on one thread, which takes no lock.
        """
        has_fits = bool(self._held)
        self._start()
        if has_fits:
            for library in itertools.chain(*_blas_libraries()):
                _set_num_threads(library, 1)

    def is_innermost(self, n_threads: int) -> bool:
        """Return whether this thread holds this number, so that the same again changes nothing."""
        held = self._held.get(threading.get_ident())
        return held is not None and held[-1] == n_threads

    @contextmanager
    def hold(self, n_threads: int) -> Iterator[None]:
        """Keep to a number of threads inside."""
        shared, of_threads = _blas_libraries()
        own = [(each, each.num_threads) for each in of_threads]
        with self._lock:
            if not self._held and not self._found:
                self._found = [(library, library.num_threads) for library in shared]
            self._held.setdefault(threading.get_ident(), []).append(n_threads)
            self._apply()
        try:
            for library, found in own:
                _set_num_threads(library, min(found, n_threads))
            yield
        finally:
            for library, found in own:
                _set_num_threads(library, found)
            with self._lock:
                held = self._held[threading.get_ident()]
                held.pop()
                if not held:
                    del self._held[threading.get_ident()]
                self._apply()

    def _apply(self) -> None:
        least = min((held[-1] for held in self._held.values()), default=None)
        if least != self._least:  # to set what is set takes as long as a small product
            for library, found in self._found:
                _set_num_threads(library, found if least is None else min(found, least))
        self._least = least
        if not self._held:
            self._found = []


_blas_limits = _BlasLimits()


def _is_of_threads(library: Any) -> bool:
    """Return whether each thread has a number of its own."""
    is_openmp = getattr(library, "threading_layer", None) == "openmp"
    # Since threadpoolctl 3.8, of OpenBLAS on OpenMP and of MKL.
    symbols = getattr(library, "check_symbols", ())
    is_openblas = hasattr(library, "_real_set_num_threads")
    return (is_openmp and is_openblas) or "MKL_Set_Num_Threads_Local" in symbols


def _set_num_threads(library: Any, n_threads: int) -> None:
    """Set the number from any thread.

    From version 3.8 on, ``library.set_num_threads`` does nothing to OpenBLAS, silently, once
    another thread that still runs has called it.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n_threads)


@functools.cache
def _blas_libraries() -> tuple[list[Any], list[Any]]:
    """Return the libraries of BLAS, with one number of threads for all and with one for each.

    Looking for them takes milliseconds.
    """
    found = list(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)
    of_threads = [each for each in found if _is_of_threads(each)]
    return [each for each in found if each not in of_threads], of_threads


def _cgroup_cores() -> int:
    """Return the CPU quota of the control group in whole cores, rounded up."""
    quota = _cgroup_quota(int(time.monotonic()))
    return (os.cpu_count() or 1) if quota is None else max(1, math.ceil(quota))


@functools.lru_cache(maxsize=1)
def _cgroup_quota(second: int) -> float | None:
    """Return the quota in cores, asked for once in any second: files take 0.2 ms to read."""
    del second
    for read in (_cgroup_v2_quota, _cgroup_v1_quota):
        quota = read()
        if quota is not None:
            return quota
    return None


def _cgroup_v2_quota() -> float | None:
    text = _read(Path("/sys/fs/cgroup/cpu.max"))
    if text is None or text.startswith("max"):
        return None
    quota, period = text.split()
    return int(quota) / int(period)


def _cgroup_v1_quota() -> float | None:
    quota = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
    period = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
    if quota is None or period is None or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
