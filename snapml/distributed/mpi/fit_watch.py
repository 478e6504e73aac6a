"""What goes on beside a fit over MPI: checkpoints, signals, the clock, the report, rank 0's log."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from snapml.data import Dataset
from snapml.distributed.checkpoints import Checkpoints, passes_or_seconds
from snapml.distributed.mpi.run_report import measured_here, report_of, write_report
from snapml.distributed.phase_clock import MeasuredCommunicator, PhaseClock
from snapml.distributed.signals import SignalWatch
from snapml.solvers.communicator import Communicator
from snapml.solvers.observer import Observer, Stage
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["FREE_PARAMETERS", "FitWatch"]

_logger = logging.getLogger("snapml")
_Decision = TypeVar("_Decision")

# Parameters that a fit which goes on from a checkpoint may have otherwise.
FREE_PARAMETERS = ("checkpoint", "checkpoint_every", "report", "max_iter", "tol", "max_time_s")


class FitWatch(Observer):
    """Looks on at one fit on one rank.

    Parameters
    ----------
    inner : MpiCommunicator
        All ranks.
    """

    def __init__(self, inner: Any) -> None:
        self._clock = PhaseClock()
        self.communicator = MeasuredCommunicator(inner, self._clock)
        self._exits = ExitStack()
        self._thread = threading.get_ident()
        self._checkpoints: Checkpoints | None = None
        self._report: Any = None
        self._rows = (0, 0)
        self._has_converged = True

    def __enter__(self) -> FitWatch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.__exit__(kind, error, trace)

    def begin(self, checkpoint: Any, every: Any, report: Any, terms: dict[str, str]) -> None:
        """Check the parameters, and read the checkpoint where there is one.

        Parameters
        ----------
        checkpoint, every, report : object
            Parameters of the estimator, the same on all ranks.
        terms : dict
            Text that the checkpoint must agree with.
        """
        passes_or_seconds(every)
        for name, path in (("checkpoint", checkpoint), ("report", report)):
            if path is not None and not isinstance(path, str | os.PathLike):
                raise TypeError(f"{name}: expected the name of a file or None, got {path!r}")
        self._report = report
        if report is not None:
            self._check_folder(Path(report).absolute().parent)
        if checkpoint is None:
            return
        signals = self._exits.enter_context(SignalWatch())
        kept = {name: value for name, value in terms.items() if name not in FREE_PARAMETERS}
        with self._clock.phase("checkpoint"):
            self._checkpoints = Checkpoints(
                checkpoint, every, kept, self.communicator, signals, self._clock
            )

    def bounded(self, rule: StoppingRule) -> StoppingRule:
        """Return a rule with this observer, and lines of the log on rank 0 only."""
        hosts = Counter(self.communicator.exchange(socket.gethostname()))
        if self.communicator.rank == 0 and rule.verbose > 0:
            places = ", ".join(f"{count} on {host}" for host, count in hosts.items())
            _logger.info("%d ranks: %s", self.communicator.size, places)
        verbose = rule.verbose if self.communicator.rank == 0 else 0
        return replace(rule, verbose=verbose, observer=self)

    def recognise(self, dataset: Dataset, communicator: Communicator) -> None:
        """See the data of the next problem."""
        self._rows = dataset.matrix.shape[0], dataset.matrix.n_stored
        if self._checkpoints is not None:
            with self._clock.phase("checkpoint"):
                self._checkpoints.recognise(dataset, communicator)

    def decide(self, choose: Callable[[], _Decision]) -> _Decision:
        """Return a choice, the one of the checkpoint where there is one."""
        return choose() if self._checkpoints is None else self._checkpoints.decide(choose)

    def stage(self, solver: str) -> Stage:
        """Return the stage of a run that begins."""
        self._clock.turn_to("compute")
        if self._checkpoints is None:
            return Stage()
        if threading.get_ident() != self._thread:
            raise NotImplementedError(
                "checkpoint with several device_ids in one process: expected one rank for each "
                "device"
            )
        return self._checkpoints.stage(solver)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """Return a context whose time counts as that of a phase."""
        return self._clock.phase(name)

    def see_results(self, results: list[FitResult]) -> None:
        """See what the fit has ended with."""
        self._has_converged = all(result.has_converged for result in results)

    def end(self, model: Any) -> dict[str, Any]:
        """Return the report, once all ranks have come to the end; the checkpoint goes.

        Parameters
        ----------
        model : fitted estimator
            The same on all ranks.

        Returns
        -------
        dict
            The same on all ranks.
        """
        ranks = self.communicator.exchange(
            measured_here(self.communicator, self._clock, self._rows)
        )
        kept = self._checkpoints
        fit = {
            "has_converged": self._has_converged,
            "resumed_from_pass": None if kept is None else kept.resumed_from,
            "checkpoints": None if kept is None else kept.counts,
        }
        report = report_of(model, ranks, fit)
        if kept is not None:
            kept.end(self._has_converged)
        if self._report is not None and self.communicator.rank == 0:
            try:
                write_report(report, self._report)
            except OSError as error:  # the model is worth more than its report
                _logger.warning("report: %s could not be written: %s", self._report, error)
        return report

    def _check_folder(self, folder: Path) -> None:
        is_missing = self.communicator.rank == 0 and not folder.is_dir()
        if self.communicator.exchange(is_missing)[0]:
            raise FileNotFoundError(f"report: there is no folder {folder}")
