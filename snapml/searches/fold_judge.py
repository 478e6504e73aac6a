"""How well models of a fold do on the rows that it leaves out."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, make_scorer

from snapml._lazy import cached_property
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.offsets import WithOffset
from snapml.searches.shared.fold_rows import FoldRows, Judge, rows_of
from snapml.searches.shared.models import SharedModel, fitted

__all__ = ["FoldJudge"]


class FoldJudge:
    """Scores models on some rows.

    Parameters
    ----------
    rows : FoldRows
        Of the search.
    test : ndarray of shape (n_test,), int
        Row numbers.
    y : ndarray of shape (n_samples,)
        Labels of all rows.
    classes : ndarray of shape (n_classes,)
        Labels that occur, in order.
    scorer : callable
        Of estimators, rows and labels.
    params : dict
        For the scorer: what has as many rows as the data is cut to those in question.
    offset : ndarray of shape (n_samples,) or None
        Of all rows.
    """

    def __init__(
        self,
        rows: FoldRows,
        test: np.ndarray,
        y: np.ndarray,
        classes: np.ndarray,
        scorer: Any,
        params: dict[str, Any],
        offset: np.ndarray | None,
    ) -> None:
        self._rows, self._test, self._y, self._classes = rows, test, y[test], classes
        self._scorer = _knowing_all_classes(scorer, classes)
        self._params = {name: rows_of(value, test, len(y)) for name, value in params.items()}
        self._offset = None if offset is None else offset[test]
        self._is_accuracy = _is_plain_accuracy(scorer) and set(params) <= {"sample_weight"}

    def score(self, model: LogisticRegression, shared: SharedModel | None = None) -> float:
        """Return what the scorer says.

        Parameters
        ----------
        model : LogisticRegression
            That predicts.
        shared : SharedModel or None, default=None
            What it was found as.

        Returns
        -------
        float
            Of the rows left out.
        """
        seen, rows = self._show(model, shared)
        if self._offset is not None:
            seen = WithOffset(seen, self._offset)
        score: float = self._scorer(seen, rows, self._y, **self._params)
        return score

    def score_shared(self, model: LogisticRegression, shared: SharedModel) -> float:
        """Return what the scorer says of a model that a shared solve has found.

        scikit-learn's accuracy needs no estimator where margins are known: checks of its labels,
        and of the rows, take several times as long as a small fit.

        Parameters
        ----------
        model : LogisticRegression
            With its parameters, unfitted.
        shared : SharedModel
            Its model.

        Returns
        -------
        float
            Of the rows left out.
        """
        margins = shared.margins_of(self._test) if self._is_accuracy else None
        if margins is None:
            return self.score(fitted(model, shared, self._classes), shared)
        predicted = margins > 0 if margins.ndim == 1 else margins.argmax(axis=1)
        is_right = predicted == self._labels
        return float(np.average(is_right, weights=self._params.get("sample_weight")))

    @cached_property
    def _show(self) -> Judge:
        return self._rows.judge_of(self._test)  # which may copy rows

    @cached_property
    def _labels(self) -> np.ndarray:
        return np.searchsorted(self._classes, self._y)


def _is_plain_accuracy(scorer: Any) -> bool:
    if getattr(scorer, "_score_func", None) is not accuracy_score or scorer._kwargs:
        return False
    return bool(scorer._sign == 1 and scorer._response_method == "predict")


def _knowing_all_classes(scorer: Any, classes: np.ndarray) -> Any:
    """Return the scorer, told of classes that a fold's rows may lack."""
    function = getattr(scorer, "_score_func", None)
    if function is None or "labels" not in inspect.signature(function).parameters:
        return scorer
    more = {"labels": classes, **scorer._kwargs}
    if len(classes) == 2 and "pos_label" in inspect.signature(function).parameters:
        more["pos_label"] = classes[1]
    return make_scorer(
        function,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **more,
    )
