"""What rows are fitted to: a loss, its labels and offsets, and models in Spark's terms again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from snapml.data import ChunkedMatrix, Matrix
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FamilyName, FitRequest
from snapml.estimators.deviance.families import (
    BinomialFamily,
    Family,
    GammaFamily,
    NormalFamily,
    PoissonFamily,
    family_of_power,
)
from snapml.problems import Hinge, Logistic, Loss, Softmax, Squared
from snapml.solvers.communicator import Communicator
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_rows import margins

__all__ = ["Targets", "family_of", "targets_of"]

_FAMILIES: dict[str, Callable[[], Family]]
_FAMILIES = {
    "gaussian": NormalFamily,
    "poisson": PoissonFamily,
    "gamma": GammaFamily,
}


@dataclass(frozen=True)
class Targets:
    """The targets of a task's rows.

    Attributes
    ----------
    loss : Loss
        Of margins and labels.
    labels : ndarray of shape (n_rows,), float64
        As the loss takes them.
    offsets : ndarray of shape (n_rows,), float64, or None
        Of the loss's margins.
    family : Family or None
        Whose deviance the loss is; None of the other models.
    fixed : ndarray of shape (n_rows,), float64, or None
        Offsets of the margins of a family's model.
    level : float
        Intercept of the family's best model without columns, at which margins begin.
    """

    loss: Loss
    labels: np.ndarray
    offsets: np.ndarray | None = None
    family: Family | None = None
    fixed: np.ndarray | None = None
    level: float = 0.0

    @property
    def sign(self) -> float:
        """Of the model's margins to the loss's."""
        return 1.0 if self.family is None else self.family.sign

    def mean_curvature(self, shares: np.ndarray, moved: np.ndarray, group: Communicator) -> float:
        """Return the mean working weight of the rows, at which Spark's penalty is measured.

        Spark's iteratively reweighted least squares divide their sums by that of the working
        weights ``w (dmu/deta)^2 / V(mu)``: where they end, `regParam` is that of an objective whose
        penalty is multiplied by their mean.

        Parameters
        ----------
        shares : ndarray of shape (n_rows,)
            Weights of the rows; those of all tasks add up to 1.
        moved : ndarray of shape (n_rows,), float64
            How far the model's margins are from `level` and the offsets.
        group : Communicator
            The tasks.

        Returns
        -------
        float
            1 without a family.
        """
        if self.family is None or self.fixed is None:
            return 1.0
        means = self.family.means(self.fixed + self.level + moved)
        return float(sum(group.exchange(float(shares @ self.family.working_weights(means)))))

    def moved(self, matrix: Matrix, result: FitResult, n_threads: int) -> np.ndarray:
        """Return what a model of the loss adds to margins.

        Parameters
        ----------
        matrix : Matrix
            The rows.
        result : FitResult
            The model.
        n_threads : int
            Threads to use.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            Of the family's model.
        """
        chunks = [matrix]
        if isinstance(matrix, ChunkedMatrix):
            chunks = [chunk for _, chunk in matrix.chunks()]
        coef, intercept = np.ravel(result.coef), float(np.ravel(result.intercept)[0])
        found = [margins(chunk, coef, intercept, n_threads) for chunk in chunks]
        return self.sign * np.concatenate(found)


def family_of(asked: FamilyName) -> Family:
    """Return a family by Spark's name.

    Parameters
    ----------
    asked : FamilyName
        With a link that it is fitted with.

    Returns
    -------
    Family
        With that link.
    """
    if asked.name == "tweedie":
        return family_of_power(asked.power)
    return BinomialFamily(asked.link) if asked.name == "binomial" else _FAMILIES[asked.name]()


def targets_of(
    request: FitRequest, n_classes: int, rows: LocalRows, shares: np.ndarray, group: Communicator
) -> Targets:
    """Return the targets of a request.

    Parameters
    ----------
    request : FitRequest
        What to fit.
    n_classes : int
        Of the labels; 0 where they are numbers.
    rows : LocalRows
        Of this task.
    shares : ndarray of shape (n_rows,)
        Weights of the rows; those of all tasks add up to 1.
    group : Communicator
        The tasks.

    Returns
    -------
    Targets
        With the softmax loss for family 'multinomial', whatever the number of classes.

    Raises
    ------
    ValueError
        If labels are none of the family; on all tasks.
    """
    labels = rows.labels()
    if request.model == "glm":
        return _targets_of_family(request, rows, labels, shares, group)
    if request.model == "linear":
        return Targets(Squared(), labels)
    if request.model == "svm":
        return Targets(Hinge(), 2.0 * labels - 1.0)
    if request.model == "multinomial" or (request.model == "logistic" and n_classes > 2):
        return Targets(Softmax(n_classes), labels)
    return Targets(Logistic(), 2.0 * labels - 1.0)


def _targets_of_family(
    request: FitRequest,
    rows: LocalRows,
    labels: np.ndarray,
    shares: np.ndarray,
    group: Communicator,
) -> Targets:
    family, level = family_of(request.family), 0.0
    given = rows.offsets()
    fixed = np.zeros(len(labels)) if given is None else given
    try:
        family.check(labels, group.exchange)
        if request.fit_intercept:
            level = family.level(labels, shares, fixed, group.exchange)
    except ValueError as error:
        raise ValueError(
            f"labelCol={request.label_col!r} with family={request.family.name!r}: {error}"
        ) from error
    own, offsets = family.rows(labels, fixed + level)
    return Targets(family.loss, own, offsets, family, fixed, level)
