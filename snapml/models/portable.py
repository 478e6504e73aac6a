"""What every fitted model can be written as: a file, and JSON."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from snapml.models.content import known_class, known_names
from snapml.models.model_file import save_model
from snapml.models.model_json import model_as_json

__all__ = ["PortableModel", "skops_types"]

# By name: what searches lies above the estimators.
_SEARCH = "snapml.searches.grid_search.GridSearchCV"


class PortableModel(BaseEstimator):
    """Base of estimators whose models `snapml.load` and `snapml.from_json` make again."""

    def save(self, path: Any) -> None:
        """Write the fitted model to a file that `snapml.load` reads: numbers and text, no code.

        Equal models make equal files. ``history_`` is left out, and with it times; what
        ``warm_start`` goes on from is then ``coef_`` and ``intercept_``.

        Parameters
        ----------
        path : str or path-like
            The file; one that exists is replaced, in one step.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        TypeError
            If a parameter is something that text and arrays do not describe: a function, a
            generator of random numbers, a splitter; the message names it.
        ValueError
            If an attribute was changed into something that `snapml.load` would refuse.
        OSError
            If the file cannot be written.
        """
        save_model(self._local(), path)

    def to_json(self) -> str:
        """Return the fitted model as JSON that other programs can read, and `snapml.from_json`.

        Numbers are written with all their digits, so that the model that comes back predicts the
        same to the bit. ``history_`` is left out. The file of ``save`` is many times smaller and
        faster, and has checksums.

        Returns
        -------
        str
            One JSON object: ``class``, ``parameters`` and ``attributes``. An array is
            ``{"array": {"dtype": ..., "shape": ..., "values": ...}}``, its values in C order.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        TypeError
            If a parameter is something that text and arrays do not describe.
        ValueError
            If an attribute was changed into something that `snapml.from_json` would refuse.
        """
        return model_as_json(self._local())

    def _local(self) -> Any:
        """Return the model of a class that can be made anywhere; jobs on ranks have another."""
        return self


def skops_types() -> list[str]:
    """Return the names of this library's classes, for ``skops.io.load(..., trusted=...)``.

    Returns
    -------
    list of str
        Every public estimator, and the search over them. They hold numbers and text, and run
        nothing when they are made.
        Nodes of trees are scikit-learn's ``sklearn.tree._tree.Tree``, which is not among them: it
        believes the links it is given, so trust it in files of your own only.

    Examples
    --------
    >>> import snapml
    >>> "snapml.estimators.ridge.Ridge" in snapml.skops_types()
    True
    """
    classes: list[Any] = [known_class(name) for name in known_names()]
    return [*(f"{cls.__module__}.{cls.__qualname__}" for cls in classes), _SEARCH]
