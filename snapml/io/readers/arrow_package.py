"""The package pyarrow, where a format needs it."""

from __future__ import annotations

from typing import Any

__all__ = ["pyarrow_for"]


def pyarrow_for(what: str) -> Any:
    """Import pyarrow, or say who needs it.

    Parameters
    ----------
    what : str
        For the message.

    Returns
    -------
    module
        pyarrow.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"{what}: this format needs the package pyarrow: pip install 'snapml-open[arrow]'"
        ) from error
    return pyarrow
