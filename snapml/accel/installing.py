"""Puts accelerated classes in the place of scikit-learn's, and back."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["install", "is_installed", "uninstall"]

_logger = logging.getLogger("snapml.accel")
_installed = False


def install() -> None:
    """Let scikit-learn's public names stand for classes that fit by snapml.

    What was imported from scikit-learn before keeps its class: a warning of the logger
    ``snapml.accel`` names such modules. Twice is once.

    Raises
    ------
    ImportError
        If scikit-learn cannot be imported.
    """
    global _installed
    if _installed:
        return
    for home, name, genuine, stand_in in _places():
        for holder in _holders(genuine):
            _logger.warning(
                "%s was imported before snapml.accel and stays scikit-learn's: import it again",
                holder,
            )
        setattr(home, name, stand_in)
    _installed = True


def uninstall() -> None:
    """Give scikit-learn its classes back; estimators that exist stay what they are."""
    global _installed
    if not _installed:
        return
    for home, name, genuine, _ in _places():
        setattr(home, name, genuine)
    _installed = False


def is_installed() -> bool:
    """Tell whether scikit-learn's names stand for snapml's fits.

    Returns
    -------
    bool
        After `install`, until `uninstall`.
    """
    return _installed


def _places() -> Iterator[tuple[ModuleType, str, Any, Any]]:
    """Yield each public module of scikit-learn, the name in it, its class and the stand-in."""
    # Here, not above: the stand-ins need scikit-learn's own classes as bases, before any changes.
    import sklearn.linear_model
    import sklearn.svm
    import sklearn.tree

    from snapml.accel import classes

    for home in (sklearn.linear_model, sklearn.svm, sklearn.tree):
        for name in classes.__all__:
            if name in home.__all__:
                stand_in = getattr(classes, name)
                yield home, name, stand_in.genuine, stand_in


def _holders(genuine: Any) -> list[str]:
    """Return where modules, scikit-learn's and ours aside, hold the class, under any name."""
    return [
        f"{holder}.{name}"
        for holder, module in list(sys.modules.items())
        if holder.partition(".")[0] not in ("sklearn", "snapml") and isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if value is genuine
    ]
