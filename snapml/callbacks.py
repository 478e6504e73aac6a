"""Callbacks of the package's own, in scikit-learn's protocol (scikit-learn 1.9 or newer)."""

from __future__ import annotations

import copy
import math
import numbers
import warnings
from typing import Any

from sklearn.metrics import check_scoring

from snapml._validation import check_positive
from snapml.estimators.offsets import WithOffset

__all__ = ["EarlyStopping"]

# What scikit-learn keeps on an estimator during a fit; a model that is kept needs none of it.
_OF_FITS = (
    "_skl_callbacks",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
    "_skl_callbacks_to_teardown",
)


class EarlyStopping:
    """Ends a fit whose score on other rows has stopped to rise.

    Set by ``set_callbacks`` of one estimator at a time; each fit begins anew.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that are not trained on.
    y : array-like of shape (n_samples,)
        Their targets.
    scoring : str, callable or None, default=None
        As of scikit-learn; higher is better. None is the estimator's ``score``.
    patience : int, default=3
        Passes over the data without a better score after which the fit ends.
    min_delta : float, default=0.0
        By how much a score must exceed the best one to be better.
    offset : float or array-like of shape (n_samples,), default=None
        Of these rows, where the estimator is fitted with one.

    Attributes
    ----------
    scores_ : list of float
        One a pass over the data, of the last fit.
    best_score_ : float
        The highest of them, but for `min_delta`; -inf before a fit.
    best_estimator_ : estimator or None
        A fitted copy of the estimator with the model that has the best score. Its ``gap_`` is NaN
        where that model was not certified.

    Raises
    ------
    TypeError, ValueError
        If `scoring` is of another kind, `patience` is no integer above 0, or `min_delta` no number
        of at least 0.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegression
    >>> from snapml.callbacks import EarlyStopping
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> stopping = EarlyStopping(X[400:], y[400:], scoring="neg_log_loss", patience=2)
    >>> model = LogisticRegression().set_callbacks(stopping).fit(X[:400], y[:400])
    >>> max(stopping.scores_) == stopping.best_score_
    True
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        scoring: Any = None,
        patience: Any = 3,
        min_delta: float = 0.0,
        offset: Any = None,
    ) -> None:
        if isinstance(patience, bool) or not isinstance(patience, numbers.Integral) or patience < 1:
            raise ValueError(f"patience: expected an integer above 0, got {patience!r}")
        if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
            raise TypeError(f"scoring: expected a name, a callable or None, got {scoring!r}")
        self.X: Any = X
        self.y: Any = y
        self.offset: Any = offset
        self.scoring: Any = scoring
        self.patience = int(patience)
        self.min_delta: float = check_positive("min_delta", min_delta, allow_zero=True)
        self.scores_: list[float] = []
        self.best_score_ = -math.inf
        self.best_estimator_: Any = None
        self._n_worse, self._has_seen_pass = 0, False
        self._scorer: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin anew."""
        self.scores_, self._n_worse, self._has_seen_pass = [], 0, False
        self.best_score_, self.best_estimator_ = -math.inf, None
        self._scorer = check_scoring(estimator, self.scoring)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Score the model of a pass, and return whether the fit should end."""
        if context.task_name != "pass" or fitted_estimator is None:
            return False
        self._has_seen_pass = True
        judged = fitted_estimator
        if self.offset is not None:
            judged = WithOffset(judged, self.offset)
        score = float(self._scorer(judged, self.X, self.y))
        self.scores_.append(score)
        # NaN is below every number: a first model without a score is not kept for long.
        is_better = not score <= self.best_score_ + self.min_delta and not math.isnan(score)
        if is_better or self.best_estimator_ is None:
            self.best_score_, self._n_worse = score, 0
            self.best_estimator_ = _without_fit(fitted_estimator)
        else:
            self._n_worse += 1
        return self._n_worse >= self.patience

    def teardown(self, estimator: Any, context: Any) -> None:
        """Let go of the scorer, which may know the estimator."""
        self._scorer = None
        if not self._has_seen_pass:
            warnings.warn(
                f"EarlyStopping saw no pass of {type(estimator).__name__}, and best_estimator_ is "
                "None: the fit was solved directly, or it failed",
                UserWarning,
                stacklevel=2,
            )


def _without_fit(fitted_estimator: Any) -> Any:
    """Return a copy that does not know the fit it comes from."""
    kept = copy.copy(fitted_estimator)
    for name in _OF_FITS:
        vars(kept).pop(name, None)
    return kept
