"""Standard errors, tests and confidence intervals of coefficients.

For least squares and binary logistic regression, without a penalty or with L2; docs/statistics.md
says which covariance means what, and where it is from.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.special
import scipy.stats
from sklearn.utils.validation import check_is_fitted, validate_data

from snapml.estimators import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge
from snapml.estimators.offsets import checked_offset, targets_without
from snapml.estimators.penalty_parameters import resolve_penalty

__all__ = ["Inference", "inference"]

_COVARIANCES = ("model", "posterior", "robust")
_MOST_COEFFICIENTS = 5000
_BLOCK_ENTRIES = 2**22
# Least eigenvalue of the information, its columns scaled, below which columns count as dependent.
_DEPENDENT = 1e-12
# Standard errors that a coefficient may be away from the minimum of the objective.
_FARTHEST = 0.1


@dataclass(frozen=True)
class Inference:
    """What is known of a fitted model's coefficients; the intercept, where there is one, is first.

    Attributes
    ----------
    names : tuple of str
        Of the coefficients: "intercept", and those of the columns of X, or x0, x1, ...
    estimates, standard_errors : ndarray of shape (n_coefficients,)
        What the model has, and its standard error.
    statistics : ndarray of shape (n_coefficients,)
        Estimate over standard error: z, or t where `residual_df` is finite.
    p_values : ndarray of shape (n_coefficients,)
        Two-sided, of the hypothesis that the coefficient is zero.
    lower, upper : ndarray of shape (n_coefficients,)
        Ends of the confidence interval.
    level : float
        Of that interval.
    covariance : ndarray of shape (n_coefficients, n_coefficients)
        Of the estimates.
    kind : str
        Which one: 'model', 'posterior' or 'robust'.
    residual_df : float
        Degrees of freedom of the residuals; infinite for logistic regression.
    scale : float
        Variance of the residuals; 1 for logistic regression.
    n_rows : float
        Rows, or their weights added up.
    penalty : float
        Strength of the L2 penalty beside the log-likelihood, or beside half the sum of squares.
    model : str
        Name of the class.
    n_parameters : float
        tr M of docs/statistics.md: without a penalty the number of coefficients.
    log_likelihood : float
        Of the labels; of targets with the normal law of the variance that makes it largest.
    null_log_likelihood : float
        Of the model that has the intercept (where this one has one) and the offset only.
    r_squared : float
        Share of the null model's sum of squares that is explained; McFadden's for logistic
        regression.
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    standard_errors: np.ndarray
    statistics: np.ndarray
    p_values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    covariance: np.ndarray
    kind: str
    residual_df: float
    scale: float
    n_rows: float
    penalty: float
    model: str
    n_parameters: float
    log_likelihood: float
    null_log_likelihood: float
    r_squared: float

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 `n_parameters` - 2 `log_likelihood`."""
        return 2.0 * (self.n_parameters - self.log_likelihood)

    @property
    def bic(self) -> float:
        """Schwarz's criterion, log(`n_rows`) `n_parameters` - 2 `log_likelihood`."""
        return math.log(self.n_rows) * self.n_parameters - 2.0 * self.log_likelihood

    def summary(self) -> str:
        """Return the fit's numbers above the table of coefficients, as statsmodels lays them out.

        Returns
        -------
        str
            Lines of text.
        """
        is_logistic = math.isinf(self.residual_df)
        left = [
            ("Model", self.model),
            ("Rows", f"{self.n_rows:.10g}"),
            ("Parameters", f"{self.n_parameters:.6g}"),
            ("Residual df", "" if is_logistic else f"{self.residual_df:.6g}"),
            ("L2 penalty", f"{self.penalty:.4g}"),
        ]
        right = [
            ("McFadden R^2" if is_logistic else "R^2", f"{self.r_squared:.4f}"),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Null log-likelihood", f"{self.null_log_likelihood:.6g}"),
            ("AIC", f"{self.aic:.6g}"),
            ("BIC", f"{self.bic:.6g}"),
        ]
        lines = [
            f"{first:14}{value:>22}    {second:20}{other:>14}"
            for (first, value), (second, other) in zip(left, right, strict=True)
        ]
        *table, _ = str(self).splitlines()
        rule = "-" * max(map(len, [*lines, *table]))
        kind = f"Covariance: {self.kind}"
        return "\n".join([*lines, rule, table[0], rule, *table[1:], rule, kind])

    def to_frame(self) -> Any:
        """Return the table of coefficients as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            A row for each coefficient, by its name; columns ``estimate``, ``std_error``,
            ``statistic``, ``p_value``, ``lower``, ``upper``.

        Raises
        ------
        ImportError
            If pandas is missing.
        """
        import pandas as pd

        columns = {
            "estimate": self.estimates,
            "std_error": self.standard_errors,
            "statistic": self.statistics,
            "p_value": self.p_values,
            "lower": self.lower,
            "upper": self.upper,
        }
        return pd.DataFrame(columns, index=list(self.names))

    def __str__(self) -> str:
        """Return a table, a line for each coefficient."""
        letter = "z" if math.isinf(self.residual_df) else "t"
        ends = f"[{0.5 - 0.5 * self.level:.3g}", f"{0.5 + 0.5 * self.level:.3g}]"
        width = max(10, *map(len, self.names))
        header = (
            f"{'':{width}} {'estimate':>11} {'std. error':>11} {letter:>9} {f'P>|{letter}|':>9}"
        )
        lines = [f"{header} {ends[0]:>11} {ends[1]:>11}"]
        columns = self.estimates, self.standard_errors, self.statistics, self.p_values
        for name, value, error, statistic, p, low, high in zip(
            self.names, *columns, self.lower, self.upper, strict=True
        ):
            shown = f"{name:{width}} {value:11.5g} {error:11.4g} {statistic:9.3f} {p:9.3g}"
            lines.append(f"{shown} {low:11.5g} {high:11.5g}")
        of = "" if math.isinf(self.residual_df) else f", {self.residual_df:.6g} residual df"
        lines.append(
            f"{self.n_rows:.10g} rows{of}; covariance: {self.kind}; L2 penalty: {self.penalty:.4g}"
        )
        return "\n".join(lines)


