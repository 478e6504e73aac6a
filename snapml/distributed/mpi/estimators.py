"""The linear estimators on the ranks of an MPI job: every rank has some rows and gets the model."""

from __future__ import annotations

import inspect
import zlib
from typing import Any

import numpy as np
from scipy.sparse import issparse

import snapml
from snapml._registry import ESTIMATORS, Entry
from snapml.data import ChunkedMatrix, DenseMatrix, Matrix
from snapml.distributed.interrupts import HeldInterrupts
from snapml.distributed.mpi.agreement import check_alike
from snapml.distributed.mpi.communicator import MpiCommunicator
from snapml.distributed.mpi.fit_watch import FitWatch
from snapml.distributed.mpi.own_part import own_part
from snapml.distributed.mpi.placement import placed
from snapml.distributed.mpi.uncaught import let_the_failed_rank_speak
from snapml.estimators.base import all_or_nothing
from snapml.estimators.placement import byte_limit
from snapml.solvers.communicator import Communicator
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

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
        Those of the estimator of the same name in `snapml`; the same on all ranks. ``device_ids``
        may also be 'local_rank': one GPU for each rank, of those that its node has.
    """

    least_rows = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class a signature and a documentation with the parameters of both parents."""
        super().__init_subclass__(**options)
        local: Any = cls.__mro__[2]
        cls.__init__ = _init_of(cls, _joint_signature(local))  # type: ignore[method-assign]
        cls.__doc__ = _joint_documentation(cls.__name__, local)

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

    def _local(self) -> Any:
        """Return the same model of the class that needs no ranks, which files are made of."""
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        local: Any = type(self).__mro__[2]
        model = local(**{k: v for k, v in parameters.items() if k not in _OF_JOBS})
        learned = {k: v for k, v in vars(self).items() if k not in parameters}
        learned.pop("run_report_", None)
        vars(model).update(learned)
        return model

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Fit one model to the rows of all ranks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_own_samples, n_features)
            This rank's rows; there may be none. All ranks have the same columns, in the same dtype.
            Or a `ChunkedDataset`, the path of one or of a file or folder that `snapml.io.convert`
            reads, or a list of such files: ranks that name the same divide it among them, and no
            row counts twice. Files go to temporary stores.
        y : array-like of shape (n_own_samples,)
            Their targets; a rank need not have all classes. None takes those of a store or file,
            the name or number of a column those in it. Beside what ranks share, of all its rows.
        sample_weight : array-like of shape (n_own_samples,), default=None
            Their weights; ones where only other ranks have some. Beside what ranks share, of all
            its rows.
        offset : float or array-like of shape (n_own_samples,), default=None
            As for the class of one machine, where it has one; 0 where only other ranks have some.
            Beside what ranks share, of all its rows.
        exposure : float or array-like of shape (n_own_samples,), default=None
            As for the class of one machine, where it has one; 1 where only other ranks have some.

        Returns
        -------
        self
            The fitted estimator, with the same model on every rank.

        Raises
        ------
        RankError
            If another rank has failed; it says which, and of what.
        TypeError
            If there is an offset or exposure, and the class of one machine has none.
        ValueError
            If parameters or data are not as described, or the ranks' do not fit each other; or
            the checkpoint is damaged, or of other data or parameters.
        FitInterrupted
            On all ranks, where one has got SIGTERM and there is a checkpoint, which has the state.
        """
        let_the_failed_rank_speak()
        with HeldInterrupts() as interrupts:
            communicator = MpiCommunicator(self.comm)
            self._watch = FitWatch(communicator)
            self._shards = self._watch.communicator
            try:
                with interrupts.let_through(), self._watch:
                    offset = self._own_offset(X, offset, exposure)
                    self._fit_own(communicator, X, y, sample_weight, offset)
                    communicator.finish()
            except BaseException as error:
                # NaN in one rank's rows is an overflow in the sums of all.
                is_cause = isinstance(error.__context__, NonFiniteError)
                cause = communicator.fail(error, is_cause=is_cause)
                if cause is not None:
                    raise cause from error
                raise
            finally:
                for name in ("_shards", "_watch", "_devices", "_file_names"):
                    vars(self).pop(name, None)
                communicator.close()
        return self

    def _fit_own(
        self, communicator: MpiCommunicator, X: Any, y: Any, sample_weight: Any, offset: Any
    ) -> None:
        """Fit to this rank's rows, together with the other ranks."""
        terms = self._terms()
        check_alike("parameters", self._shards.exchange(terms))
        self._watch.begin(self.checkpoint, self.checkpoint_every, self.report, terms)
        self._devices = placed(getattr(self, "device_ids", None), communicator)
        own = own_part(self._shards, X, y, sample_weight, byte_limit(self), offset=offset)
        self._file_names = own.feature_names
        more = {"offset": own.offset} if self._takes_offset() else {}
        super().fit(own.X, own.y, own.sample_weight, **more)  # type: ignore[misc]
        self.run_report_ = self._watch.end(self)

    def _own_offset(self, X: Any, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of this rank's rows; refuse what the class lacks."""
        if offset is not None and not self._takes_offset():
            raise TypeError(f"offset: expected none, {type(self).__name__} has no offset")
        return self._joint_offset(offset, exposure, X)  # type: ignore[attr-defined]

    def _takes_offset(self) -> bool:
        """Tell whether the class of one machine does."""
        local: Any = type(self).__mro__[2]
        return "offset" in inspect.signature(local.fit).parameters

    def _stopping_rule(self, max_iter: int) -> StoppingRule:
        rule: StoppingRule = super()._stopping_rule(max_iter)  # type: ignore[misc]
        return self._watch.bounded(rule)

    def _seed(self) -> int:
        seed: int = self._watch.decide(super()._seed)  # type: ignore[misc]
        return seed

    def _store_certificate(self, results: list[FitResult]) -> None:
        super()._store_certificate(results)  # type: ignore[misc]
        self._watch.see_results(results)

    def _asked_devices(self) -> tuple[int, ...]:
        """Return the numbers of this rank's GPUs, none for the CPU."""
        return self._devices

    def _communicator(self) -> Communicator:
        return self._shards

    def _terms(self) -> dict[str, str]:
        """Return what all ranks must have in common before the first look at the rows."""
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        _refuse_gram(parameters.get("precompute"))
        own = ("comm", "random_state", "device_ids", "n_threads", "memory_limit", "verbose")
        common = {name: repr(value) for name, value in parameters.items() if name not in own}
        if parameters.get("warm_start"):
            common["last model"] = self._last_model()
        return {"snapml": snapml.__version__, "estimator": type(self).__name__, **common}

    def _last_model(self) -> str:
        """Return what tells the model that a warm start begins with from another."""
        values = (getattr(self, name, None) for name in ("coef_", "intercept_"))
        return "/".join("none" if v is None else f"{_checksum(v):08x}" for v in values)

    def _agree_on_rows(self, matrix: Matrix) -> None:
        """Refuse shards that do not fit each other."""
        if self._file_names is not None:
            self.feature_names_in_ = np.asarray(self._file_names, dtype=object)
        local: Any = self
        names = getattr(self, "feature_names_in_", None)
        is_dense = isinstance(matrix, DenseMatrix)
        if isinstance(matrix, ChunkedMatrix):
            is_dense = not matrix.is_sparse
        terms = {
            "n_features": str(matrix.shape[1]),
            "dtype": str(matrix.dtype),
            "layout": "dense" if is_dense else "sparse",
            "kind of device": "GPU" if local._checked_devices(matrix) else "CPU",
            "feature_names": "none" if names is None else str(list(names)),
        }
        check_alike("X", self._shards.exchange(terms))


def _refuse_gram(precompute: Any) -> None:
    """Refuse a Gram matrix: no rank has the rows to check it by, and none would use it."""
    if np.ndim(precompute):
        raise NotImplementedError(
            f"precompute: expected 'auto', True or False on an MPI communicator, got a matrix of "
            f"shape {np.shape(precompute)}"
        )


def _checksum(values: Any) -> int:
    array = values.toarray() if issparse(values) else np.asarray(values)
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _init_of(cls: Any, signature: inspect.Signature) -> Any:
    """Return ``__init__`` of a class, which says what it takes: scikit-learn's repr asks it."""

    def __init__(self: Any, *args: Any, **parameters: Any) -> None:
        super(cls, self).__init__(*args, **parameters)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__module__, __init__.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return __init__


def _joint_signature(local: Any) -> inspect.Signature:
    """Return the parameters of a job, and by name those of the class of one machine."""
    own = [
        parameter
        for name, parameter in inspect.signature(MpiEstimator.__init__).parameters.items()
        if name in ("self", *_OF_JOBS)
    ]
    its = inspect.signature(local).parameters.values()
    return inspect.Signature(
        [*own, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in its)]
    )


