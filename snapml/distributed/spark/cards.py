"""What tasks show each other before they are connected, and what is wrong with it."""

from __future__ import annotations

import json
import os
import platform
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import snapml
from snapml.data.temporary_store import TemporaryStore
from snapml.distributed.spark.local_rows import LocalRows
from snapml.distributed.spark.request import FitRequest

__all__ = ["Card", "errors_of", "n_features_of", "own_versions", "team_name"]

Address = tuple[str, int]


@dataclass(frozen=True)
class Card:
    """A task as the others see it.

    Attributes
    ----------
    shard_address, team_address : (str, int)
        Where it listens for those who train, and for those of its executor.
    error : str or None
        What its rows or parameters have caused.
    versions : dict of str to str
        Of packages.
    n_features : int or None
        Of its rows; None without any.
    team : str or None
        Name that all tasks have with which it may share rows; None for a task that must be alone.
    """

    shard_address: Address
    team_address: Address
    error: str | None
    versions: dict[str, str]
    n_features: int | None
    team: str | None

    @classmethod
    def of_text(cls, text: str) -> Card:
        """Return the card that another task has written as `text`.

        What tasks of another version do not write is None: `errors_of` names the versions.
        """
        content = json.loads(text)
        found: dict[str, Any] = {field.name: content.get(field.name) for field in fields(cls)}
        for name in ("shard_address", "team_address"):
            found[name] = tuple(found[name] or ())
        return cls(**found)

    def text(self) -> str:
        """Return the card as JSON."""
        return json.dumps(asdict(self))


def own_versions() -> dict[str, str]:
    """Return the versions of packages that must be the same in all tasks."""
    return {
        "snapml": snapml.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }


def team_name(rows: LocalRows | None, n_beside: int) -> str | None:
    """Return the name of this task's executor, where its rows can go to another task of it.

    Parameters
    ----------
    rows : LocalRows or None
        None if they could not be read.
    n_beside : int
        Tasks on this machine, which all write their rows to one disk.

    Returns
    -------
    str or None
        The same in all tasks of an executor, whose processes have one parent. None where rows are
        on the disk already, or find no room there, and where each process has a share of the
        memory that one with the rows of all would exceed.
    """
    n_bytes = None if rows is None else rows.n_bytes
    # Spark's own limit, spark.executor.pyspark.memory, is one of addresses.
    has_share = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if n_bytes is None or has_share:
        return None
    try:
        TemporaryStore(n_bytes * n_beside).remove()
    except OSError:  # no room, no folder, or one without locks
        return None
    found = [platform.node(), str(os.getppid())]
    with suppress(OSError):  # not on every platform; containers count processes on their own
        found.append(str(Path("/proc/self/ns/pid").readlink()))
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    return " ".join(found)


def errors_of(cards: Sequence[Card], request: FitRequest) -> list[str]:
    """Return why there can be no fit, the same in all tasks.

    Parameters
    ----------
    cards : sequence of Card
        Of all tasks.
    request : FitRequest
        Names the DataFrame's columns.

    Returns
    -------
    list of str
        Empty if all is well.
    """
    errors = [card.error for card in cards if card.error is not None]
    if errors:
        return errors
    for name in cards[0].versions:
        found = sorted({card.versions[name] for card in cards})
        if len(found) > 1:
            errors.append(f"expected one version of {name} on all executors, got {found}")
    sizes = sorted({card.n_features for card in cards if card.n_features is not None})
    if not sizes:
        errors.append("expected at least one row, got an empty DataFrame")
    elif len(sizes) > 1:
        name = f"featuresCol={request.features_col!r}"
        errors.append(f"{name}: expected vectors of one size, got sizes {sizes}")
    return errors


def n_features_of(cards: Sequence[Card]) -> int:
    """Return the number of columns, which tasks without rows take from the others."""
    return next(card.n_features for card in cards if card.n_features is not None)