def inference(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    offset: Any = None,
    level: float = 0.95,
    covariance: str = "model",
) -> Inference:
    """Return standard errors, tests and confidence intervals of a fitted model's coefficients.

    Parameters
    ----------
    model : LogisticRegression, LinearRegression or Ridge
        Fitted to these rows: of two classes or one target, without an L1 penalty, class weights or
        a constraint, of at most 5,000 coefficients. Parameters of the objective are as in that fit.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows.
    y : array-like of shape (n_samples,)
        Their labels or targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight k counts as k copies of the row, as in fit.
    offset : float or array-like of shape (n_samples,), default=None
        That of fit: added to each row's margin as it is.
    level : float, default=0.95
        Of the confidence intervals, between 0 and 1.
    covariance : {'model', 'posterior', 'robust'}, default='model'
        'model': of the estimates, if the model is true. 'posterior': of the coefficients, given the
        data, if the penalty is a normal prior. 'robust': the sandwich HC0, also if the variances
        are others than the model's. Without a penalty the first two are one.

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
    penalty, bias_penalty = _penalties(model)
    _check_unchanged(model)
    X = validate_data(model, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
    rows = _Rows(X, bool(model.fit_intercept))
    y = _targets(model, y, len(rows))
    weights = _weights(sample_weight, len(rows))
    offsets = checked_offset(model, offset, len(rows))
    estimates = np.asarray(model.coef_, dtype=np.float64).ravel()
    if model.fit_intercept:
        bias = float(np.asarray(model.intercept_, dtype=np.float64).ravel()[0])
        estimates = np.append(bias, estimates)
    penalties = np.full(len(estimates), penalty)
    if model.fit_intercept:
        penalties[0] = bias_penalty
    is_logistic = isinstance(model, LogisticRegression)
    margins, fixed = rows.times(estimates), np.zeros(len(rows))
    if is_logistic:
        fixed = fixed if offsets is None else offsets
    else:
        y = targets_without(y, offsets)
    slopes, curvatures = (_logistic if is_logistic else _squared)(margins + fixed, y)
    information = rows.gram(weights * curvatures)
    inverse = _inverse(information + np.diag(penalties))
    _check_minimum(
        inverse,
        information,
        rows.transposed_times(weights * slopes) + penalties * estimates,
        1.0 if is_logistic else float(weights @ slopes**2) / float(weights.sum()),
    )
    n_rows, df, scale = float(weights.sum()), math.inf, 1.0
    hat = inverse @ information
    if not is_logistic:
        df = n_rows - float(2.0 * np.trace(hat) - np.sum(hat * hat.T))
        if not df > 0.0:
            raise ValueError(f"X: expected more rows than coefficients, got {len(rows)} rows")
        scale = float(weights @ slopes**2) / df
    middle = rows.gram(weights * slopes**2) if covariance == "robust" else scale * information
    of_all = scale * inverse if covariance == "posterior" else inverse @ middle @ inverse
    null = _null_margins(is_logistic, bool(model.fit_intercept), fixed, y, weights)
    likelihood = _log_likelihood if is_logistic else _normal_log_likelihood
    values = [likelihood(z, y, weights) for z in (margins + fixed, null)]
    left, whole = values
    if not is_logistic:
        left, whole = float(weights @ slopes**2), float(weights @ (y - null) ** 2)
    explained = 1.0 - left / whole if whole else math.nan  # targets that need no model
    return Inference(
        **_tests(estimates, of_all, level, df),
        names=_names(model),
        kind=covariance,
        residual_df=df,
        scale=scale,
        n_rows=n_rows,
        penalty=penalty,
        model=type(model).__name__,
        n_parameters=float(np.trace(hat)),
        log_likelihood=values[0],
        null_log_likelihood=values[1],
        r_squared=explained,
    )


def _tests(
    estimates: np.ndarray, covariance: np.ndarray, level: float, df: float
) -> dict[str, Any]:
    """Return tests and intervals by a covariance."""
    errors = np.sqrt(np.diag(covariance))
    law = scipy.stats.norm() if math.isinf(df) else scipy.stats.t(df)
    # A column of zeros with a penalty: its estimate is 0 whatever the labels, without an error.
    is_certain = (errors == 0.0) & (estimates == 0.0)
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


class _Rows:
    """Rows with a first column of ones where there is an intercept; sums are float64."""

    def __init__(self, X: Any, has_ones: bool) -> None:
        self._X, self._first = X, int(has_ones)
        self._is_sparse = scipy.sparse.issparse(X)

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def times(self, vector: np.ndarray) -> np.ndarray:
        """Return the product with a vector."""
        product = self._X @ vector[self._first :]
        return product + vector[0] if self._first else product

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the transposed rows times a vector."""
        product = np.asarray(self._X.T @ vector).ravel()
        return np.append(vector.sum(), product) if self._first else product

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted Gram matrix."""
        first, X = self._first, self._X
        n = X.shape[1]
        gram = np.zeros((n + first, n + first))
        if self._is_sparse:
            scaled = X.multiply(weights[:, None]).tocsr()
            gram[first:, first:] = (X.T.astype(np.float64) @ scaled).toarray()
        else:
            step = max(1, _BLOCK_ENTRIES // max(1, n))
            for begin in range(0, len(self), step):
                block = X[begin : begin + step].astype(np.float64)
                gram[first:, first:] += block.T @ (weights[begin : begin + step, None] * block)
        if first:
            gram[0] = gram[:, 0] = self.transposed_times(weights)
        return gram


def _logistic(margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two derivatives of the loss by the margin."""
    shares = scipy.special.expit(margins)
    return shares - y, shares * scipy.special.expit(-margins)


