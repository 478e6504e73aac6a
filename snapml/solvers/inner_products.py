"""Inner products of coefficients and gradients, wherever these live."""

from __future__ import annotations

from typing import Any

from snapml.solvers.engine import PrimalEngine

__all__ = ["inner", "inner_products"]


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
