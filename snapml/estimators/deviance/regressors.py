"""Counts and amounts: Poisson, Gamma, Tweedie and negative binomial regression."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np
import scipy.special
from sklearn.exceptions import ConvergenceWarning

from snapml.estimators.base import callers_level
from snapml.estimators.deviance.deviance_regressor import DevianceRegressor, Task
from snapml.estimators.deviance.families import (
    Family,
    GammaFamily,
    NegativeBinomialFamily,
    PoissonFamily,
    check_link,
    family_of_power,
    family_of_theta,
    increasing_root,
)
from snapml.estimators.placement import with_host_predictions

__all__ = [
    "GammaRegressor",
    "NegativeBinomialRegressor",
    "PoissonRegressor",
    "TweedieRegressor",
]

_MOST_ROUNDS = 50
_MOST_THETA = 1e5  # of an estimate


class PoissonRegressor(DevianceRegressor):
    """Poisson regression: counts whose mean is ``exp(x.w + b)``.

    Minimises half the mean deviance plus the penalty,

        ``sum_i s_i (mu_i - y_i log(mu_i) + y_i log(y_i) - y_i) / sum(s)
        + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``,

    ``mu_i = exposure_i exp(x_i.w + b + offset_i)``, with b free: with an L2 penalty and an
    intercept the means then add up to the counts. The distance from the minimum is certified [1]_.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, at least 0.
    l1_ratio : float, default=0.0
        Share of the L1 norm, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit b.
    solver : str, default='lbfgs'
        scikit-learn's names, and 'auto', let the data choose; 'pqn' is the quasi-Newton method,
        'sdca' coordinate ascent.
    max_iter : int, default=100
        Most reads of the data beyond the first.
    tol : float, default=1e-6
        Relative duality gap to stop at.
    warm_start : bool, default=False
        Whether to begin at the last fit's model.
    verbose : int, default=0
        1 logs the start and the end, 2 every read.
    random_state : int, RandomState or None, default=None
        Of orders and samples.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.
    deterministic : bool, default=True
        Whether equal fits give equal bits.
    device_ids : sequence of int or None, default=None
        GPUs to train on.
    memory_limit : int, 'auto' or None, default='auto'
        Bytes that the rows of a store may take in memory.
    max_time_s : float or None, default=None
        Seconds after which the best model so far is kept.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, in the dtype of X.
    intercept_ : float
        b; 0.0 without one.
    n_iter_ : int
        Reads of the data beyond the first.
    gap_ : float
        Certified bound on what ``objective_`` can be above its minimum; with ``alpha=0`` where
        ``existence_`` is 'proved', else an estimate.
    existence_ : {'proved', 'separated', 'unknown'}
        Only with ``alpha=0``: whether there is a maximum of the likelihood. A level without events
        has none.
    numerical_error_ : float
        Only with ``alpha=0``: no coefficient is farther from its maximum-likelihood value than so
        many of its standard errors (of a dispersion of 1); infinite unless ``existence_`` is
        'proved'.
    objective_ : float
        The objective above, evaluated in float64.
    history_ : list of dict
        Time, gap and objective of each read.
    solver_ : str
        What was run, and why.
    has_offset_ : bool
        Whether fit had an offset or exposure, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] docs/algorithms.md, sections 1.5 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import PoissonRegressor
    >>> X, counts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([1, 3, 7, 9])
    >>> model = PoissonRegressor(alpha=0, tol=1e-9).fit(X, counts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(4)
    array([2., 8.])
    """

    def _family(self) -> Family:
        return PoissonFamily()


class GammaRegressor(DevianceRegressor):
    """Gamma regression: positive amounts whose mean is ``exp(x.w + b)``.

    Minimises half the mean deviance plus the penalty,

        ``sum_i s_i (y_i / mu_i - log(y_i / mu_i) - 1) / sum(s)
        + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``,

    ``mu_i = exposure_i exp(x_i.w + b + offset_i)``, with b free. The distance from the minimum is
    certified.

    Parameters
    ----------
    alpha, l1_ratio, fit_intercept, solver, max_iter, tol, warm_start, verbose, random_state, \
n_threads, deterministic, device_ids, memory_limit, max_time_s : object
        As for `PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, existence_, numerical_error_, objective_, history_, \
solver_, has_offset_, n_features_in_, feature_names_in_ : object
        As for `PoissonRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import GammaRegressor
    >>> X, amounts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 30.0, 70.0, 90.0])
    >>> model = GammaRegressor(alpha=0, tol=1e-9).fit(X, amounts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(3)
    array([20., 80.])
    """

    def _family(self) -> Family:
        return GammaFamily()


class TweedieRegressor(DevianceRegressor):
    """Tweedie regression: targets whose variance is in proportion to ``mean^power``.

    Minimises half the mean deviance plus the penalty of `PoissonRegressor`, by the power:

    ==========  ==========================  =========================
    power       targets                     link by default
    ==========  ==========================  =========================
    0           any (normal)                identity: ``x.w + b``
    1           counts, rates (Poisson)     log: ``exp(x.w + b)``
    1 to 2      amounts of which many       log
                are 0 (compound Poisson)
    2           positive amounts (Gamma)    log
    ==========  ==========================  =========================

    The distance from the minimum is certified. scikit-learn's other powers, and other pairs of
    power and link, are refused: their objectives have several minima, or means that may be
    negative, so that nothing can be said of where a solver ends.

    Parameters
    ----------
    power : float, default=0.0
        0, or from 1 to 2.
    alpha : float, default=1.0
        Strength of the penalty, at least 0.
    l1_ratio : float, default=0.0
        Share of the L1 norm, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit b.
    link : {'auto', 'identity', 'log'}, default='auto'
        'identity' with power 0, 'log' with others.
    solver, max_iter, tol, warm_start, verbose, random_state, n_threads, deterministic, \
device_ids, memory_limit, max_time_s : object
        As for `PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, existence_, numerical_error_, objective_, history_, \
solver_, has_offset_, n_features_in_, feature_names_in_ : object
        As for `PoissonRegressor`.

    References
    ----------
    .. [1] docs/algorithms.md, section 1.1.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import TweedieRegressor
    >>> X, amounts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0, 40.0, 0.0, 160.0])
    >>> model = TweedieRegressor(power=1.5, alpha=0, tol=1e-9).fit(X, amounts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(3)
    array([20., 80.])
    """

    def __init__(
        self,
        *,
        power: float = 0.0,
        alpha: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        link: str = "auto",
        solver: str = "lbfgs",
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
            alpha=alpha,
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
        self.power = power
        self.link = link

    def _family(self) -> Family:
        given: Any = self.power
        if isinstance(given, bool) or not isinstance(given, Real):
            raise TypeError(f"power: expected a number, got {given!r}")
        power = float(given)
        family = family_of_power(power)
        why = "the deviance has several minima" if power == 0.0 else "means could be negative"
        check_link(family, self.link, ("auto", "identity", "log"), f"power {power:g}", why)
        return family


class NegativeBinomialRegressor(DevianceRegressor):
    """Negative binomial regression: counts that vary more than Poisson's, about ``exp(x.w + b)``.

    With the variance ``mu + theta mu^2`` it minimises half the mean deviance plus the penalty,

        ``sum_i s_i (y_i log(y_i / mu_i)
        - (y_i + 1 / theta) log((1 + theta y_i) / (1 + theta mu_i))) / sum(s)
        + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``,

    ``mu_i = exposure_i exp(x_i.w + b + offset_i)``, with b free. The distance from the minimum is
    certified. theta is given, or estimated by maximum likelihood as R's ``glm.nb`` does: model and
    theta take turns until theta stays; `gap_` then is that of the model at ``theta_``.

    Parameters
    ----------
    theta : float or 'estimate', default='estimate'
        How much counts vary beyond Poisson's, above 0: the ``alpha`` of statsmodels, one over the
        ``theta`` of R.
    alpha : float, default=1.0
        Strength of the penalty, at least 0.
    l1_ratio : float, default=0.0
        Share of the L1 norm, from 0 to 1.
    fit_intercept, solver, max_iter, tol, warm_start, verbose, random_state, n_threads, \
deterministic, device_ids, memory_limit, max_time_s : object
        As for `PoissonRegressor`; `max_iter` and `max_time_s` are those of one model.

    Attributes
    ----------
    theta_ : float
        What the model was fitted with.
    coef_, intercept_, n_iter_, gap_, existence_, numerical_error_, objective_, history_, \
solver_, has_offset_, n_features_in_, feature_names_in_ : object
        As for `PoissonRegressor`; of the last model.

    References
    ----------
    .. [1] Venables, Ripley: Modern Applied Statistics with S (2002), section 7.4.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import NegativeBinomialRegressor
    >>> X, counts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 4, 2, 14])
    >>> model = NegativeBinomialRegressor(theta=0.5, alpha=0, tol=1e-9).fit(X, counts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(3)
    array([2., 8.])
    """

    def __init__(
        self,
        *,
        theta: float | str = "estimate",
        alpha: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
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
            alpha=alpha,
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
        self.theta = theta

    def _family(self) -> Family:
        return family_of_theta(1.0 if self._is_estimated() else float(self.theta))

    def _fitted_family(self) -> Family:
        known = hasattr(self, "theta_")
        return NegativeBinomialFamily(self.theta_) if known else self._family()

    def _families(self, task: Task) -> Iterator[Family]:
        if not self._is_estimated():
            self.theta_ = float(self.theta)
            yield self._family()
            return
        exchange = self._communicator().exchange
        yield PoissonFamily()
        least = _least_theta(task, exchange)
        self.theta_ = _likeliest_theta(task, self._means_of(task), least, exchange)
        for _ in range(_MOST_ROUNDS):
            yield NegativeBinomialFamily(self.theta_)
            found = _likeliest_theta(task, self._means_of(task), least, exchange)
            if abs(found - self.theta_) <= 1e-7 * self.theta_:
                break
            self.theta_ = found
        else:
            warnings.warn(
                f"theta: not settled after {_MOST_ROUNDS} models, it is {self.theta_:g} now",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )
        if self.theta_ <= least:
            warnings.warn(
                f"theta: the estimate is {self.theta_:g}: the counts vary no more than Poisson's, "
                "and PoissonRegressor is their model",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )

    def _means_of(self, task: Task) -> np.ndarray:
        """Return the predictions of the rows that the model was just fitted to."""
        if not len(task.y):  # a rank without rows
            return task.y
        (X,) = with_host_predictions(task.X)
        return np.asarray(self.predict(X, offset=task.offsets), dtype=np.float64)

    def _is_estimated(self) -> bool:
        """Tell whether theta is to be found; refuse what is no theta."""
        theta: Any = self.theta
        if isinstance(theta, str) and theta == "estimate":
            return True
        if isinstance(theta, bool) or not isinstance(theta, Real):
            raise TypeError(f"theta: expected a number or 'estimate', got {theta!r}")
        return False


def _least_theta(task: Task, exchange: Callable[[Any], list[Any]]) -> float:
    """Return a theta with which counts vary as Poisson's: below it, slopes are rounding."""
    c = task.dataset.wide_weights
    own = float(c @ task.y), float(np.sum(c, dtype=np.float64))
    total, weight = np.sum(exchange(own), axis=0)
    return float(1e-5 / max(1.0, total / weight))


def _likeliest_theta(
    task: Task, means: np.ndarray, least: float, exchange: Callable[[Any], list[Any]]
) -> float:
    """Return the theta of the greatest likelihood of counts with these means, within its bounds.

    The slope of the log-likelihood in ``k = 1 / theta`` is
    ``sum c (psi(y + k) - psi(k) + log(k / (k + mu)) + (mu - y) / (k + mu))``.
    """
    y, c = task.y, task.dataset.wide_weights

    def slope(log_theta: float) -> float:
        k = math.exp(-log_theta)
        change = scipy.special.digamma(y + k) - scipy.special.digamma(k)
        own = change - np.log1p(means / k) + (means - y) / (k + means)
        return float(np.sum(exchange(float(c @ own))))

    if slope(math.log(least)) >= 0.0:
        return least
    if slope(math.log(_MOST_THETA)) <= 0.0:
        return _MOST_THETA
    return math.exp(increasing_root(slope, 0.0))
