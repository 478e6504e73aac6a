"""Models of a wave of fits, put together: a fit has one column, or one for each class.

The columns of a multinomial model stand side by side in a solve, and under one another where models
of one path are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapml.searches.shared.models import SharedModel
from snapml.solvers.many.many_models import ManyResult

__all__ = ["FitColumn", "FoundModels", "side_by_side", "stacked"]


@dataclass(frozen=True)
class FitColumn:
    """One model of a solve: a fit's, or one of its classes against the rest."""

    C: float
    weights: int
    labels: int


class FoundModels:
    """What waves have found, put together fit by fit.

    Parameters
    ----------
    fits : list of list of FitColumn
        The columns of each fit.
    """

    def __init__(self, fits: list[list[FitColumn]]) -> None:
        self._parts: list[dict[int, SharedModel]] = [{} for _ in fits]
        self._n_parts = [len(fit) for fit in fits]

    def add(
        self, wave: list[tuple[int, int]], result: ManyResult, kept: list[np.ndarray | None]
    ) -> None:
        """Take in the models that have come to their end."""
        n_outputs = result.vectors.shape[1] // len(wave)
        for k, (at, part) in enumerate(wave):
            if not result.has_converged[k]:
                continue
            own = k if n_outputs == 1 else slice(k * n_outputs, (k + 1) * n_outputs)
            vectors, margins, rows = result.vectors[:, own], result.margins[:, own], kept[k]
            self._parts[at][part] = SharedModel(
                vectors[:-1].T.copy(),
                float(vectors[-1]) if n_outputs == 1 else vectors[-1].copy(),
                margins.copy() if rows is None else margins[rows],
                int(result.n_products[k]),
                rows=rows,
            )

    def models(self) -> list[SharedModel | None]:
        """Return the models of all fits, None where a part is missing."""
        return [
            _joined(parts) if 0 < n_parts == len(parts) else None
            for parts, n_parts in zip(self._parts, self._n_parts, strict=True)
        ]


def _joined(parts: dict[int, SharedModel]) -> SharedModel:
    """Return one model of classes that were fitted each against the rest."""
    models = [parts[part] for part in range(len(parts))]
    if len(models) == 1:
        return models[0]
    return SharedModel(
        np.array([model.coef for model in models]),
        np.array([model.intercept for model in models]),
        np.column_stack([model.margins for model in models]),
        max(model.n_products for model in models),
        rows=models[0].rows,
    )


def stacked(vectors: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return vectors of one column a model, from those of one a model and class."""
    if n_outputs == 1:
        return vectors
    n_numbers, n_columns = vectors.shape
    whole = vectors.reshape(n_numbers, n_columns // n_outputs, n_outputs)
    return whole.transpose(0, 2, 1).reshape(n_numbers * n_outputs, -1)


def side_by_side(stacked: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return vectors of one column a model and class: `stacked` backwards."""
    if n_outputs == 1:
        return stacked
    whole = stacked.reshape(len(stacked) // n_outputs, n_outputs, -1)
    return whole.transpose(0, 2, 1).reshape(len(whole), -1)
