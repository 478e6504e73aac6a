"""scikit-learn's own scripts on snapml's solvers, without a changed line.

``python -m snapml.accel script.py`` runs a script so; ``%load_ext snapml.accel`` does it for a
notebook, and `install` for a program. From then on the names of scikit-learn that snapml serves
stand for classes that are scikit-learn's in all but `fit`.
"""

from typing import Any

from snapml.accel.installing import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]


def load_ipython_extension(ipython: Any) -> None:
    """Serve ``%load_ext snapml.accel``.

    Parameters
    ----------
    ipython : IPython.InteractiveShell
        The shell that asks; nothing of it is used.
    """
    install()


def unload_ipython_extension(ipython: Any) -> None:
    """Serve ``%unload_ext snapml.accel``.

    Parameters
    ----------
    ipython : IPython.InteractiveShell
        The shell that asks; nothing of it is used.
    """
    uninstall()
