"""The softmax's quadratic model on coefficients of all classes together, and its minimiser."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from snapml.problems import Intercept, Penalty
from snapml.solvers.columns.cpu_gram_model import minimise_on_gram
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.quadratic_model import Model

__all__ = ["Coordinates", "SoftmaxModel"]

_CHUNK_ENTRIES = 1_000_000  # of rows scaled by probabilities: stay in the processor's cache


class Coordinates:
    """Some coefficients of the softmax: a class and a column each.

    Parameters
    ----------
    is_chosen : ndarray of shape (n_classes, n_features + 1), bool
        Which. Free intercepts are never among them: the model is minimised over all of these.
    """

    def __init__(self, is_chosen: np.ndarray) -> None:
        self.classes, self.columns = np.nonzero(is_chosen)

    def __len__(self) -> int:
        return len(self.classes)

    def of(self, matrix: np.ndarray) -> np.ndarray:
        """Return the entries of a matrix of shape (n_classes, n_features + 1)."""
        return matrix[self.classes, self.columns]


class SoftmaxModel:
    """The loss to second order at an engine's present point, on some coordinates.

    Parameters
    ----------
    engine : PrimalEngine
        At the point.
    communicator : Communicator
        Adds up over the shards.
    coordinates : Coordinates
        Which coefficients may move, besides free intercepts.
    gradient : ndarray of shape (n_classes, n_features + 1), float64
        Of the loss, over all shards.
    damping : float
        Share of equal probabilities mixed into those that the curvature is made from. Where the
        classes are nearly separated few rows are curved, and the model promises far too much.
    """

    def __init__(
        self,
        engine: PrimalEngine,
        communicator: Communicator,
        coordinates: Coordinates,
        gradient: np.ndarray,
        damping: float,
    ) -> None:
        n_classes, n_rows = engine.n_outputs, engine.n_rows
        self._coordinates, self._communicator = coordinates, communicator
        self._has_free = engine.problem.intercept is Intercept.FREE
        p = engine.curvatures()
        weights = np.broadcast_to(engine.row_weights(np.arange(n_rows)), n_rows)
        chosen = p[engine.labels(np.arange(n_rows)).astype(np.int64), np.arange(n_rows)]
        chosen = np.maximum(chosen, np.finfo(np.float64).tiny)
        # sum_i c_i g_i^T H_i^+ g_i with g_i = p - e_y: what the model could gain at most.
        residual_sq = np.array([float(weights @ ((1.0 - chosen) / chosen))])
        self._residual_sq = float(communicator.allreduce_sum(residual_sq)[0])
        rows = _Rows(engine, weights, (1.0 - damping) * p + damping / n_classes)
        classes, columns = coordinates.classes, coordinates.columns
        self._slopes = coordinates.of(gradient)
        if self._has_free:
            self._mean = rows.means(communicator)[columns]
            self._slopes = self._slopes - self._mean * gradient[classes, -1]
            centre = np.append(self._mean, np.zeros(n_classes))
            classes = np.append(classes, np.arange(n_classes))
            columns = np.append(columns, np.full(n_classes, engine.n_features))
        else:
            centre = np.zeros(len(columns))
        self._gram = communicator.allreduce_sum(rows.gram(classes, columns, centre))
        if self._has_free:
            self._eliminate(gradient[:, -1])

    def _eliminate(self, slopes: np.ndarray) -> None:
        """Minimise over the free intercepts: what is left is the Gram's Schur complement."""
        n = len(self._coordinates)
        block, cross = self._gram[n:, n:].copy(), self._gram[n:, :n]
        # All intercepts moved alike change nothing: any curvature in that direction will do.
        block += np.trace(block) / len(block) ** 2
        inverse = np.linalg.pinv(block, hermitian=True)
        self._bias_step, self._bias_map = -inverse @ slopes, -inverse @ cross
        self._slopes = self._slopes + cross.T @ self._bias_step
        self._gram = self._gram[:n, :n] + cross.T @ self._bias_map

    def minimise(self, coef: np.ndarray, penalty: Penalty, target: float) -> np.ndarray:
        """Return where the model with the penalty is least, to within about `target`.

        Parameters
        ----------
        coef : ndarray of shape (n_classes, n_features + 1), float64
            The present point.
        penalty : Penalty
            R.
        target : float
            Duality gap of the model that is small enough.

        Returns
        -------
        ndarray of shape (n_classes, n_features + 1), float64
            The point.
        """
        model = _Reduced(self._slopes, self._residual_sq, penalty, self._communicator)
        before, found = self._coordinates.of(coef), coef.copy()
        gram = np.ascontiguousarray(self._gram)
        after = minimise_on_gram(gram, model, before, target, most_settled=len(gram))
        found[self._coordinates.classes, self._coordinates.columns] = after
        if self._has_free:
            step = after - before
            moved = np.bincount(self._coordinates.classes, self._mean * step, len(coef))
            found[:, -1] += self._bias_step + self._bias_map @ step - moved
        return found


