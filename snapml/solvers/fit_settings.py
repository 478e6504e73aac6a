"""How to solve a problem, and where to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Settings", "Start"]


@dataclass(frozen=True)
class Start:
    """Where another fit on the same rows ended.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features + 1), float64, or None
        Coefficients, the last that of the intercept's column.
    duals : ndarray of shape (n_rows,) or None
        Dual states.
    offset : float
        Multiplier of an unpenalised intercept.
    """

    coef: np.ndarray | None = None
    duals: np.ndarray | None = None
    offset: float = 0.0


@dataclass(frozen=True)
class Settings:
    """How to solve, beyond what.

    Attributes
    ----------
    solver : {'auto', 'sdca', 'pqn'}
        'auto' chooses.
    n_threads : int or None
        Threads to use; None means all available.
    deterministic : bool
        Whether equal fits give equal bits.
    seed : int
        Of orders and samples.
    device_ids : tuple of int
        GPUs to train on, one shard of the rows on each; none means the CPU.
    """

    solver: str = "auto"
    n_threads: int | None = None
    deterministic: bool = True
    seed: int = 0
    device_ids: tuple[int, ...] = ()
