"""What is known of a fitted model's coefficients, and the table that shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Inference"]


@dataclass(frozen=True)
class Inference:
    """What is known of a fitted model's coefficients; the intercept, where there is one, is first.

    Attributes
    ----------
    names : tuple of str
        Of the coefficients: "intercept" ("(intercept)" where a column is called so), and those of
        the columns of X, or x0, x1, ...
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
        Degrees of freedom of the residuals that `scale` was told by; infinite where it was not.
    scale : float
        Dispersion: the variance of the residuals of least squares, 1 for logistic regression.
    n_rows : float
        Rows, or their weights added up.
    penalty : float
        Strength of the L2 penalty beside the log-likelihood, or beside half the sum of squares.
    model : str
        Name of the class.
    n_parameters : float
        tr M of docs/statistics.md: without a penalty the number of coefficients.
    log_likelihood : float
        Of the labels; of targets with the normal law of the variance that makes it largest; of
        counts and amounts at the dispersion `scale`, NaN for Tweedie's, which is a series.
    null_log_likelihood : float
        Of the model that has the intercept (where this one has one) and the offset only.
    r_squared : float
        Share of the null model's deviance that is explained, which is a sum of squares for least
        squares; McFadden's for logistic regression.
    measure : str
        What `r_squared` is called.
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
    measure: str = "R^2"

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
        has_df = math.isfinite(self.residual_df)
        left = [
            ("Model", self.model),
            ("Rows", f"{self.n_rows:.10g}"),
            ("Parameters", f"{self.n_parameters:.6g}"),
            ("Residual df", f"{self.residual_df:.6g}" if has_df else ""),
            ("L2 penalty", f"{self.penalty:.4g}"),
        ]
        right = [
            (self.measure, f"{self.r_squared:.4f}"),
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
