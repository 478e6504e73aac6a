"""The linear estimators on the ranks of an MPI job: every rank has some rows and gets the model."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np

import snapml
from snapml.data import ChunkedDataset, ChunkedMatrix, DenseMatrix, Matrix
from snapml.distributed.mpi.communicator import MpiCommunicator
from snapml.distributed.mpi.fit_watch import FitWatch
from snapml.distributed.mpi.uncaught import let_the_failed_rank_speak
from snapml.estimators.base import all_or_nothing
from snapml.estimators.row_sources import opened
from snapml.solvers.communicator import Communicator
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["LinearSVC", "LogisticRegression", "Ridge"]


# Parameters that only jobs of several ranks have.
_OF_JOBS = ("comm", "checkpoint", "checkpoint_every", "report")


class MpiEstimator:
    """What the estimators here have beyond those of one machine.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks that train together; all of them call `fit`, each with its own rows.
    checkpoint : str or path-like, default=None
        File of rank 0 that keeps the state of a fit, and from which the next one goes on, on as
        many ranks or another number. It is removed once the fit has converged.
    checkpoint_every : int or str, default="10min"
        Passes over the data after which the state is written again, or a time: "90s", "10min".
    report : str or path-like, default=None
        File of rank 0 that gets ``run_report_`` as JSON.
    **parameters : object
        Those of the estimator of the same name in `snapml`; the same on all ranks.
    """

    least_rows = 0

    def __init__(
        self,
        comm: Any = None,
        checkpoint: Any = None,
        checkpoint_every: Any = "10min",
        report: Any = None,
        **parameters: Any,
    ) -> None:
        super().__init__(**parameters)
        self.comm = comm
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.report = report

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, for scikit-learn."""
        local: Any = cls.__mro__[2]
        return sorted([*local._get_param_names(), *_OF_JOBS])

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy on the same ranks; communicators cannot be copied."""
        from sklearn.base import clone

        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        comm = parameters.pop("comm")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return type(self)(comm=comm, **copies)

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, from which `snapml.load` makes one without ranks.

        Parameters
        ----------
        path : str or path-like
            The file; one rank writes it.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        OSError
            If the file cannot be written.
        """
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        local: Any = type(self).__mro__[2]
        model = local(**{k: v for k, v in parameters.items() if k not in _OF_JOBS})
        learned = {k: v for k, v in vars(self).items() if k not in parameters}
        learned.pop("run_report_", None)
        vars(model).update(learned)
        model.save(path)

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit one model to the rows of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_own_samples, n_features)
            This rank's rows; there may be none. All ranks have the same columns, in the same dtype.
            Or a `ChunkedDataset`, or the path of one: where all ranks open the same store, each
            trains on its part of the chunks, and no row counts twice.
        y : array-like of shape (n_own_samples,)
            Their targets; a rank need not have all classes. None takes those of a store; beside a
            store that all ranks share, the targets of all its rows.
        sample_weight : array-like of shape (n_own_samples,), default=None
            Their weights; ones where only other ranks have some.

        Returns
        -------
        self
            The fitted estimator, with the same model on every rank.

        Raises
        ------
        RankError
            If another rank has failed; it says which, and of what.
        ValueError
            If parameters or data are not as described, or the ranks' do not fit each other; or
            the checkpoint is damaged, or of other data or parameters.
        FitInterrupted
            On all ranks, where one has got SIGTERM and there is a checkpoint, which has the state.
        """
        let_the_failed_rank_speak()
        communicator = MpiCommunicator(self.comm)
        self._watch = FitWatch(communicator)
        self._shards = self._watch.communicator
        try:
            with self._watch:
                self._fit_watched(X, y, sample_weight)
        except BaseException as error:
            # NaN in one rank's rows is an overflow in the sums of all.
            is_cause = isinstance(error.__context__, NonFiniteError)
            cause = communicator.fail(error, is_cause=is_cause)
            if cause is not None:
                raise cause from error
            raise
        finally:
            del self._shards, self._watch
            communicator.close()
        return self

    def _fit_watched(self, X: Any, y: Any, sample_weight: Any) -> None:
        terms = self._terms()
        _check_alike("parameters", self._shards.exchange(terms))
        self._watch.begin(self.checkpoint, self.checkpoint_every, self.report, terms)
        own, rows = self._own_part(opened(X))
        if rows is not None:
            y, sample_weight = _of_rows(rows, y), _of_rows(rows, sample_weight)
        super().fit(own, y, sample_weight)  # type: ignore[misc]
        self.run_report_ = self._watch.end(self)

    def _stopping_rule(self, max_iter: int) -> StoppingRule:
        rule: StoppingRule = super()._stopping_rule(max_iter)  # type: ignore[misc]
        return self._watch.bounded(rule)

    def _seed(self) -> int:
        seed: int = self._watch.decide(super()._seed)  # type: ignore[misc]
        return seed

    def _store_certificate(self, results: list[FitResult]) -> None:
        super()._store_certificate(results)  # type: ignore[misc]
        self._watch.see_results(results)

    def _communicator(self) -> Communicator:
        return self._shards

    def _own_part(self, X: Any) -> tuple[Any, slice | None]:
        """Return X, or this rank's part where all ranks have opened one store, with its rows."""
        mark = None
        if isinstance(X, ChunkedDataset):
            mark = f"store {zlib.crc32(X.manifest.to_json().encode())}"
        elif isinstance(X, str | os.PathLike):
            mark = os.fspath(X)
        marks = self._shards.exchange(mark)
        if self._shards.size == 1 or mark is None or len(set(marks)) > 1:
            return X, None
        if isinstance(X, ChunkedDataset):
            return X.share(self._shards.rank, self._shards.size)
        raise ValueError(
            f"X: all ranks name {mark}: expected a chunk store, of which each rank reads its part, "
            "or another file on each rank; snapml.io.convert makes a store"
        )

    def _terms(self) -> dict[str, str]:
        """Return what all ranks must have in common before the first look at the rows."""
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        own = ("comm", "random_state", "device_ids", "n_threads", "memory_limit", "verbose")
        common = {name: repr(value) for name, value in parameters.items() if name not in own}
        return {"snapml": snapml.__version__, "estimator": type(self).__name__, **common}

    def _agree_on_rows(self, matrix: Matrix) -> None:
        """Refuse shards that do not fit each other."""
        names = getattr(self, "feature_names_in_", None)
        is_dense = isinstance(matrix, DenseMatrix)
        if isinstance(matrix, ChunkedMatrix):
            is_dense = not matrix.is_sparse
        terms = {
            "n_features": str(matrix.shape[1]),
            "dtype": str(matrix.dtype),
            "layout": "dense" if is_dense else "sparse",
            "feature_names": "none" if names is None else str(list(names)),
        }
        _check_alike("X", self._shards.exchange(terms))


def _of_rows(rows: slice, vector: Any) -> Any:
    return None if vector is None else np.asarray(vector)[rows]


def _check_alike(subject: str, terms: list[dict[str, str]]) -> None:
    """Raise the same error on every rank where the ranks' terms differ."""
    for name in sorted({name for own in terms for name in own}):
        found = [own.get(name, "nothing") for own in terms]
        if len(set(found)) > 1:
            first_other = int(np.argmax([value != found[0] for value in found]))
            raise ValueError(
                f"{subject}: expected the same {name} on all ranks, got {found[0]} on rank 0 and "
                f"{found[first_other]} on rank {first_other}"
            )


class LogisticRegression(MpiEstimator, snapml.LogisticRegression):
    """`snapml.LogisticRegression` on the rows of all ranks."""


class LinearSVC(MpiEstimator, snapml.LinearSVC):
    """`snapml.LinearSVC` on the rows of all ranks."""


class Ridge(MpiEstimator, snapml.Ridge):
    """`snapml.Ridge` on the rows of all ranks."""