class _Reduced(Model):
    """A model whose rows are not at hand, only the most that it could gain from them."""

    def __init__(
        self,
        slopes: np.ndarray,
        residual_sq: float,
        penalty: Penalty,
        communicator: Communicator,
    ) -> None:
        none = np.empty(0)
        super().__init__(slopes, none, none, penalty, communicator=communicator)
        self._residual_sq = residual_sq

    @property
    def residual_sq(self) -> float:
        return self._residual_sq


class _Rows:
    """A shard's rows with the probabilities that their curvatures are made from."""

    def __init__(self, engine: PrimalEngine, weights: np.ndarray, p: np.ndarray) -> None:
        self._rows = engine.host_rows()
        self._bias_column = engine.bias_column
        self._weights, self._p = weights, p
        # 1 - p_k without its cancellation: where all rows are nearly certain it is all there is.
        self._others = np.array([np.delete(p, k, axis=0).sum(axis=0) for k in range(len(p))])

    def means(self, communicator: Communicator) -> np.ndarray:
        """Return the columns' means under the rows' curvatures: less them, products keep digits."""
        h = self._weights * (self._p * self._others).sum(axis=0)
        sums = np.append(np.asarray(self._rows.T @ h, dtype=np.float64), (0.0, h.sum()))
        sums = communicator.allreduce_sum(sums)
        return np.asarray(sums[:-1] / max(float(sums[-1]), np.finfo(np.float64).tiny))

    def gram(self, classes: np.ndarray, columns: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Return sum_i c_i x_ij x_im p_ik ([k = l] - p_il) for coordinates (k, j) and (l, m)."""
        gram = np.zeros((len(classes), len(classes)))
        own = [np.flatnonzero(classes == k) for k in range(len(self._p))]
        within = [np.zeros((len(at), len(at))) for at in own]
        step = max(64, _CHUNK_ENTRIES // max(1, len(classes)))
        for first in range(0, self._p.shape[1], step):
            chunk = slice(first, first + step)
            x = self._columns(chunk, columns) - centre
            scaled = x * self._p[classes, chunk].T
            weighted = self._weights[chunk, None] * scaled
            gram -= weighted.T @ scaled
            for k, at in enumerate(own):
                others = self._others[k, chunk, None] * x[:, at]
                within[k] += weighted[:, at].T @ others
        for at, block in zip(own, within, strict=True):
            gram[np.ix_(at, at)] = block
        return gram

    def _columns(self, chunk: slice, columns: np.ndarray) -> np.ndarray:
        """Return columns of some rows in float64, the one behind the last the intercept's."""
        rows = self._rows[chunk]
        is_own = columns < rows.shape[1]
        out = np.full((rows.shape[0], len(columns)), self._bias_column)
        taken = rows[:, columns[is_own]]
        out[:, is_own] = taken.toarray() if isinstance(taken, csr_matrix) else taken
        return out
