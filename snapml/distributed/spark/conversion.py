"""Fitted models as estimators of this library without Spark, and as models of `pyspark.ml`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import snapml
from snapml.distributed.spark.model_numbers import ModelNumbers

__all__ = ["numbers_of", "sklearn_estimator", "spark_model"]


def sklearn_estimator(name: str, numbers: ModelNumbers, params: Any) -> Any:
    """Return a fitted estimator of this library.

    Parameters
    ----------
    name : str
        Of the model's class.
    numbers : ModelNumbers
        The model.
    params : pyspark.ml.param.Params
        Its parameters.

    Returns
    -------
    estimator
        `LogisticRegression` or `LinearSVC`; `LinearRegression`, `Ridge` or `ElasticNet`, as the
        penalty says; `GeneralizedLinearRegressor`. Objectives and gaps are the job's: means over
        rows, not sums.
    """
    shared = {"fit_intercept": params.getFitIntercept(), "max_iter": max(1, params.getMaxIter())}
    strength = numbers.reg_param * numbers.weight_sum
    cost = 1.0 / strength if strength > 0.0 else math.inf
    if name == "LogisticRegressionModel":
        share = numbers.elastic_net_param
        model = snapml.LogisticRegression(C=cost, l1_ratio=share, tol=params.getTol(), **shared)
    elif name == "LinearSVCModel":
        cost = min(cost, 1e6)
        model = snapml.LinearSVC(loss="hinge", C=cost, tol=params.getTol(), **shared)
    elif name == "GeneralizedLinearRegressionModel":
        model = snapml.GeneralizedLinearRegressor(
            family=params._family_name(),
            link=numbers.link,
            alpha=numbers.reg_param * numbers.mean_curvature,
            l1_ratio=numbers.elastic_net_param,
            tol=params.getTol(),
            **shared,
        )
        model.has_offset_ = params._offset_column() is not None
        model.link_ = numbers.link
    else:
        model = _regressor(numbers, params, shared)
    return _filled(model, numbers)


def _regressor(numbers: ModelNumbers, params: Any, shared: dict[str, Any]) -> Any:
    if numbers.reg_param == 0.0:
        return snapml.LinearRegression(fit_intercept=shared["fit_intercept"])
    if numbers.elastic_net_param == 0.0:
        alpha = numbers.reg_param * numbers.weight_sum
        return snapml.Ridge(alpha=alpha, tol=params.getTol(), **shared)
    share = numbers.elastic_net_param
    return snapml.ElasticNet(alpha=numbers.reg_param, l1_ratio=share, tol=params.getTol(), **shared)


def _filled(model: Any, numbers: ModelNumbers) -> Any:
    """Set what a fit would have learned; names that scikit-learn does not know end alike."""
    coef, intercept = numbers.coef, numbers.intercept
    if numbers.n_classes == 2 and len(coef) == 2:
        # Two outputs say what their difference says; both are kept for the way back.
        model.softmax_coef_, model.softmax_intercept_ = coef, intercept
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    if numbers.n_classes:
        model.classes_ = np.arange(float(numbers.n_classes))
        model.coef_, model.intercept_ = coef, intercept
        model.n_iter_ = np.array([numbers.n_iter], dtype=np.int32)
    else:
        model.coef_, model.intercept_ = coef[0], float(intercept[0])
        model.n_iter_ = numbers.n_iter
    model.n_features_in_ = coef.shape[1]
    model.objective_, model.gap_ = float(numbers.objective), float(numbers.gap)
    model.solver_ = numbers.solver
    model.weight_sum_ = float(numbers.weight_sum)
    model.penalty_ = [float(numbers.reg_param), float(numbers.elastic_net_param)]
    return model


def numbers_of(model: Any) -> ModelNumbers:
    """Return what `sklearn_estimator` was given.

    Parameters
    ----------
    model : estimator
        From it, perhaps through a file.

    Returns
    -------
    ModelNumbers
        The model.
    """
    coef = getattr(model, "softmax_coef_", np.atleast_2d(model.coef_))
    intercept = getattr(model, "softmax_intercept_", np.atleast_1d(model.intercept_))
    return ModelNumbers(
        coef=coef,
        intercept=np.asarray(intercept, np.float64),
        n_classes=len(model.classes_) if hasattr(model, "classes_") else 0,
        reg_param=model.penalty_[0],
        elastic_net_param=model.penalty_[1],
        weight_sum=model.weight_sum_,
        objective=model.objective_,
        gap=model.gap_,
        n_iter=int(np.max(model.n_iter_)),
        solver=model.solver_,
        link=getattr(model, "link_", "identity"),
        mean_curvature=_mean_curvature(model),
    )


def _mean_curvature(model: Any) -> float:
    """Return what the strength of a family's penalty is of `regParam`."""
    is_penalised = hasattr(model, "link_") and model.penalty_[0] > 0.0
    return float(model.alpha / model.penalty_[0]) if is_penalised else 1.0


def spark_model(model: Any, numbers: ModelNumbers) -> Any:
    """Return a model of `pyspark.ml`, made in the JVM of a classic session.

    Parameters
    ----------
    model : SparkModel
        The model, whose parameters are copied where Spark's has them.
    numbers : ModelNumbers
        Its numbers.

    Returns
    -------
    pyspark.ml.Model
        Of the class of the same name.
    """
    from pyspark.ml import classification, regression
    from pyspark.ml.common import _py2java
    from pyspark.ml.linalg import DenseMatrix, Vectors
    from pyspark.ml.wrapper import JavaWrapper
    from pyspark.sql import SparkSession

    context = SparkSession.active().sparkContext
    name = type(model).__name__
    home = regression if "Regression" in name and numbers.n_classes == 0 else classification
    coef, intercept = numbers.coef, numbers.intercept
    made_of: list[Any]
    if name == "LogisticRegressionModel":
        matrix = DenseMatrix(*coef.shape, coef.ravel(), True)
        made_of = [_py2java(context, matrix), _py2java(context, Vectors.dense(intercept))]
        made_of += [max(2, numbers.n_classes), len(coef) > 1]
    else:
        made_of = [_py2java(context, Vectors.dense(coef[0])), float(intercept[0])]
        made_of += [1.0] if name == "LinearRegressionModel" else []
    java_class = f"org.apache.spark.ml.{home.__name__.rsplit('.', 1)[-1]}.{name}"
    made = getattr(home, name)(JavaWrapper._new_java_obj(java_class, model.uid, *made_of))
    made._resetUid(model.uid)
    for param, value in model.extractParamMap().items():
        is_known = made.hasParam(param.name) and param.name not in ("solver", "featuresCol")
        if is_known and model.isSet(param):
            made._set(**{param.name: value})
    if isinstance(model.getFeaturesCol(), str):
        made._set(featuresCol=model.getFeaturesCol())
    made._transfer_params_to_java()
    return made
