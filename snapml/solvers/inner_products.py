"""Inner products of coefficients and gradients, wherever these live."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapml.solvers.engine import PrimalEngine

__all__ = ["all_finite", "all_zero", "inner", "inner_products"]


def inner_products(engine: PrimalEngine, *pairs: tuple[Any, Any]) -> list[float]:
    """Return the inner products of pairs of arrays, by one transfer to the host.

    Parameters
    ----------
    engine : PrimalEngine
        Whose `vectors` the arrays are.
    *pairs : tuple of two arrays, float64
        The two have as many elements as each other.

    Returns
    -------
    list of float
        One for each pair. Reading them waits for the device.
    """
    xp = engine.vectors
    products: list[float] = engine.to_host(xp.stack([xp.vdot(a, b) for a, b in pairs])).tolist()
    return products


def inner(engine: PrimalEngine, a: Any, b: Any) -> float:
    """Return the inner product of two arrays of the engine's `vectors` on the host."""
    return float(engine.vectors.vdot(a, b))


def all_finite(engine: PrimalEngine, array: Any) -> bool:
    """Return whether an array of the engine's `vectors` has no NaN and no infinity.

    On a device by a product with zeros, as BLAS has one: CuPy's own reductions are compiled, for
    seconds, when they are first asked for.
    """
    if engine.vectors is np:
        return bool(np.isfinite(array).all())
    return math.isfinite(inner(engine, array, engine.vectors.zeros_like(array)))


def all_zero(engine: PrimalEngine, array: Any) -> bool:
    """Return whether an array of the engine's `vectors` is zero, or so small that its square is."""
    return not (array.any() if engine.vectors is np else inner(engine, array, array) != 0.0)
