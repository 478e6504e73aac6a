"""Checkpoints of a fit over ranks: when they are written, and how all go on from one."""

from __future__ import annotations

import logging
import numbers
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from snapml.data import Dataset
from snapml.data.atomic_file import atomic_file
from snapml.distributed.checkpoints.checkpoint_file import CheckpointFile, write_checkpoint
from snapml.distributed.checkpoints.fingerprint import Fingerprints, difference, is_same_order
from snapml.distributed.checkpoints.kept_stages import (
    KeptStages,
    with_row_states,
    without_row_states,
)
from snapml.distributed.phase_clock import PhaseClock
from snapml.distributed.signals import FitInterrupted, SignalWatch
from snapml.solvers.communicator import Communicator
from snapml.solvers.observer import Observer, RowStates, Stage

__all__ = ["Checkpoints", "passes_or_seconds"]

_logger = logging.getLogger("snapml")
_Decision = TypeVar("_Decision")
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
# Dual states go to rank 0, and back from it, so many at a time.
_BLOCK_ROWS = 2**20
_REMEDY = "; remove it to begin anew"
# What reading a checkpoint raises, the special kinds first.
_HEARD: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (FileNotFoundError, PermissionError, OSError, ValueError)
}


def passes_or_seconds(every: Any) -> tuple[float, float]:
    """Return after how many passes, or else seconds, a checkpoint is due.

    Parameters
    ----------
    every : int or str
        Passes, or a time such as "90s", "10min" or "2h".

    Returns
    -------
    passes, seconds : float
        One of them is infinite.

    Raises
    ------
    ValueError
        If it is neither.
    """
    is_number = isinstance(every, numbers.Integral) and not isinstance(every, bool)
    if is_number and int(every) > 0:
        return float(int(every)), np.inf
    found = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", every)
        if isinstance(every, str)
        else None
    )
    if found is None:
        raise ValueError(
            "checkpoint_every: expected a positive number of passes, or a time such as '90s', "
            f"'10min' or '2h', got {every!r}"
        )
    return np.inf, float(found[1]) * _UNITS[found[2]]


