"""Histories of several problems, solved apart, as that of one."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["joint_history"]

Entry = dict[str, float]

_ADDED = ("time_s", "running_gap", "gap", "objective")


def joint_history(histories: Sequence[list[Entry]]) -> list[Entry]:
    """Return the history of the sum of several problems, as if all went on epoch by epoch.

    Parameters
    ----------
    histories : sequence of list of dict
        Of one problem each, as in `FitResult`.

    Returns
    -------
    list of dict
        One entry for each number of epochs after which one of them has one: the sums of where all
        were after so many, each with what was certified of it last. Epochs at which one of them had
        no entry yet are left out; those at which one had no certificate yet have NaN for gap and
        objective.
    """
    epochs = sorted({entry["epoch"] for history in histories for entry in history})
    tracks = [_states(history, epochs) for history in histories if history]
    joint: list[Entry] = []
    for epoch, *states in zip(epochs, *tracks, strict=True):
        known = [state for state in states if state is not None]
        if len(known) == len(states):
            sums = {name: math.fsum(state[name] for state in known) for name in _ADDED}
            joint.append({"epoch": epoch, **sums})
    return joint


def _states(history: list[Entry], epochs: list[float]) -> list[Entry | None]:
    """Return where a problem was after each number of epochs; None before its first entry."""
    states: list[Entry | None] = []
    state: Entry | None = None
    place = 0
    for epoch in epochs:
        while place < len(history) and history[place]["epoch"] <= epoch:
            state = _after(state, history[place])
            place += 1
        states.append(state)
    return states


def _after(state: Entry | None, entry: Entry) -> Entry:
    """Return an entry with the certificate of the state before, where it has none of its own."""
    if state is None or not math.isnan(entry["objective"]):
        return entry
    return {**entry, "gap": state["gap"], "objective": state["objective"]}
