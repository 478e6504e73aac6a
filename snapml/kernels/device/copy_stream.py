"""Copies to a CUDA device beside its other work, through CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.kernels.device.device import Mark

__all__ = ["CudaCopyStream", "marked"]


class CudaCopyStream:
    """A stream of copies (protocol `CopyStream`) to the device that is the current one.

    Parameters
    ----------
    cupy : module
        ``cupy``.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        # A blocking stream would take turns with the default stream, where kernels are.
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def copy(self, source: np.ndarray, target: Any) -> None:
        """Queue a copy; see `CopyStream.copy`."""
        target.set(source, self._stream)

    def wait(self, mark: Any) -> None:
        """Let copies that are queued from now on come after a mark."""
        self._stream.wait_event(mark)

    def mark(self) -> Mark:
        """Return a mark behind all copies that are queued."""
        return marked(self._cupy, self._stream)

    def synchronize(self) -> None:
        """Let the host wait until all copies are done."""
        self._stream.synchronize()


def marked(cupy: Any, stream: Any) -> Any:
    """Return an event behind the work of a stream.

    Parameters
    ----------
    cupy : module
        ``cupy``.
    stream : cupy.cuda.Stream
        Where the work is queued.

    Returns
    -------
    cupy.cuda.Event
        Whoever waits for it sleeps, and leaves the processor to the threads that read.
    """
    event = cupy.cuda.Event(block=True, disable_timing=True)
    event.record(stream)
    return event
