"""Generalized linear models by the names of their families and links."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from snapml.estimators.deviance.deviance_regressor import DevianceRegressor
from snapml.estimators.deviance.families import (
    BINOMIAL_LOSSES,
    BinomialFamily,
    Family,
    GammaFamily,
    NormalFamily,
    PoissonFamily,
    check_link,
    family_of_power,
    family_of_theta,
)

__all__ = ["GeneralizedLinearRegressor"]

_PLAIN: dict[str, Callable[[], Family]] = {
    "normal": NormalFamily,
    "gaussian": NormalFamily,
    "binomial": BinomialFamily,
    "poisson": PoissonFamily,
    "gamma": GammaFamily,
}
# Families with a number, and that number where none is given.
_NUMBERED: dict[str, tuple[float, Callable[[float], Family]]] = {
    "tweedie": (1.5, family_of_power),
    "negative.binomial": (1.0, family_of_theta),
}
_NUMBER = re.compile(r"([a-z.]+?)\s*\(\s*([0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?)\s*\)")


class GeneralizedLinearRegressor(DevianceRegressor):
    """Regression of a family of targets, by glum's names of parameters.

    Minimises half the mean deviance plus the penalty of `PoissonRegressor`. The distance from the
    minimum is certified.

    Parameters
    ----------
    family : str, default='normal'
        'normal' (or 'gaussian'), 'binomial' (targets 0 and 1), 'poisson', 'gamma',
        'negative.binomial' or 'negative.binomial (0.7)' with theta, 1 where it is left out,
        'tweedie' or 'tweedie (1.7)' with the power, 1.5 where it is left out.
    link : {'auto', 'identity', 'log', 'logit', 'probit', 'cloglog'}, default='auto'
        That of the family: 'identity' for normal targets, 'logit' for binomial ones, 'log' for
        others. Binomial targets take 'probit' and 'cloglog' too; no other pair is fitted.
    alpha : float or None, default=None
        Strength of the penalty, at least 0; None is 0.
    l1_ratio : float, default=0.0
        Share of the L1 norm, from 0 to 1.
    fit_intercept, solver, max_iter, tol, warm_start, verbose, random_state, n_threads, \
deterministic, device_ids, memory_limit, max_time_s : object
        As for `PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, existence_, numerical_error_, objective_, history_, \
solver_, has_offset_, n_features_in_, feature_names_in_ : object
        As for `PoissonRegressor`.

    References
    ----------
    .. [1] docs/algorithms.md, sections 1.1 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import GeneralizedLinearRegressor
    >>> X, counts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([1, 3, 7, 9])
    >>> model = GeneralizedLinearRegressor(family="poisson", tol=1e-9).fit(X, counts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(4)
    array([2., 8.])
    >>> model.existence_
    'proved'
    """

    def __init__(
        self,
        *,
        family: str = "normal",
        link: str = "auto",
        alpha: float | None = None,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        super().__init__(
            alpha=alpha,  # type: ignore[arg-type]
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
            n_threads=n_threads,
            deterministic=deterministic,
            device_ids=device_ids,
            memory_limit=memory_limit,
            max_time_s=max_time_s,
        )
        self.family = family
        self.link = link

    def _family(self) -> Family:
        family = _family_of(self.family)
        is_named = isinstance(self.link, str) and self.link in BINOMIAL_LOSSES
        if is_named and isinstance(family, BinomialFamily):
            return BinomialFamily(self.link)
        known, beside = ("auto", "identity", "log", *BINOMIAL_LOSSES), f"family={self.family!r}"
        check_link(family, self.link, known, beside, "no other is certified")
        return family

    def _strength(self) -> Any:
        return 0.0 if self.alpha is None else self.alpha


def _family_of(name: Any) -> Family:
    """Return the family of a name, which may bring a number in brackets."""
    if isinstance(name, str):
        given = _NUMBER.fullmatch(name.strip())
        plain = given[1] if given else name.strip()
        if plain in _PLAIN and not given:
            return _PLAIN[plain]()
        if plain in _NUMBERED:
            default, of_number = _NUMBERED[plain]
            return of_number(float(given[2]) if given else default)
    known = (*_PLAIN, *(f"{each} (number)" for each in _NUMBERED))
    raise ValueError(f"family: expected one of {known}, got {name!r}")
