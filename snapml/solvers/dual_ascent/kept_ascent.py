"""What coordinate ascent keeps for a restart: the rows' dual states, the multiplier, the epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.solvers.engine import Engine
from snapml.solvers.observer import RowStates
from snapml.solvers.stopping import Progress

__all__ = ["begin", "state_of"]


def begin(engine: Engine, progress: Progress) -> float | None:
    """Give an engine the states of the fit that goes on, where there is one.

    Parameters
    ----------
    engine : Engine
        Before it agrees with the other shards.
    progress : Progress
        Gets the epochs so far.

    Returns
    -------
    float or None
        The multiplier, which the engine takes once it has agreed with the others; None where the
        fit begins.
    """
    kept = progress.stage.state
    if kept is None:
        return None
    engine.duals = np.asarray(kept["duals"].values, engine.shared.dtype)
    engine.has_warm_start = True
    progress.resume(kept["progress"], len(kept["progress"]["history"]))
    return float(kept["offset"])


def state_of(engine: Engine, progress: Progress) -> dict[str, Any]:
    """Return what `begin` goes on from.

    Parameters
    ----------
    engine : Engine
        Between two epochs.
    progress : Progress
        Of its fit.

    Returns
    -------
    dict
        A state as `Stage` wants it. The shared vector follows from the dual states.
    """
    return {
        "duals": RowStates(engine.duals),
        "offset": float(engine.offset),
        "progress": progress.state(),
    }
