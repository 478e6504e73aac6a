"""What all estimators share: setters, the request, and fits of several penalties at once."""

from __future__ import annotations

import threading
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.ml.util import MLReadable, MLWritable
from sklearn.exceptions import ConvergenceWarning

from snapml.distributed.spark.driver import job
from snapml.distributed.spark.driver.columns import check_features, check_number
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.model_numbers import ModelNumbers
from snapml.distributed.spark.param_effects import BOUNDS, REFUSED
from snapml.distributed.spark.params import LinearParams
from snapml.distributed.spark.persistence import EstimatorReader, EstimatorWriter
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest

__all__ = ["SparkEstimator"]

# What models of one job may differ in: the penalties of a request, and what predictions alone need.
_SHARED_BY_A_JOB = {
    "regParam",
    "elasticNetParam",
    "threshold",
    "thresholds",
    "predictionCol",
    "rawPredictionCol",
    "probabilityCol",
    "linkPredictionCol",
}


class SparkEstimator(LinearParams, MLWritable, MLReadable):
    """An estimator whose fit is one job where the rows are."""

    @abstractmethod
    def _model_name(self) -> str:
        """Return the model in the terms of `FitRequest`."""

    @abstractmethod
    def _make_model(self, numbers: ModelNumbers) -> Any:
        """Return the model without parameters."""

    def _set_checked(self, values: dict[str, Any]) -> Any:
        """Set parameters by name, and refuse at once those that no fit takes."""
        for name in BOUNDS:
            if values.get(name) is not None:
                raise InvalidInput(f"{name}: {REFUSED[name]}")
        if values.get("threshold") is not None and values.get("thresholds") is not None:
            self._set(**values)
            self._check()
            return self
        for name in ("threshold", "thresholds"):
            if values.get(name) is not None:
                getattr(self, f"set{name.capitalize()}")(values[name])
        return self._set(**values)

    def _fit(self, dataset: Any) -> Any:
        return self._fit_all(dataset, [self])[0]

    def fitMultiple(self, dataset: Any, paramMaps: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Fit a model for each map of parameters; those that differ in penalties share a job.

        Parameters
        ----------
        dataset : pyspark.sql.DataFrame
            The rows.
        paramMaps : sequence of dict
            Parameters and their values, as of `ParamGridBuilder`.

        Returns
        -------
        iterator of (int, model)
            With the number of the map; several threads may take from it.
        """
        estimators = [self.copy(paramMap) for paramMap in paramMaps]
        groups: dict[str, _SharedFit] = {}
        shared = []
        for each in estimators:
            key = repr(sorted(each._fit_terms().items()))
            shared.append(groups.setdefault(key, _SharedFit(self, dataset)).joined_by(each))
        return _Models(shared)

    def _fit_terms(self) -> dict[str, Any]:
        """Return the parameters that models of one job have in common."""
        return {
            param.name: value
            for param, value in self.extractParamMap().items()
            if param.name not in _SHARED_BY_A_JOB
        }

    def _fit_all(self, dataset: Any, estimators: Sequence[Any]) -> list[Any]:
        """Return the models of estimators that differ in penalties alone, by one job."""
        for each in estimators:
            each._check()
        outcomes = job.fit(dataset, self._request(dataset.schema, estimators))
        return [
            each._fitted(outcome, dataset)
            for each, outcome in zip(estimators, outcomes, strict=True)
        ]

    def _request(self, schema: Any, estimators: Sequence[Any]) -> FitRequest:
        first = estimators[0]
        weights = first._weight_column()
        if weights is not None:
            weights = check_number(schema, "weightCol", weights)
        return FitRequest(
            model=first._model_name(),
            features_col=check_features(schema, first.getFeaturesCol()),
            label_col=check_number(schema, "labelCol", first.getLabelCol()),
            weight_col=weights,
            reg_params=tuple(each.getRegParam() for each in estimators),
            elastic_net_params=tuple(each._elastic_net() for each in estimators),
            fit_intercept=first.getFitIntercept(),
            standardization=first._is_standardised(),
            deviations=first._deviations(),
            max_iter=first.getMaxIter(),
            tol=first.getTol(),
            n_workers=first.getNumWorkers(),
            solver=first._solver_name(),
            memory_limit=first._memory_limit(),
            n_threads=first.getNThreads(),
            float32=first.getFloat32(),
            use_gpu=first.getUseGpu(),
            device_ids=first._devices(),
            checkpoint_dir=first.getCheckpointDir(),
            checkpoint_interval=first.getCheckpointInterval(),
            timeout=first.getTimeout(),
            **first._family_terms(schema),
        )

    def _family_terms(self, schema: Any) -> dict[str, Any]:
        """Return what else the request has of families and offsets."""
        return {}

    def _link(self) -> str:
        """Return the function of predictions that margins are."""
        return "identity"

    def _fitted(self, outcome: FitOutcome, dataset: Any) -> Any:
        """Return the model of an outcome, with this estimator's parameters."""
        numbers = ModelNumbers(
            coef=outcome.coef,
            intercept=outcome.intercept,
            n_classes=outcome.n_classes,
            reg_param=self.getRegParam(),
            elastic_net_param=self._elastic_net(),
            weight_sum=outcome.weight_sum,
            objective=outcome.objective,
            gap=outcome.gap,
            n_iter=outcome.n_iter,
            solver=outcome.solver,
            link=self._link(),
            mean_curvature=outcome.mean_curvature,
        )
        if not outcome.has_converged:
            warnings.warn(
                f"the duality gap is {outcome.gap:.3g} of an objective of {outcome.objective:.6g} "
                f"after {outcome.n_iter} reads of the data: expected a share of tol={self.getTol()}"
                f"; raise maxIter={self.getMaxIter()}",
                ConvergenceWarning,
                stacklevel=5,
            )
        model = self._copyValues(self._make_model(numbers)._resetUid(self.uid))
        model._remember(dataset, outcome)
        return model

    def _deviations(self) -> str:
        """Return which deviations Spark's own class has, in the terms of `FitRequest`."""
        return "sample"

    def _elastic_net(self) -> float:
        if self.hasParam("elasticNetParam"):
            return float(self.getOrDefault("elasticNetParam"))
        return 0.0

    def write(self) -> EstimatorWriter:
        """Return what saves the parameters."""
        return EstimatorWriter(self)

    @classmethod
    def read(cls) -> EstimatorReader:
        """Return what loads them."""
        return EstimatorReader(cls)

    def setMaxIter(self, value: int) -> Any:
        """Set the most reads of the data."""
        return self._set(maxIter=value)

    def setRegParam(self, value: float) -> Any:
        """Set the factor of the penalty."""
        return self._set(regParam=value)

    def setTol(self, value: float) -> Any:
        """Set the relative duality gap at which a fit ends."""
        return self._set(tol=value)

    def setFitIntercept(self, value: bool) -> Any:
        """Set whether there is an intercept."""
        return self._set(fitIntercept=value)

    def setStandardization(self, value: bool) -> Any:
        """Set whether coefficients are penalised in units of their columns' deviations."""
        return self._set(standardization=value)

    def setWeightCol(self, value: str) -> Any:
        """Set the name of the column of weights."""
        return self._set(weightCol=value)

    def setAggregationDepth(self, value: int) -> Any:
        """Set a value that has no effect."""
        return self._set(aggregationDepth=value)

    def setMaxBlockSizeInMB(self, value: float) -> Any:
        """Set a value that has no effect."""
        return self._set(maxBlockSizeInMB=value)

    def setNumWorkers(self, value: int) -> Any:
        """Set the number of tasks."""
        return self._set(numWorkers=value)

    def setUseGpu(self, value: bool) -> Any:
        """Set whether tasks train on GPUs."""
        return self._set(useGpu=value)

    def setDeviceIds(self, value: list[int]) -> Any:
        """Set the numbers of the GPUs of each host."""
        return self._set(deviceIds=value)

    def setMemoryLimit(self, value: int | str) -> Any:
        """Set what the rows of a task may take in memory."""
        return self._set(memoryLimit=value)

    def setDual(self, value: bool) -> Any:
        """Set a value that has no effect."""
        return self._set(dual=value)

    def setSolver(self, value: str) -> Any:
        """Set the solver."""
        return self._set(solver=value)

    def setNThreads(self, value: int) -> Any:
        """Set the threads of a task."""
        return self._set(nThreads=value)

    def setCheckpointDir(self, value: str) -> Any:
        """Set the folder of checkpoints."""
        return self._set(checkpointDir=value)

    def setCheckpointInterval(self, value: float) -> Any:
        """Set the seconds between two checkpoints."""
        return self._set(checkpointInterval=value)

    def setTimeout(self, value: float) -> Any:
        """Set the seconds that a task waits for another."""
        return self._set(timeout=value)

    def setFloat32(self, value: bool) -> Any:
        """Set whether features are kept in float32."""
        return self._set(float32=value)


class _SharedFit:
    """One job for several estimators, run when the first of its models is asked for."""

    def __init__(self, estimator: SparkEstimator, dataset: Any) -> None:
        self._estimator, self._dataset = estimator, dataset
        self._lock = threading.Lock()
        self._estimators: list[Any] = []
        self._models: list[Any] | None = None

    def joined_by(self, estimator: Any) -> tuple[_SharedFit, int]:
        self._estimators.append(estimator)
        return self, len(self._estimators) - 1

    def model(self, number: int) -> Any:
        with self._lock:
            if self._models is None:
                self._models = self._estimator._fit_all(self._dataset, self._estimators)
            return self._models[number]


class _Models:
    """The models of `fitMultiple`; safe to share among threads."""

    def __init__(self, shared: list[tuple[_SharedFit, int]]) -> None:
        self._shared, self._next = shared, 0
        self._lock = threading.Lock()

    def __iter__(self) -> _Models:
        return self

    def __next__(self) -> tuple[int, Any]:
        with self._lock:
            index = self._next
            if index >= len(self._shared):
                raise StopIteration
            self._next += 1
        fit, number = self._shared[index]
        return index, fit.model(number)
