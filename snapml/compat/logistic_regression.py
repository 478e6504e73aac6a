"""Logistic regression under Snap ML's names."""

from __future__ import annotations

from typing import Any

import snapml
from snapml.compat.linear_classifier import LinearClassifier

__all__ = ["LogisticRegression"]


class LogisticRegression(LinearClassifier):
    """Logistic regression under Snap ML's names.

    Minimises ``regularizer/2 ||w||^2``, or ``regularizer ||w||_1``, plus the sum of losses. More
    than two classes are fitted one against the rest. Where a parameter means something else than
    in Snap ML, its description says so.

    Parameters
    ----------
    max_iter : int, default=1000
        Most reads of the data.
    regularizer : float, default=1.0
        Strength of the penalty; `snapml.LogisticRegression` has ``C = 1 / regularizer``.
    device_ids : list of int, default=()
        GPUs, where `use_gpu`; none means the first.
    verbose : bool, default=False
        Whether to log each read of the data.
    use_gpu : bool, default=False
        Whether to train on GPUs.
    class_weight : dict, 'balanced' or None, default=None
        Weights of classes.
    dual : bool, default=True
        Whether the intercept is penalised, as Snap ML's dual solver does. It is exact and free
        with ``dual=False``, where Snap ML has none. The solver follows the data in both cases.
    n_jobs : int, default=1
        Threads on the CPU.
    penalty : {'l2', 'l1'}, default='l2'
        ``'l1'`` needs ``dual=False``.
    tol : float, default=0.001
        Bound on the certified relative gap to the best objective, not on the change of the model;
        a fit that misses it warns.
    generate_training_history : {None, 'summary', 'full'}, default=None
        Whether to keep ``training_history_``.
    privacy : bool, default=False
        True is refused; `eta`, `batch_size`, `privacy_epsilon` and `grad_clip` have no effect.
    eta, batch_size, privacy_epsilon, grad_clip : float
        See `privacy`.
    fit_intercept : bool, default=False
        Whether to fit an intercept.
    intercept_scaling : float, default=1.0
        Value of the intercept's column where it is penalised. ``intercept_`` is what is added to
        margins, this factor included.
    normalize : bool, default=False
        Whether to standardise dense columns, or divide sparse ones by their largest entries, and
        then rows by their lengths.
    kernel : {'linear', 'rbf'}, default='linear'
        ``'rbf'`` maps rows by `sklearn.kernel_approximation.RBFSampler` first.
    gamma : float, default=1.0
        Of the kernel.
    n_components : int, default=100
        Of the kernel's map.
    random_state : int, RandomState instance or None, default=None
        Order of rows, and the kernel's map. None is a fixed seed.
    num_threads : int or None, default=None
        Former name of `n_jobs`; taken before it where given.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    n_iter_ : int
        Reads of the data, the most of all classes.
    support_ : ndarray, int32
        Columns with a coefficient, for ``penalty='l1'``.
    training_history_ : list of dict
        One, of all classes together, with ``epochs``, ``t_elap_sec`` and ``train_obj``: at the end
        for 'summary', lists of what was certified on the way for 'full'.
    estimator_ : snapml.LogisticRegression
        The fitted estimator, with its certificate and ``save``. With `normalize` or a kernel it
        takes rows that are scaled and mapped already, and so does what it saves.
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where the rows of the fit had such.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml.compat import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(regularizer=0.1, normalize=True, fit_intercept=True).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    """

    def __init__(
        self,
        max_iter: int = 1000,
        regularizer: float = 1.0,
        device_ids: Any = (),
        verbose: bool = False,
        use_gpu: bool = False,
        class_weight: Any = None,
        dual: bool = True,
        n_jobs: int = 1,
        penalty: Any = "l2",
        tol: float = 0.001,
        generate_training_history: str | None = None,
        privacy: bool = False,
        eta: float = 0.3,
        batch_size: int = 100,
        privacy_epsilon: float = 10,
        grad_clip: float = 1,
        fit_intercept: bool = False,
        intercept_scaling: float = 1.0,
        normalize: bool = False,
        kernel: Any = "linear",
        gamma: float = 1.0,
        n_components: int = 100,
        random_state: Any = None,
        num_threads: int | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.regularizer = regularizer
        self.device_ids = device_ids
        self.verbose = verbose
        self.use_gpu = use_gpu
        self.class_weight = class_weight
        self.dual = dual
        self.n_jobs = n_jobs
        self.penalty = penalty
        self.tol = tol
        self.generate_training_history = generate_training_history
        self.privacy = privacy
        self.eta = eta
        self.batch_size = batch_size
        self.privacy_epsilon = privacy_epsilon
        self.grad_clip = grad_clip
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.normalize = normalize
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state
        self.num_threads = num_threads

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> Any:
        """Return the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
        n_jobs : int or None, default=None
            Has no effect.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        return self._fitted().predict_proba(self._transformed(X))

    def predict_log_proba(self, X: Any, n_jobs: int | None = None) -> Any:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
        n_jobs : int or None, default=None
            Has no effect.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        return self._fitted().predict_log_proba(self._transformed(X))

    def _estimator(self, n_rows: int) -> Any:
        # The problem of that name: the intercept is one more column, penalised like any other.
        is_joint = self.dual and self.fit_intercept
        return snapml.LogisticRegression(
            C=1.0 / float(self.regularizer),
            l1_ratio=float(self.penalty == "l1"),
            solver="liblinear" if is_joint else "auto",
            intercept_scaling=self.intercept_scaling,
            class_weight=self.class_weight,
            multi_class="ovr",
            **self._common(),
        )