def _joint_documentation(name: str, local: Any) -> str:
    """Return the documentation of the class of one machine, with what those here have beyond it."""
    heading = "Parameters\n----------\n"
    _, _, own = inspect.cleandoc(MpiEstimator.__doc__ or "").partition(heading)
    own = own.partition("**parameters")[0]
    about, _, rest = inspect.cleandoc(local.__doc__ or "").partition(heading)
    about = about.partition("\n")[2].strip()
    return "\n".join(
        [
            f"`snapml.{name}` on the rows of all ranks, each of which has some and gets the model.",
            "",
            *([about, ""] if about else []),
            "``device_ids`` may also be 'local_rank': one GPU for each rank, of those of its node.",
            "",
            f"{heading}{own}{_without_examples(rest)}",
        ]
    )


def _without_examples(text: str) -> str:
    """Return documentation without examples, which run on one machine."""
    kept, is_example = [], False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if lines[number + 1 : number + 2] and set(lines[number + 1]) == {"-"}:
            is_example = line == "Examples"
        if not is_example:
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n"


def _on_ranks(entry: Entry) -> Any:
    """Return the class of the same name whose rows are on all ranks."""
    return type(entry.name, (MpiEstimator, entry.load()), {"__module__": __name__})


_CLASSES = {entry.name: _on_ranks(entry) for entry in ESTIMATORS if entry.trains_on_ranks}
globals().update(_CLASSES)  # where pickles look for them
__all__ = [*_CLASSES]
