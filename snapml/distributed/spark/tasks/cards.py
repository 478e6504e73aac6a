"""What tasks show each other before they train, and what is wrong with it."""

from __future__ import annotations

import json
import os
import platform
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import snapml
from snapml.data.store.temporary_store import TemporaryStore
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FitRequest

__all__ = [
    "Card",
    "Contact",
    "errors_of",
    "n_features_of",
    "own_versions",
    "team_name",
    "version_errors",
]

Address = tuple[str, int]


@dataclass(frozen=True)
class Contact:
    """A task as the others see it before it has read its rows.

    Attributes
    ----------
    address, shard_address, team_address : (str, int)
        Where it listens for all tasks, for those who train, and for those of its executor.
    versions : dict of str to str
        Of packages.
    """

    address: Address
    shard_address: Address
    team_address: Address
    versions: dict[str, str]

    @classmethod
    def of_text(cls, text: str) -> Contact:
        """Return the contact that another task has written as `text`.

        What tasks of another version do not write is empty: `version_errors` names the versions.
        """
        content = json.loads(text)
        names = ("address", "shard_address", "team_address")
        own, shard, team = (tuple(content.get(name, ())) for name in names)
        return cls(own, shard, team, content["versions"])

    def text(self) -> str:
        """Return the contact as JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Card:
    """A task as the others see it once it has read its rows.

    Attributes
    ----------
    error : str or None
        What its rows or parameters have caused.
    n_features : int or None
        Of its rows; None without any.
    team : str or None
        Name that all tasks have with which it may share rows; None for a task that must be alone.
    """

    error: str | None
    n_features: int | None
    team: str | None


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
        Tasks on this machine, which all write their rows to one disk where they share no memory.

    Returns
    -------
    str or None
        The same in all tasks of an executor, whose processes have one parent. None where rows are
        on the disk already, or find no room there, and where each process has a share of the
        memory that one with the rows of all would exceed.
    """
    # Spark's own limit, spark.executor.pyspark.memory, is one of addresses.
    has_share = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if rows is None or has_share:
        return None
    n_bytes = rows.n_bytes
    if n_bytes is None:
        return None
    try:
        TemporaryStore(0 if rows.is_shared else n_bytes * n_beside).remove()
    except OSError:  # no room, no folder, or one without locks
        return None
    found = [platform.node(), str(os.getppid())]
    with suppress(OSError):  # not on every platform; containers count processes on their own
        found.append(str(Path("/proc/self/ns/pid").readlink()))
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    return " ".join(found)


def version_errors(contacts: Sequence[Contact]) -> list[str]:
    """Return why tasks do not understand each other, the same in all of them.

    Parameters
    ----------
    contacts : sequence of Contact
        Of all tasks.

    Returns
    -------
    list of str
        Empty if all is well.
    """
    errors = []
    for name in contacts[0].versions:
        found = sorted({contact.versions[name] for contact in contacts})
        if len(found) > 1:
            errors.append(f"expected one version of {name} on all executors, got {found}")
    return errors


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
