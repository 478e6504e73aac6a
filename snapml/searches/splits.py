"""Folds of searches whose splitter metadata can be routed to."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from snapml._validation import is_routing_enabled

__all__ = ["RoutesToSplitter", "check_folds"]


class RoutesToSplitter:
    """Part of estimators that choose by folds, and by scores that need no scorer."""

    cv: Any

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where scikit-learn sends the metadata given to fit.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            To the splitter.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=check_cv(self.cv),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def _folds(
        self, y: np.ndarray, sample_weight: Any, params: dict[str, Any]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return numbers of the rows to fit to and to judge by, of each fold."""
        splitter, routed = check_cv(self.cv), {}
        if is_routing_enabled():
            given = {} if sample_weight is None else {"sample_weight": sample_weight}
            routed = process_routing(self, "fit", **given, **params).splitter.split
        return list(splitter.split(np.empty((len(y), 0)), y, **routed))


def check_folds(folds: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray | None) -> None:
    """Refuse folds that nothing can be fitted to, or judged by.

    Parameters
    ----------
    folds : list of (train, test)
        Row numbers, or masks.
    weights : ndarray of shape (n_samples,) or None
        Of all rows; None is one each.

    Raises
    ------
    ValueError
        If one has no rows, or none of positive weight, on either side.
    """
    for number, fold in enumerate(folds):
        for rows, what in zip(fold, ("to fit to", "left out"), strict=True):
            mask = np.asarray(rows)
            n_rows = int(np.count_nonzero(mask)) if mask.dtype == bool else mask.size
            if not n_rows:
                raise ValueError(
                    f"cv: expected rows {what} in each fold, got none in fold {number}"
                )
            if weights is not None and not weights[mask].sum() > 0.0:
                raise ValueError(
                    f"sample_weight: expected a positive one among the rows {what} in each fold, "
                    f"got none in fold {number}"
                )
