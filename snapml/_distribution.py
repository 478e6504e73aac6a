"""Which distribution this package came from."""

from __future__ import annotations

from importlib import metadata

__all__ = ["installed_version"]


def installed_version() -> str:
    """Return the version of the installed distribution.

    Returns
    -------
    str
        Version of ``snapml-open``.

    Raises
    ------
    ImportError
        If IBM's ``snapml`` is installed as well: both fill the same folder, and what would run is
        a mixture.
    """
    try:
        other = metadata.version("snapml")
    except metadata.PackageNotFoundError:
        return metadata.version("snapml-open")
    raise ImportError(
        f"the distributions snapml-open and snapml {other} (IBM's) provide the same package and "
        "cannot share an environment: pip uninstall both, then install the one you want"
    )
