"""Dense rows in one or two bytes an entry: how they are rounded, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapml import _native

__all__ = ["NarrowRows", "narrowed"]

_LEVELS = 255


@dataclass(frozen=True)
class NarrowRows:
    """Dense rows as a store with narrow storage keeps them.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features), uint16 or uint8
        The upper half of the bits of a float32 (bfloat16), or the number of steps from the offset.
    scales, offsets : ndarray of shape (n_features,), float32, or None
        Of uint8: an entry means ``offset + scale * number``, computed in double, as float32.
    """

    values: np.ndarray
    scales: np.ndarray | None = None
    offsets: np.ndarray | None = None

    def widen(self, out: np.ndarray) -> None:
        """Write what the entries mean.

        Parameters
        ----------
        out : ndarray of shape (n_rows, n_features), float32
            C-contiguous.
        """
        if self.scales is None:
            _native.widen_bfloat16(self.values, out)
        else:
            assert self.offsets is not None
            _native.widen_uint8(self.values, self.scales, self.offsets, out)


def narrowed(values: np.ndarray, storage: str) -> NarrowRows:
    """Round dense rows.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features), float32
        Finite.
    storage : {'bfloat16', 'uint8'}
        bfloat16 rounds to the nearest of 8 binary digits, ties to even, which changes an entry by
        at most a part of ``2**-8``. uint8 rounds to the nearest of 256 numbers between the smallest
        and the largest entry of a column, which changes an entry by at most half of a step,
        ``(largest - smallest) / 510``, and the last digit of a float32.

    Returns
    -------
    NarrowRows
        Rounded rows.

    Raises
    ------
    ValueError
        If an entry is too large to be rounded.
    """
    if storage == "bfloat16":
        bits = values.view(np.uint32)
        ties_to_even = (bits >> 16) & 1
        rows = NarrowRows(((bits + 0x7FFF + ties_to_even) >> 16).astype(np.uint16))
    else:
        rows = _with_steps(values)
    _check_ends(values, rows)
    return rows


def _with_steps(values: np.ndarray) -> NarrowRows:
    """Return rows as numbers of equal steps between the ends of each column."""
    low = values.min(axis=0).astype(np.float64)
    scales = ((values.max(axis=0) - low) / _LEVELS).astype(np.float32)
    # A column whose range is below the smallest number is a constant.
    step = np.where(scales > 0, scales, 1).astype(np.float64)
    numbers = np.rint((values - low) / step)
    offsets = low.astype(np.float32)
    return NarrowRows(np.clip(numbers, 0, _LEVELS).astype(np.uint8), scales, offsets)


def _check_ends(values: np.ndarray, rows: NarrowRows) -> None:
    """Refuse rows of which the smallest or the largest entry has become infinite."""
    if values.size == 0:
        return
    ends = [np.unravel_index(find(), values.shape)[0] for find in (values.argmin, values.argmax)]
    wide = np.empty((2, values.shape[1]), np.float32)
    NarrowRows(rows.values[ends], rows.scales, rows.offsets).widen(wide)
    if not np.isfinite(wide).all():
        raise ValueError(
            f"values: expected numbers that stay finite when they are rounded, got "
            f"{values.min()} to {values.max()}"
        )
