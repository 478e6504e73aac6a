"""Logistic regression that chooses its penalty by cross-validation."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed

from snapml._validation import (
    check_classes,
    check_positive,
    check_sample_weight,
    is_routing_enabled,
    raise_for_routed_params,
)
from snapml.data import ChunkedDataset, ChunkedMatrix, Matrix
from snapml.estimators.base import all_or_nothing, callers_level
from snapml.estimators.fit_call import as_part
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.offsets import WithOffset, check_offset, check_two_classes
from snapml.estimators.placement import fit_input, with_host_predictions
from snapml.estimators.row_sources import is_row_source, opened
from snapml.kernels import ResidentMatrix
from snapml.searches.fold_scores import check_stored_scoring
from snapml.searches.logistic_paths import LogisticPaths, is_sound
from snapml.searches.search_watch import SearchWatch
from snapml.searches.shared.fold_rows import fold_rows
from snapml.searches.shared.spanned_rows import SpannedRows
from snapml.solvers.newton.row_space import is_far_wider

__all__ = ["LogisticRegressionCV"]


class LogisticRegressionCV(LogisticRegression):
    """Logistic regression that chooses C, and l1_ratio, by cross-validation.

    Every fold fits all values of C in rising order, each from the one before; with an L2
    penalty all folds at once, on shared reads of X (docs/model_selection.md), to steps that can
    gain at most `tol` of ``||w||^2 / 2``. The choice is then fitted to all rows, by
    `LogisticRegression`, and certified.

    Parameters
    ----------
    Cs : int or array-like, default=10
        Values of C to try; a number of them means a logarithmic grid from 1e-4 to 1e4.
    l1_ratios : array-like or None, default='warn'
        Values of l1_ratio to try. As in scikit-learn 1.9, the default means None, which is (0,),
        and warns.
    fit_intercept : bool, default=True
        Whether to fit b.
    cv : int, splitter, iterable or None, default=None
        None is five stratified folds.
    dual : bool, default=False
        Accepted for scikit-learn's sake; the answer is the same.
    penalty : {'l1', 'l2', 'elasticnet'}, default='deprecated'
        As in scikit-learn 1.9, where it is deprecated: leave it out.
    scoring : str, callable or None, default='warn'
        None is accuracy; so is the default, which warns as in scikit-learn 1.9.
    solver : str, default='lbfgs'
        As in `LogisticRegression`.
    tol : float, default=1e-6
        As in `LogisticRegression`.
    max_iter : int, default=100
        As in `LogisticRegression`.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' is computed from all rows, once for all folds.
    n_jobs : int or None, default=None
        Folds fitted at the same time; those of a store are one after the other.
    verbose : int, default=0
        As in `LogisticRegression`.
    refit : bool, default=True
        Whether to fit the choice to all rows; otherwise the best models of the folds are averaged.
    intercept_scaling : float, default=1.0
        As in `LogisticRegression`.
    random_state : int, RandomState instance or None, default=None
        As in `LogisticRegression`; the folds have their own.
    use_legacy_attributes : bool, default='warn'
        Which shapes the attributes have; the default means True and warns, as in scikit-learn 1.9.
    n_threads : int or None, default=None
        As in `LogisticRegression`.
    deterministic : bool, default=True
        As in `LogisticRegression`.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on. Folds that
        share their reads copy X to one GPU once; every other fit copies its rows there.
    memory_limit : int, float, str or 'auto', default='auto'
        As in `LogisticRegression`; all fits of a search over a store have the same rows in memory.
    multi_class : {'auto', 'multinomial', 'ovr'}, default='auto'
        As in `LogisticRegression`.
    max_time_s : float or None, default=None
        Seconds for the search, and as many again for the fit of the choice to all rows. Fits that
        the search has not come to the end of have NaN for scores and coefficients, and candidates
        with such a fold are not chosen; a ``ConvergenceWarning`` says how many. None sets no bound.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_, intercept_ : ndarray
        As in `LogisticRegression`.
    Cs_, l1_ratios_ : ndarray
        What was tried.
    C_, l1_ratio_ : float, or ndarray of shape (n_classes,)
        What was chosen; the average over the folds without `refit`. An array in the legacy form.
    coefs_paths_ : ndarray of shape (n_folds, n_l1_ratios, n_Cs, n_classes, n_dof)
        All models of all folds, the intercept last. In the legacy form a dict by class, of shape
        (n_folds, n_Cs, n_dof) or (n_folds, n_Cs, n_l1_ratios, n_dof).
    scores_ : ndarray of shape (n_folds, n_l1_ratios, n_Cs)
        Their scores. In the legacy form a dict by class, each of shape (n_folds, n_Cs) or
        (n_folds, n_Cs, n_l1_ratios).
    n_iter_ : ndarray of shape (n_folds, n_l1_ratios, n_Cs)
        Their reads of the data. In the legacy form (1, n_folds, n_Cs) or
        (1, n_folds, n_Cs, n_l1_ratios).
    gap_, objective_, history_, solver_
        As in `LogisticRegression`; only with `refit`.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> model = LogisticRegressionCV(
    ...     Cs=[0.01, 0.1, 1], l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False,
    ...     max_iter=1000)
    >>> model.fit(X, y).C_
    1.0
    """

    C_: Any
    l1_ratio_: Any
    coefs_paths_: Any
    scores_: Any
    __metadata_request__score = {"sample_weight": UNUSED}  # noqa: RUF012 - as scikit-learn reads it

    def __init__(
        self,
        *,
        Cs: Any = 10,
        l1_ratios: Any = "warn",
        fit_intercept: bool = True,
        cv: Any = None,
        dual: bool = False,
        penalty: Any = "deprecated",
        scoring: Any = "warn",
        solver: str = "lbfgs",
        tol: float = 1e-6,
        max_iter: int = 100,
        class_weight: Any = None,
        n_jobs: Any = None,
        verbose: int = 0,
        refit: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        use_legacy_attributes: Any = "warn",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        multi_class: str = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.dual = dual
        self.penalty = penalty
        self.scoring = scoring
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.refit = refit
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.use_legacy_attributes = use_legacy_attributes
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.multi_class = multi_class
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None, **params: Any
    ) -> LogisticRegressionCV:
        """Choose C and l1_ratio, and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, wherever `LogisticRegression` takes them from: in memory, on a GPU, or in
            a store, a file or a stream, of whose rows a fold is a weight of each.
        y : array-like of shape (n_samples,), default=None
            Labels; None takes those that X brings along, and a text or number names their column in
            a file or stream.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none, in fits and scores; None takes
            the store's.
        offset : float or array-like of shape (n_samples,), default=None
            As in `LogisticRegression`, on folds as on all rows; folds then share no reads of X.
        **params : object
            For the scorer and the splitter, with scikit-learn's metadata routing only.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        TypeError
            If X is a store, and the scoring needs rows in memory.
        TimeoutError
            If `max_time_s` is over before any candidate was judged on all folds.
        RuntimeError
            If a callback has ended the search before that.
        """
        raise_for_routed_params(params, self, "fit")
        self._warn_of_defaults()
        ratios, Cs, X = self._ratios(), self._grid(), opened(X)
        if isinstance(X, ChunkedDataset) or is_row_source(X):
            check_stored_scoring(self.scoring)  # before rows of a file are written to a store
        matrix, y = fit_input(self, X, y)
        weights = check_sample_weight(sample_weight, matrix)
        classes = self.classes_ = check_classes(self, y)
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        if offsets is not None:
            check_two_classes(classes)
        if isinstance(matrix, ResidentMatrix):
            sample_weight = matrix.host_vector("sample_weight", sample_weight)
        if isinstance(matrix, ChunkedMatrix) and sample_weight is None:
            sample_weight = weights  # scores weigh rows as fits do; a store's weights are no others
        split_params, score_params = self._routed(sample_weight, params)
        weights = self._weights_with_classes(y, classes, weights, matrix.dtype)
        watch = SearchWatch(self)
        given = fold_rows(matrix, y, weights, offsets)
        folds = self._folds(given.shown, y, split_params)
        span = self._span(matrix, weights, Cs, ratios)
        searched = matrix if span is None else span.matrix
        paths_of = LogisticPaths(searched, y, weights, classes, self._model, watch, offsets)
        shared = paths_of.solve_shared(folds, Cs, ratios, self.tol)
        # One read of a store after the other: its chunks in memory serve one fit at a time.
        n_jobs = 1 if isinstance(matrix, ChunkedMatrix) else self.n_jobs
        watch.expect_paths(len(folds) * len(ratios), effective_n_jobs(n_jobs))
        run, scorer = delayed(paths_of.follow), self._get_scorer()
        paths = Parallel(n_jobs=n_jobs, require="sharedmem")(
            run(fold, Cs, ratio, scorer, score_params, shared.get((number, ratio), {}))
            for number, fold in enumerate(folds)
            for ratio in ratios
        )
        grid = (len(folds), len(ratios), len(Cs))
        coefs = np.reshape([p.coefs for p in paths], (*grid, *paths[0].coefs.shape[1:]))
        if span is not None:
            coefs = span.in_columns(coefs)
        scores = np.reshape([p.scores for p in paths], grid)
        n_iter = np.reshape([p.n_iter for p in paths], grid)
        kept = watch.judged(np.reshape([p.is_done for p in paths], (len(folds), -1)))
        self.Cs_, self.l1_ratios_ = Cs, np.asarray(ratios)
        of_kept = scores.reshape(len(folds), -1)[:, kept]
        if self.refit:
            ratio_at, C_at = np.unravel_index(kept[of_kept.sum(axis=0).argmax()], grid[1:])
            C, ratio = float(Cs[C_at]), ratios[int(ratio_at)]
            with as_part(self._model(C, ratio), watch.refit()) as model:
                model.fit(given.whole, y, weights, offset=offsets)
            shape_of_X = {"n_features_in_", "feature_names_in_"}
            for name in set(vars(model)) - set(model.get_params()) - shape_of_X:
                setattr(self, name, getattr(model, name))
        else:
            ratio_at, C_at = np.unravel_index(kept[of_kept.argmax(axis=1)], grid[1:])
            C = float(np.mean(Cs[C_at]))
            ratio = np.mean([ratios[at] or 0.0 for at in ratio_at])
            self._store_mean(coefs[np.arange(len(folds)), ratio_at, C_at].mean(axis=0))
        self._store_search(C, ratio, coefs, scores, n_iter)
        self._keep_objective()  # that of the chosen model has other parameters
        return self

    def score(  # type: ignore[override]  # scikit-learn's signature
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        **score_params: Any,
    ) -> Any:
        """Return the score on data, by the scorer of the search.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        offset : float or array-like of shape (n_samples,), default=None
            As in `predict`.
        **score_params : object
            For the scorer, with scikit-learn's metadata routing only.

        Returns
        -------
        float
            The score.
        """
        raise_for_routed_params(score_params, self, "score")
        X, y, sample_weight, offset = with_host_predictions(X, y, sample_weight, offset)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        given |= score_params
        if is_routing_enabled():
            given = dict(process_routing(self, "score", **given).scorer.score)
        judged = self if offset is None else WithOffset(self, offset)
        return self._get_scorer()(judged, X, y, **given)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where scikit-learn sends the metadata given to fit and score.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            To the splitter and the scorer.
        """
        to_scorer = MethodMapping().add(caller="score", callee="score")
        to_scorer.add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
            .add(
                scorer=self._get_scorer(),
                method_mapping=to_scorer.add(caller="fit", callee="score"),
            )
        )

    def _folds(
        self, shown: Any, y: np.ndarray, params: dict[str, Any]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return numbers of rows to train and to judge on."""
        numbers = np.arange(len(y))
        parts = check_cv(self.cv, y, classifier=True).split(shown, y, **params)
        return [(numbers[train], numbers[test]) for train, test in parts]

    def _get_scorer(self) -> Any:
        is_default = self.scoring is None or (
            isinstance(self.scoring, str) and self.scoring == "warn"
        )
        return get_scorer("accuracy" if is_default else self.scoring)

    def _warn_of_defaults(self) -> None:
        """Warn of the defaults that scikit-learn is about to change."""
        messages = []
        if isinstance(self.l1_ratios, str) and self.l1_ratios == "warn":
            messages.append(
                "The default value for l1_ratios will change from None to (0.0,) in version 1.10 "
                "of scikit-learn; set it, e.g. l1_ratios=(0,)"
            )
        elif self.l1_ratios is None and self.penalty == "deprecated":
            messages.append(
                "'l1_ratios=None' was deprecated in version 1.8 of scikit-learn; set it, e.g. "
                "l1_ratios=(0,)"
            )
        if self.penalty != "deprecated":
            messages.append(
                "'penalty' was deprecated in version 1.8 of scikit-learn and will go in 1.10: "
                "leave it out and use l1_ratios (0 is 'l2', 1 is 'l1')"
            )
        if isinstance(self.scoring, str) and self.scoring == "warn":
            messages.append(
                "The default value of the parameter 'scoring' will change from None, i.e. "
                "accuracy, to 'neg_log_loss' in version 1.11 of scikit-learn; set it"
            )
        legacy = self.use_legacy_attributes
        if isinstance(legacy, str) and legacy == "warn":
            messages.append(
                f"The fitted attributes of {type(self).__name__} will be simplified in "
                "scikit-learn 1.10. The default value of use_legacy_attributes will change from "
                "True to False; set it"
            )
        for message in messages:
            warnings.warn(message, FutureWarning, stacklevel=callers_level())

    def _ratios(self) -> list[Any]:
        """Return the values of l1_ratio to try; None where none was given."""
        given = self.l1_ratios
        if given is None or (isinstance(given, str) and given == "warn"):
            if self.penalty == "elasticnet":
                raise ValueError(
                    "l1_ratios must be an array-like of numbers between 0 and 1; got "
                    f"(l1_ratios={None if isinstance(given, str) else given!r})"
                )
            return [1.0 if self.penalty == "l1" else None]
        values: list[Any] = list(given)
        if not values or not all(
            isinstance(v, numbers.Real) and 0 <= float(v) <= 1 for v in values
        ):
            raise ValueError(
                "l1_ratios must be an array-like of numbers between 0 and 1; got "
                f"(l1_ratios={given!r})"
            )
        if self.penalty in ("l1", "l2"):
            warnings.warn(
                "l1_ratios parameter is only used when penalty is 'elasticnet'. Got "
                f"(penalty={self.penalty})",
                UserWarning,
                stacklevel=callers_level(),
            )
            return [1.0 if self.penalty == "l1" else 0.0]
        return [float(value) for value in values]

    def _grid(self) -> np.ndarray:
        """Return the values of C to try."""
        if isinstance(self.Cs, numbers.Integral):
            n_values = int(self.Cs)
            if n_values < 1:
                raise ValueError(f"Cs: expected at least 1, got {self.Cs}")
            return np.logspace(-4, 4, n_values)
        values = np.asarray(self.Cs, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"Cs: expected numbers, got {self.Cs!r}")
        for value in values.tolist():
            check_positive("Cs", value)
        return values

    def _routed(
        self, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the splitter and the scorer are to be given."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not is_routing_enabled():
            return {}, given
        routed = process_routing(self, "fit", **given, **params)
        return dict(routed.splitter.split), dict(routed.scorer.score)

    def _weights_with_classes(
        self, y: np.ndarray, classes: np.ndarray, weights: np.ndarray | None, dtype: np.dtype
    ) -> np.ndarray | None:
        """Return the rows' weights times their classes', which no fold changes."""
        if isinstance(self.class_weight, dict) and not set(self.class_weight) <= set(
            classes.tolist()
        ):
            raise ValueError(
                "The given class_weight dict must have the class labels as keys; classes="
                f"{classes} but key={self.class_weight.keys()}"
            )
        if self.class_weight is None:
            return weights
        factors = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=weights
        )
        scaled = factors[np.searchsorted(classes, y)].astype(dtype)
        return scaled if weights is None else scaled * weights

    def _model(self, C: float, ratio: Any) -> LogisticRegression:
        """Return the estimator of one point of the grid."""
        return LogisticRegression(
            C=C,
            l1_ratio=0.0 if ratio is None else ratio,
            dual=self.dual,
            tol=self.tol,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            random_state=self.random_state,
            solver=self.solver,
            max_iter=self.max_iter,
            verbose=self.verbose,
            n_threads=self.n_threads,
            deterministic=self.deterministic,
            device_ids=self.device_ids,
            memory_limit=self.memory_limit,
            multi_class=self.multi_class,
        )

    def _span(
        self, matrix: Matrix, weights: np.ndarray | None, Cs: np.ndarray, ratios: list[Any]
    ) -> SpannedRows | None:
        """Return far fewer rows than columns in fewer columns, where no model can be another."""
        has_l2_alone = self.penalty != "l1" and not any(ratios)
        is_own_score = callable(self.scoring)  # which may look at the rows
        is_another = self.solver in ("liblinear", "sdca") or self.device_ids or is_own_score
        if is_another or not has_l2_alone or not is_far_wider(matrix):
            return None
        if not is_sound(matrix, self.n_threads):
            return None  # an ordinary fit says what is wrong
        most = float(np.max(Cs)) * (1.0 if weights is None else float(weights.max()))
        return SpannedRows(
            matrix, most, has_intercept=bool(self.fit_intercept), n_threads=self.n_threads
        )

    def _store_mean(self, mean: np.ndarray) -> None:
        """Keep the average of the folds' best models."""
        n_features = self.n_features_in_
        self.coef_ = mean[:, :n_features]
        self.intercept_ = mean[:, -1] if self.fit_intercept else np.zeros(len(mean))

    def _store_search(
        self, C: float, ratio: Any, coefs: np.ndarray, scores: np.ndarray, n_iter: np.ndarray
    ) -> None:
        """Keep the choice and the paths, in the shapes asked for."""
        ratio = 0.0 if ratio is None else float(ratio)
        if not self.use_legacy_attributes:
            self.C_, self.l1_ratio_ = float(C), ratio
            self.coefs_paths_, self.scores_, self.n_iter_ = coefs, scores, n_iter
            return
        n_outputs = coefs.shape[3]
        self.C_, self.l1_ratio_ = np.full(n_outputs, C), np.full(n_outputs, ratio)
        # (n_folds, n_l1_ratios, n_Cs, ...) -> (n_folds, n_Cs, n_l1_ratios, ...)
        coefs, scores, n_iter = (np.swapaxes(a, 1, 2) for a in (coefs, scores, n_iter))
        if self.l1_ratios is None or isinstance(self.l1_ratios, str):
            coefs, scores, n_iter = coefs[:, :, 0], scores[:, :, 0], n_iter[:, :, 0]
        labels = self.classes_[-n_outputs:]
        self.coefs_paths_ = {label: coefs[..., k, :] for k, label in enumerate(labels)}
        self.scores_ = {label: scores.copy() for label in labels}
        self.n_iter_ = n_iter[np.newaxis]
