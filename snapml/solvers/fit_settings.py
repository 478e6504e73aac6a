"""How to solve a problem, and where to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.observer import SILENT, Observer
from snapml.solvers.result import StartModel

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

    def model(self, bias_column: float) -> StartModel | None:
        """Return the only output's model, None where there are no coefficients.

        Parameters
        ----------
        bias_column : float
            Value of the intercept's column.

        Returns
        -------
        StartModel or None
            Its intercept multiplied out.
        """
        if self.coef is None:
            return None
        return StartModel(self.coef[0, :-1], bias_column * self.coef[0, -1])


@dataclass(frozen=True)
class Settings:
    """How to solve, beyond what.

    Attributes
    ----------
    solver : {'auto', 'ipm', 'sdca', 'pqn'}
        'auto' chooses.
    n_threads : int or None
        Threads to use; None means all available.
    deterministic : bool
        Whether equal fits give equal bits.
    seed : int
        Of orders and samples.
    device_ids : tuple of int
        GPUs to train on, one shard of the rows on each; none means the CPU.
    memory_limit : int or None
        Bytes that rows may take on each GPU; None is what is available.
    """

    solver: str = "auto"
    n_threads: int | None = None
    deterministic: bool = True
    seed: int = 0
    device_ids: tuple[int, ...] = ()
    memory_limit: int | None = None

    def is_for_one_call(self, communicator: Communicator, observer: Observer) -> bool:
        """Return whether one process chooses its solver freely, and nobody keeps states on the way.

        Parameters
        ----------
        communicator : Communicator
            The other shards.
        observer : Observer
            Who looks on.

        Returns
        -------
        bool
            Whether a call of the extension may be the whole fit, where the models that it passes
            are shown afterwards.
        """
        is_alone = communicator.size == 1 and not self.device_ids
        return is_alone and self.solver == "auto" and observer is SILENT
