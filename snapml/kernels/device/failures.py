"""What an error of a device means to whoever called fit."""

from __future__ import annotations

__all__ = ["context_lost", "out_of_memory", "out_of_pinned_memory"]


def out_of_memory(description: str, free_bytes: int, error: BaseException) -> MemoryError:
    """Return the error of an allocation that a device has refused.

    Parameters
    ----------
    description : str
        Which device.
    free_bytes : int
        What it had free then, perhaps in pieces too small.
    error : BaseException
        What the allocation raised; it says how much was asked for.

    Returns
    -------
    MemoryError
        To raise, with what would help.
    """
    return MemoryError(
        f"{description} ran out of memory during the fit: {error}; {free_bytes / 1e9:.3g} GB are "
        "free. The fit has released what it held; use more devices, float32, fewer rows, or "
        "device_ids=None"
    )


def out_of_pinned_memory(n_bytes: int, error: BaseException) -> MemoryError:
    """Return the error of an allocation that the host has refused to keep in place.

    Parameters
    ----------
    n_bytes : int
        What was asked for.
    error : BaseException
        What the allocation raised.

    Returns
    -------
    MemoryError
        To raise, with what would help.
    """
    return MemoryError(
        f"the host could not pin {n_bytes / 1e6:.3g} MB of its memory, from which rows are copied "
        f"to the GPU: {error}. Raise the limit of locked memory (ulimit -l) or of the container, "
        "stop other programs, or use device_ids=None"
    )


def context_lost(description: str, error: BaseException) -> RuntimeError:
    """Return the error of a device that this process cannot use any more.

    Parameters
    ----------
    description : str
        Which device.
    error : BaseException
        What the driver answers to every call from now on.

    Returns
    -------
    RuntimeError
        To raise.
    """
    return RuntimeError(
        f"{description} has failed: {error}. CUDA refuses all further work of this process: "
        "restart it. The cause is an earlier launch, perhaps of another library; with "
        "CUDA_LAUNCH_BLOCKING=1 in the environment the error comes from that launch itself"
    )
