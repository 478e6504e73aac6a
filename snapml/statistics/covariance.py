"""Covariances of coefficients, and the tests that they give."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import scipy.linalg
import scipy.stats
from sklearn.utils.validation import validate_data

from snapml.estimators.offsets import check_index, checked_offset
from snapml.statistics.likelihood import Law
from snapml.statistics.model_checks import (
    check_unchanged,
    checked_targets,
    checked_weights,
    coefficients_of,
    is_of_mean,
    law_of,
    names_of,
    penalties_of,
)
from snapml.statistics.result import Inference
from snapml.statistics.rows import ConstantAndRows

__all__ = ["inference"]

_COVARIANCES = ("model", "posterior", "robust")
_WEIGHTS = ("frequency", "variance")
_DISPERSIONS = ("auto", "pearson", "deviance")
# Least eigenvalue of the information, its columns scaled, below which columns count as dependent.
_DEPENDENT = 1e-12
# Standard errors that a coefficient may be away from the minimum of the objective.
_FARTHEST = 0.1
# Of the rows: residual degrees of freedom below are none but for rounding.
_LEAST_DF = 1e-8
# Of what the penalty alone would leave: errors of columns that the rows say nothing of are below
# this but for rounding, and so are their coefficients where the fit is close to the minimum.
_ROUNDING = 1e-5


def inference(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    offset: Any = None,
    exposure: Any = None,
    level: float = 0.95,
    covariance: str = "model",
    dispersion: Any = "auto",
    weights: str = "frequency",
) -> Inference:
    """Return standard errors, tests and confidence intervals of a fitted model's coefficients.

    Parameters
    ----------
    model : LogisticRegression, LinearRegression, Ridge, or one of counts and amounts
        Fitted to these rows: of two classes or one target, without an L1 penalty, class weights or
        a constraint, of at most 5,000 coefficients. Parameters of the objective are as in that fit.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows.
    y : array-like of shape (n_samples,)
        Their labels or targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Those of fit; see `weights`.
    offset, exposure : float or array-like of shape (n_samples,), default=None
        Those of fit.
    level : float, default=0.95
        Of the confidence intervals, between 0 and 1.
    covariance : {'model', 'posterior', 'robust'}, default='model'
        'model': of the estimates, if the model is true. 'posterior': of the coefficients, given the
        data, if the penalty is a normal prior. 'robust': the sandwich HC0, also if the variances
        are others than the model's. Without a penalty the first two are one.
    dispersion : {'auto', 'pearson', 'deviance'} or float, default='auto'
        The factor of the variance: Pearson's chi^2 or the deviance over the residual degrees of
        freedom, or as given. 'auto' is 1 for labels, Poisson's and negative binomial counts, and
        Pearson's for others. One that is estimated makes tests Student's.
    weights : {'frequency', 'variance'}, default='frequency'
        What `sample_weight` means: weight k counts as k copies of the row, or its variance is the
        k-th part of others', as of means of k claims.

    Returns
    -------
    Inference
        All in float64; printing it shows a table.

    Raises
    ------
    TypeError
        If the model is another.
    ValueError
        If a parameter is not as described, or the model's has been changed since its fit; if
        columns are linearly dependent and not penalised; or if a coefficient is further than a
        tenth of its standard error from the minimum of the objective: the rows are others, or
        ``tol`` was too large.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import LinearRegression
    >>> from snapml.statistics import inference
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> found = inference(LinearRegression().fit(X, y), X, y)
    >>> found.names[3], round(float(found.p_values[3]), 4)
    ('bmi', 0.0)
    """
    if covariance not in _COVARIANCES:
        raise ValueError(f"covariance: expected one of {_COVARIANCES}, got {covariance!r}")
    given: Any = level  # whatever the caller has passed
    if not isinstance(given, numbers.Real) or not 0.0 < float(given) < 1.0:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if weights not in _WEIGHTS:
        raise ValueError(f"weights: expected one of {_WEIGHTS}, got {weights!r}")
    _check_dispersion(dispersion)
    penalty, bias_penalty = penalties_of(model)
    check_unchanged(model)
    offset = model._joint_offset(offset, exposure, X)
    check_index(offset, X)
    X = validate_data(model, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
    rows = ConstantAndRows(X, bool(model.fit_intercept), is_centred=bias_penalty == 0.0)
    y = checked_targets(model, y, len(rows))
    shares = checked_weights(sample_weight, len(rows))
    offsets = checked_offset(model, offset, len(rows))
    estimates = coefficients_of(model)
    if is_of_mean(model):
        penalty *= float(shares.sum())
    penalties = np.full(len(estimates), penalty)
    if model.fit_intercept:
        penalties[0] = bias_penalty
    penalties /= rows.scales**2  # all that follows is of the centred and scaled columns
    law, fixed = law_of(model), np.zeros(len(rows)) if offsets is None else offsets
    margins, is_counted = rows.times(estimates) + fixed, weights == "frequency"
    slopes, curvatures = law.slopes(margins, y)
    information = rows.gram(shares * curvatures)
    inverse = _inverse(information + np.diag(penalties))
    hat = inverse @ information
    n_rows = float(shares.sum()) if is_counted else float(np.count_nonzero(shares))
    scale, df = _dispersion(law, dispersion, hat, n_rows, (y, margins, shares))
    _check_minimum(
        inverse,
        information,
        rows.transposed_times(shares * slopes) + penalties * rows.scales * estimates,
        law.residual_squares("pearson", y, margins, shares) / n_rows if law.has_dispersion else 1.0,
    )
    of_all = (
        scale * inverse if covariance == "posterior" else inverse @ information @ inverse * scale
    )
    if covariance == "robust":  # of the rows' own curvatures: nothing is expected of the model
        bread = inverse
        if not law.is_canonical:
            bread = _inverse(rows.gram(shares * law.curvatures(margins, y)) + np.diag(penalties))
        of_all = bread @ rows.gram((shares if is_counted else shares**2) * slopes**2) @ bread
    # A constant column with a penalty: its estimate is 0 whatever the labels, without an error.
    is_certain = (np.diag(of_all) == 0.0) & (np.abs(rows.scales * estimates) <= _ROUNDING)
    null = law.null_margins(bool(model.fit_intercept), fixed, y, shares)
    values = [
        law.log_likelihood(y, each, shares, scale, counts=is_counted) for each in (margins, null)
    ]
    return Inference(
        **_tests(estimates, rows.to_columns(of_all), level, df, is_certain),
        names=names_of(model),
        kind=covariance,
        residual_df=df,
        scale=scale,
        n_rows=n_rows,
        penalty=penalty,
        model=type(model).__name__,
        n_parameters=float(np.trace(hat)),
        log_likelihood=values[0],
        null_log_likelihood=values[1],
        r_squared=law.explained(y, margins, null, shares),
        measure=law.measure,
    )


def _check_dispersion(dispersion: Any) -> None:
    """Refuse what is neither a way to tell a dispersion nor one."""
    if isinstance(dispersion, str):
        is_known = dispersion in _DISPERSIONS
    else:
        is_number = isinstance(dispersion, numbers.Real) and not isinstance(dispersion, bool)
        is_known = is_number and 0.0 < float(dispersion) < math.inf
    if not is_known:
        raise ValueError(
            f"dispersion: expected one of {_DISPERSIONS} or a positive number, got {dispersion!r}"
        )


def _dispersion(
    law: Law,
    dispersion: Any,
    hat: np.ndarray,
    n_rows: float,
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> tuple[float, float]:
    """Return the factor of the variance and its degrees of freedom, infinite where it is told."""
    if not isinstance(dispersion, str):
        return float(dispersion), math.inf
    if dispersion == "auto" and not law.has_dispersion:
        return 1.0, math.inf
    df = _residual_df(hat, n_rows)
    kind = "pearson" if dispersion == "auto" else dispersion
    return law.residual_squares(kind, *data) / df, df


def _residual_df(hat: np.ndarray, n_rows: float) -> float:
    """Return the residual degrees of freedom, refusing what is 0 but for rounding."""
    df = n_rows - float(2.0 * np.trace(hat) - np.sum(hat * hat.T))
    if not df > _LEAST_DF * n_rows:
        raise ValueError(
            f"X: expected more rows than coefficients, got {n_rows:g} rows (by their weights) for "
            f"{len(hat)}: no residual is left to tell the variance by"
        )
    return df


def _tests(
    estimates: np.ndarray, covariance: np.ndarray, level: float, df: float, is_certain: np.ndarray
) -> dict[str, Any]:
    """Return tests and intervals by a covariance."""
    errors = np.sqrt(np.diag(covariance))
    law = scipy.stats.norm() if math.isinf(df) else scipy.stats.t(df)
    with np.errstate(divide="ignore"):  # of a perfect fit
        statistics = np.where(is_certain, 0.0, estimates / np.where(is_certain, 1.0, errors))
    reach = float(law.ppf(0.5 + 0.5 * level)) * errors
    return {
        "estimates": estimates,
        "standard_errors": errors,
        "statistics": statistics,
        "p_values": 2.0 * law.sf(np.abs(statistics)),
        "lower": estimates - reach,
        "upper": estimates + reach,
        "level": level,
        "covariance": covariance,
    }


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix, by its eigenvalues once scaled."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.sqrt(np.diag(matrix))
        scaled = matrix / np.outer(lengths, lengths)
    if not np.isfinite(scaled).all():
        raise ValueError("X: expected columns that are not zero, or a penalty")
    values, vectors = scipy.linalg.eigh(scaled)
    if values[0] < _DEPENDENT * values[-1]:
        raise ValueError(
            "X: expected columns that are linearly independent, or a penalty: without it their "
            "coefficients have no variance"
        )
    half = vectors / (lengths[:, None] * np.sqrt(values))
    return np.asarray(half @ half.T)


def _check_minimum(
    inverse: np.ndarray, information: np.ndarray, gradient: np.ndarray, scale: float
) -> None:
    """Refuse coefficients that are not where the objective of these rows is least."""
    errors = np.sqrt(np.maximum(scale * np.diag(inverse @ information @ inverse), 0.0))
    steps = np.abs(inverse @ gradient)
    # What the rows say nothing of, as of a constant column, rests near zero as far as `tol` asks.
    least = _ROUNDING * np.sqrt(scale * np.diag(inverse)) + np.finfo(np.float64).tiny
    farthest = float(np.max(steps / np.maximum(errors, least)))
    if scale > 0.0 and not farthest <= _FARTHEST:
        raise ValueError(
            f"model: expected the minimum for these rows, got a coefficient {farthest:.2g} "
            "standard errors away from it: pass what it was fitted to, or fit with a smaller tol"
        )