def _squared(margins: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return margins - y, np.ones(len(y))


def _log_likelihood(margins: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ scipy.special.log_expit(np.where(y > 0.0, margins, -margins)))


def _normal_log_likelihood(margins: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return it for the variance that makes it largest."""
    n = float(weights.sum())
    with np.errstate(divide="ignore"):  # of a perfect fit
        return -0.5 * n * float(np.log(2.0 * np.pi / n * (weights @ (y - margins) ** 2)) + 1.0)


def _null_margins(
    is_logistic: bool, has_intercept: bool, fixed: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the margins of the best model of an intercept and the offset alone."""
    if not has_intercept:
        return fixed
    if not is_logistic:
        return fixed + float(weights @ y) / float(weights.sum())

    def slope(b: float) -> float:
        return float(weights @ (scipy.special.expit(b + fixed) - y))

    # The least and the largest offset bound what the intercept has to make up for.
    share = float(weights @ y) / float(weights.sum())
    middle = float(scipy.special.logit(share))
    ends = middle - float(fixed.max()) - 1.0, middle - float(fixed.min()) + 1.0
    return fixed + float(scipy.optimize.brentq(slope, *ends, xtol=1e-12))


def _check_unchanged(model: Any) -> None:
    """Refuse a model whose objective is no longer that of its fit."""
    for name, used in getattr(model, "_fitted_with", {}).items():
        now = getattr(model, name)
        is_same = now == used if np.isscalar(now) and np.isscalar(used) else False
        if not is_same and joblib.hash(now) != joblib.hash(used):
            raise ValueError(
                f"model: expected the parameters of its fit, got {name}={now!r} after a fit with "
                f"{name}={used!r}: fit again, or set it back"
            )


def _penalties(model: Any) -> tuple[float, float]:
    """Return the strength of the L2 penalty on coefficients and on the intercept."""
    is_known = isinstance(model, LogisticRegression | LinearRegression | Ridge)
    # A penalty that the same rows chose has no law of its own here.
    if not is_known or isinstance(model, LogisticRegressionCV):
        raise TypeError(
            "model: expected LogisticRegression, LinearRegression or Ridge, got "
            f"{type(model).__name__}"
        )
    check_is_fitted(model)
    n_outputs = len(np.atleast_2d(model.coef_))
    if n_outputs > 1:
        raise ValueError(f"model: expected two classes or one target, got {n_outputs} models")
    if model.n_features_in_ + bool(model.fit_intercept) > _MOST_COEFFICIENTS:
        raise ValueError(
            f"model: expected at most {_MOST_COEFFICIENTS} coefficients, whose covariance is a "
            f"full matrix, got {model.n_features_in_} columns"
        )
    if getattr(model, "positive", False):
        raise ValueError("model: expected no constraint, got positive=True")
    if getattr(model, "bounds", None) is not None:
        raise ValueError("model: expected no constraint, got bounds")
    if not isinstance(model, LogisticRegression):
        return float(np.ravel(getattr(model, "alpha", 0.0))[0]), 0.0
    if model.class_weight is not None:
        raise ValueError(
            f"model: expected class_weight=None, got {model.class_weight!r}: reweighted classes "
            "are no likelihood"
        )
    C, l1_share = resolve_penalty(model.penalty, model.C, model.l1_ratio)
    if l1_share and not math.isinf(C):
        raise ValueError(f"model: expected no L1 penalty, got l1_ratio={l1_share!r}")
    is_penalised = model.solver == "liblinear" and model.fit_intercept
    return 1.0 / C, (1.0 / C / model.intercept_scaling**2 if is_penalised else 0.0)


def _targets(model: Any, y: Any, n_rows: int) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"y: expected shape ({n_rows},), got {y.shape}")
    if not isinstance(model, LogisticRegression):
        targets = y.astype(np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y: expected finite numbers, got NaN or infinity")
        return targets
    unknown = np.setdiff1d(y, model.classes_)
    if len(unknown):
        raise ValueError(f"y: expected labels of {model.classes_.tolist()}, got {unknown[0]!r}")
    return (y == model.classes_[1]).astype(np.float64)


def _weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"sample_weight: expected {n_rows} finite numbers of at least 0")
    return weights


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
    farthest = float(np.max(steps / np.maximum(errors, np.finfo(np.float64).tiny)))
    if scale > 0.0 and not farthest <= _FARTHEST:
        raise ValueError(
            f"model: expected the minimum for these rows, got a coefficient {farthest:.2g} "
            "standard errors away from it: pass what it was fitted to, or fit with a smaller tol"
        )


def _names(model: Any) -> tuple[str, ...]:
    names = getattr(model, "feature_names_in_", None)
    own = [f"x{k}" for k in range(model.n_features_in_)] if names is None else map(str, names)
    return ("intercept", *own) if model.fit_intercept else tuple(own)
