"""Labels that are text, or true and false, as the numbers that a store keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LabelNumbers"]


class LabelNumbers:
    """Numbers labels in the order in which they come; numbers stay what they are.

    Parameters
    ----------
    names : tuple of str or bool, or None, default=None
        Those of a store that is appended to.
    is_begun : bool, default=False
        Whether there are labels already, of the kind that `names` says.
    """

    def __init__(
        self, names: tuple[str | bool, ...] | None = None, *, is_begun: bool = False
    ) -> None:
        self._numbers = None if names is None else {name: float(k) for k, name in enumerate(names)}
        self._is_begun = is_begun
        self._kind: type[str] | type[bool] | None = None if not names else type(names[0])

    @property
    def names(self) -> tuple[str | bool, ...] | None:
        """What 0, 1, ... stand for; None where labels are numbers."""
        return None if self._numbers is None else tuple(self._numbers)

    def numbers(self, labels: Any) -> np.ndarray:
        """Return a batch's labels as numbers.

        Parameters
        ----------
        labels : array-like of shape (n_rows,)
            Numbers, text, or booleans.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            Their numbers.

        Raises
        ------
        ValueError
            If they are of another kind than those before, of several kinds, or missing.
        """
        given = np.asarray(labels)
        kind = _kind_of(given)
        if not given.size:
            return np.zeros(given.shape)
        if self._is_begun and kind is not self._kind:
            raise ValueError(
                f"labels: expected {_told(self._kind)} as in the other batches, got {_told(kind)}"
            )
        if not self._is_begun:
            self._is_begun, self._kind = True, kind
            self._numbers = None if kind is None else {}
        if self._numbers is None:
            return np.asarray(given, np.float64)
        table = self._numbers
        values = [kind(value) for value in given.ravel().tolist()] if kind else []
        numbers = [table.setdefault(value, float(len(table))) for value in values]
        return np.array(numbers).reshape(given.shape)


def _kind_of(labels: np.ndarray) -> type[str] | type[bool] | None:
    """Return ``str`` or ``bool``, or None for numbers."""
    if labels.dtype.kind in "UT":
        return str
    if labels.dtype.kind == "b":
        return bool
    if labels.dtype.kind != "O":
        return None
    kinds = {type(value) for value in labels.ravel().tolist()}
    if kinds <= {bool, np.bool_}:
        return bool
    is_text = [issubclass(kind, str) for kind in kinds]
    if not any(is_text):
        return None
    if all(is_text):
        return str
    others = sorted(kind.__name__ for kind in kinds if not issubclass(kind, str))
    raise ValueError(f"labels: expected text, got text beside {', '.join(others)}")


def _told(kind: type[str] | type[bool] | None) -> str:
    return {None: "numbers", str: "text", bool: "true or false"}[kind]