class Checkpoints(Observer):
    """Keeps the state of one fit in a file of rank 0, and restores it on all ranks.

    Parameters
    ----------
    path : str or path-like
        The file; only rank 0 needs to see it.
    every : int or str
        As `passes_or_seconds` takes it.
    terms : dict
        Text that a checkpoint must agree with.
    communicator : Communicator
        All ranks.
    watch : SignalWatch or None, default=None
        Signals of this rank; None heeds none.
    clock : PhaseClock or None, default=None
        Of the fit.
    begins_anew : bool, default=False
        Whether a file that this fit cannot go on from is left aside, with a line in the log, and
        overwritten.

    Raises
    ------
    ValueError
        On all ranks, if the file is damaged or of another fit, unless the fit may begin anew.
    OSError
        On all ranks, if rank 0 cannot read the file, or write into its folder.
    """

    def __init__(
        self,
        path: Any,
        every: Any,
        terms: dict[str, str],
        communicator: Communicator,
        watch: SignalWatch | None = None,
        clock: PhaseClock | None = None,
        *,
        begins_anew: bool = False,
    ) -> None:
        self.path = Path(path)
        self._passes, self._seconds = passes_or_seconds(every)
        self._terms, self._communicator, self._begins_anew = terms, communicator, begins_anew
        self._watch, self._clock = watch or SignalWatch(), clock or PhaseClock()
        self.stages = KeptStages(self._offered, self._log)
        self.n_written = self.n_failed = self.n_passes = 0
        self.resumed_from: int | None = None
        self._file: CheckpointFile | None = None
        self._kept: dict[str, Any] | None = None
        self._fingerprints: list[dict[str, Any]] = []
        self._makes = Fingerprints()
        self._decisions: list[Any] = []
        self._row_counts: list[int] = []
        self._last_pass, self._last_time = 0, time.monotonic()
        self._load()

    def recognise(self, dataset: Dataset, communicator: Communicator) -> None:
        """See the data of the next problem; refuse those that a checkpoint is not of."""
        found = self._makes.of(dataset, communicator)
        number = len(self._fingerprints)
        self._fingerprints.append(found)
        if not number:
            self._row_counts = communicator.exchange(dataset.matrix.shape[0])
        kept = self._kept
        if kept is None or number >= len(kept["fingerprints"]):
            return
        other = difference(found, kept["fingerprints"][number])
        if other is not None:
            self._refuse(self._foreign(f"other data: expected {other}"), number)
        elif not number:
            self._resume(is_same_order(found, kept["fingerprints"][0]))

    def decide(self, choose: Callable[[], _Decision]) -> _Decision:
        """Return a choice: the kept one where there is one, so that all goes the same way."""
        number = len(self._decisions)
        kept = [] if self._kept is None else self._kept["decisions"]
        self._decisions.append(kept[number] if number < len(kept) else choose())
        decision: _Decision = self._decisions[-1]
        return decision

    def stage(self, solver: str) -> Stage:
        """Return the stage of a run that begins."""
        return self.stages.begin(solver)

    @property
    def counts(self) -> dict[str, Any]:
        """What the report says of them."""
        path = str(self.path)
        return {"path": path, "n_written": self.n_written, "n_failed": self.n_failed}

    def end(self, has_converged: bool) -> None:
        """Remove the file of a fit that has its answer."""
        if not self.stages.n_begun and self._communicator.rank == 0:
            _logger.warning("checkpoint: what solves this problem keeps none")
        if has_converged and self._communicator.rank == 0:
            self.path.unlink(missing_ok=True)

    def _load(self) -> None:
        """Read the file on rank 0, and let all ranks know of it, or of what is wrong with it."""
        content = told = None
        if self._communicator.rank == 0:
            try:
                content = self._read()
            except (OSError, ValueError) as caught:
                told = _told(caught)
        content, told = self._communicator.exchange((content, told))[0]
        if told is not None:
            self._refuse(_heard(told))
        self._kept = content
        if content is None:
            return
        for name in sorted({*content["terms"], *self._terms}):
            kept, own = (terms.get(name, "nothing") for terms in (content["terms"], self._terms))
            if kept != own:
                self._refuse(self._foreign(f"another fit: expected {name} {kept}, got {own}"))
                return

    def _foreign(self, what: str) -> ValueError:
        return ValueError(f"checkpoint: {self.path} is of {what}{_REMEDY}")

    def _refuse(self, error: Exception, n_resumed: int = 0) -> None:
        """Raise, or begin anew where that is wanted and nothing has gone on from the file."""
        if n_resumed or not (self._begins_anew and isinstance(error, ValueError)):
            raise error
        if self._communicator.rank == 0:
            _logger.warning("%s; the fit begins anew", str(error).removesuffix(_REMEDY))
        self._kept = None

    def _read(self) -> dict[str, Any] | None:
        folder = self.path.absolute().parent
        if not folder.is_dir():
            raise FileNotFoundError(f"checkpoint: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"checkpoint: expected a folder to write into, got {folder}")
        if not self.path.exists():
            return None
        self._file = CheckpointFile(self.path)
        return self._file.content

    def _resume(self, is_same_order: bool) -> None:
        """Let the stages to come go on from the file."""
        kept = self._kept
        assert kept is not None
        tree = kept["tree"]
        if kept["n_vectors"] and is_same_order:
            tree = with_row_states(tree, self._read_row_states(kept["n_vectors"]))
        elif kept["n_vectors"]:
            tree["inner"] = _without_states(tree["inner"])
            self._log("the rows come in another order: coordinate ascent begins anew")
        self.stages.resume(tree)
        self.n_passes = self._last_pass = self.resumed_from = kept["n_passes"]
        self._log(
            f"goes on from {self.path}: pass {kept['n_passes']}, written by {kept['n_ranks']} ranks"
        )

    def _log(self, line: str) -> None:
        if self._communicator.rank == 0:
            _logger.info("%s", line)

    def _offered(
        self, communicator: Communicator, state_of: Callable[[], Any], is_new: bool
    ) -> None:
        """Write the state where any rank was asked to, or rank 0 finds it due; then end, if so."""
        self.n_passes += is_new
        wants_to_keep, wants_to_end = self._watch.taken()
        is_late = communicator.rank == 0 and time.monotonic() - self._last_time >= self._seconds
        own = np.array([float(wants_to_keep or is_late), float(wants_to_end)])
        asked, ends = (communicator.allreduce_sum(own) > 0.0).tolist()
        if not (asked or ends or self.n_passes - self._last_pass >= self._passes):
            return
        with self._clock.phase("checkpoint"):
            error = self._write(communicator, state_of())
        if ends and error is not None:
            raise error
        if ends:
            if communicator.rank == 0:
                _logger.warning("SIGTERM: the fit ends; %s holds its state", self.path)
            raise FitInterrupted(f"SIGTERM after pass {self.n_passes}: {self.path} holds the state")

    def _write(self, communicator: Communicator, state: dict[str, Any]) -> OSError | None:
        """Write the state; what goes wrong is told to all, and leaves the last file as it was."""
        vectors: list[RowStates] = []
        content = {
            "terms": self._terms,
            "fingerprints": self._fingerprints,
            "decisions": self._decisions,
            "n_ranks": communicator.size,
            "n_passes": self.n_passes,
            "tree": without_row_states(self.stages.node(state), vectors),
            "n_vectors": len(vectors),
        }
        blocks = self._row_blocks(communicator, vectors)
        told: tuple[str, str] | None = None
        if communicator.rank == 0:
            try:
                with atomic_file(self.path) as stream:
                    write_checkpoint(stream, content, [v.values.dtype for v in vectors], blocks)
            except OSError as caught:
                told = "OSError", f"checkpoint: {self.path} could not be written: {caught}"
        for _ in blocks:  # what rank 0 has no use for, and on the other ranks
            pass
        told = communicator.exchange(told)[0]
        self._last_pass, self._last_time = self.n_passes, time.monotonic()
        self.n_written += told is None
        self.n_failed += told is not None
        if told is None:
            return None
        if communicator.rank == 0:
            _logger.warning("%s; the fit goes on, the last checkpoint is as it was", told[1])
        return OSError(told[1])

    def _row_blocks(
        self, communicator: Communicator, vectors: list[RowStates]
    ) -> Iterator[np.ndarray]:
        """Return the ranks' parts of vectors over the rows, in order; all ranks come along."""
        for vector in vectors:
            for rank, n_rows in enumerate(self._row_counts):
                for begin in range(0, n_rows, _BLOCK_ROWS):
                    is_own = rank == communicator.rank
                    block = vector.values[begin : begin + _BLOCK_ROWS] if is_own else None
                    yield communicator.exchange(block)[rank]

    def _read_row_states(self, n_vectors: int) -> list[RowStates]:
        """Return this rank's part of the kept vectors, which rank 0 reads for all."""
        total, rank = sum(self._row_counts), self._communicator.rank
        first = sum(self._row_counts[:rank])
        last = first + self._row_counts[rank]
        found = []
        for number in range(n_vectors):
            parts = []
            for begin in range(0, total, _BLOCK_ROWS):
                end = min(begin + _BLOCK_ROWS, total)
                read = (
                    None if self._file is None else self._file.row_block(number, total, begin, end)
                )
                block = self._communicator.exchange(read)[0]
                parts.append(block[max(0, first - begin) : max(0, last - begin)])
            found.append(RowStates(np.concatenate(parts)))
        return found


def _told(error: OSError | ValueError) -> tuple[str, str]:
    """Return an error in words, which every kind of ranks can send."""
    return next(name for name, kind in _HEARD.items() if isinstance(error, kind)), str(error)


def _heard(told: tuple[str, str]) -> Exception:
    return _HEARD[told[0]](told[1])


def _without_states(node: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a tree's node whose innermost run, which has states of rows, begins anew."""
    if node is None or node["inner"] is None:
        return None
    return {**node, "inner": _without_states(node["inner"])}
