"""Linear support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml._validation import (
    check_classes,
    check_finite_in,
    check_positive,
    check_sample_weight,
)
from snapml.data import Dataset, Matrix
from snapml.estimators.base import LinearClassifier, all_or_nothing
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.placement import fit_input
from snapml.problems import Hinge, Intercept, Penalty, Problem, SquaredHinge

__all__ = ["LinearSVC"]

_SOLVERS = ("auto", "sdca", "pqn")
_LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}


class LinearSVC(CallbackSupport, LinearClassifier):
    """Linear support vector classifier; one model per class beyond two.

    Minimises ``sum_i c_i l(y_i (x_i.w + b)) + (||w||^2 + w_b^2) / 2`` (or the L1 norm) with
    ``c_i = C * sample_weight_i * class_weight(y_i)`` and ``b = intercept_scaling * w_b``, the
    objective of scikit-learn's class, where ``l`` is ``max(0, 1 - m)`` or its square. The solver
    follows the data: dual coordinate ascent [1]_, a quasi-Newton method (on rounded hinges), or
    working sets with the L1 norm; always with a certified duality gap.

    Parameters
    ----------
    penalty : {'l1', 'l2'}, default='l2'
        ``||w||^2 / 2``, or ``||w||_1`` with the squared hinge.
    loss : {'hinge', 'squared_hinge'}, default='squared_hinge'
        The loss l.
    dual : 'auto' or bool, default='auto'
        Accepted for scikit-learn's sake; the answer is the same.
    tol : float, default=1e-5
        Stop once the certified duality gap is at most `tol` times the objective.
    C : float, default=1.0
        Inverse of the regularisation strength, positive and finite.
    multi_class : {'ovr'}, default='ovr'
        More than two classes: one against the rest, for each.
    fit_intercept : bool, default=True
        Whether to fit b. As in scikit-learn it is penalised.
    intercept_scaling : float, default=1
        Value of the intercept's constant column: the larger, the weaker its penalty.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' gives every class the same total weight. With more
        than two classes a class's weight counts in its own model only, as in scikit-learn.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
    max_iter : int, default=1000
        Most reads of the data.
    solver : {'auto', 'sdca', 'pqn'}, default='auto'
        'auto' chooses by the data and says why in ``solver_``; 'sdca' is dual coordinate ascent,
        'pqn' the quasi-Newton method, on smoothed hinges with ``loss='hinge'``.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits. If False, threads on sparse data
        update one vector without waiting for each other; the certificate holds all the same.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on. X of the
        host is copied there once, a part of its rows to each.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : ndarray of shape (1,) or (n_classes,)
        b.
    classes_ : ndarray of shape (n_classes,)
        Labels; with two, ``coef_`` points to the second.
    gap_ : float
        Certified duality gap, summed over the models.
    objective_ : float
        Value of the objective, summed over the models, evaluated in float64.
    n_iter_ : int
        Reads of the data, of the model that took most.
    history_ : list of dict
        One entry per epoch, iteration or stage: ``epoch``, ``time_s``, ``running_gap`` (an
        estimate), and ``gap`` and ``objective`` (NaN where no exact pass was made).
    solver_ : str
        What was run, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Hsieh, Chang, Lin, Keerthi and Sundararajan, "A dual coordinate descent method for
       large-scale linear SVM", ICML 2008; docs/algorithms.md, sections 1, 8, 11
       and 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from snapml import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> LinearSVC().fit(X, y).coef_.shape
    (3, 4)
    """

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: Any = "auto",
        tol: float = 1e-5,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVC:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout. On a GPU: a CuPy,
            PyTorch or JAX array, a cuDF frame, a CSR or CSC matrix of ``cupyx.scipy.sparse``, or
            anything else with DLPack or ``__cuda_array_interface__``; trained there. Or a
            `ChunkedDataset`, or the path of one: its rows stream past. Or any other source that
            `snapml.io.convert` takes: a file, a folder of Parquet files, an Arrow stream or an
            iterator of batches, written first to a store in the temporary folder (``TMPDIR``) that
            is gone after the fit.
        y : array-like of shape (n_samples,)
            Labels; None takes those that X brings along;
            a text or number names their column in a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        NotImplementedError
            For ``multi_class='crammer_singer'``.
        """
        problem = self._make_problem()
        cost = check_positive("C", self.C)
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y)
        exchange = self._communicator().exchange
        weights = check_sample_weight(sample_weight, matrix, exchange)
        classes = self.classes_ = check_classes(self, y, exchange)
        check_finite_in("C", cost, matrix.dtype)
        dataset = self._dataset(matrix, y, classes, weights, cost)
        result = self._run(X, problem, dataset, rule, solver=self.solver)
        n_outputs = 1 if len(classes) == 2 else len(classes)
        self.coef_ = result.coef.reshape(n_outputs, -1)
        self.intercept_ = np.array(result.intercept, dtype=matrix.dtype).reshape(n_outputs)
        self.n_iter_ = result.n_iter
        self._store_certificate([result])
        return self

    def _dataset(
        self,
        matrix: Matrix,
        y: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray | None,
        cost: float,
    ) -> Dataset:
        """Return rows, labels and weights of one class against the rest, or against the other."""
        factors = self._class_factors(y, classes, weights)
        labels = np.where(y == classes[:, None], 1.0, -1.0).astype(matrix.dtype)
        if len(classes) == 2:
            row_weights = self._row_weights(cost, y, factors, weights, matrix.dtype)
            return Dataset(matrix, labels[1], row_weights, cost)
        row_weights = self._weights_of_each(cost, y, classes, factors, weights, matrix.dtype)
        return Dataset(matrix, labels, row_weights, cost)

    def _weights_of_each(
        self,
        cost: float,
        y: np.ndarray,
        classes: np.ndarray,
        factors: dict[Any, float] | None,
        weights: np.ndarray | None,
        dtype: np.dtype,
    ) -> np.ndarray | None:
        """Return the row weights of one model per class.

        As in liblinear, a class's weight counts where the class is the positive one; the rest
        against it has weight one.
        """
        if factors is None:
            return self._row_weights(cost, y, None, weights, dtype)
        rows = [
            self._row_weights(cost, y, {label: factors[label]}, weights, dtype)
            for label in classes.tolist()
        ]
        return np.array(rows, dtype=dtype)

    def _make_problem(self) -> Problem:
        """Map the parameters to the objective, refusing what cannot be solved yet."""
        self._checked_devices()
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        if self.loss not in _LOSSES:
            raise ValueError(f"loss: expected one of {tuple(_LOSSES)}, got {self.loss!r}")
        if self.penalty not in ("l1", "l2"):
            raise ValueError(f"penalty: expected 'l1' or 'l2', got {self.penalty!r}")
        if self.penalty == "l1" and self.loss == "hinge":
            raise ValueError(
                f"Unsupported set of arguments: penalty='l1', loss='hinge', dual={self.dual}: use "
                "loss='squared_hinge'"
            )
        if self.multi_class == "crammer_singer":
            raise NotImplementedError(
                "multi_class='crammer_singer': this version solves 'ovr' only; "
                "sklearn.svm.LinearSVC solves it"
            )
        if self.multi_class != "ovr":
            raise ValueError(f"multi_class: expected 'ovr', got {self.multi_class!r}")
        loss = _LOSSES[self.loss]
        penalty = Penalty(1.0, 0.0) if self.penalty == "l1" else Penalty()
        if not self.fit_intercept:
            return Problem(loss, penalty=penalty)
        return Problem(loss, Intercept.PENALISED, self._checked_scaling(), penalty)
