"""Linear models to and from scikit-learn's own estimators."""

from __future__ import annotations

import copy
import inspect
import numbers
from typing import Any

import numpy as np
import sklearn
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import check_is_fitted

from snapml._registry import nearest_entry
from snapml.models.portable import PortableModel

__all__ = [
    "OWN_ATTRIBUTES",
    "ExportedLinearModel",
    "genuine_class",
    "give_link",
    "parameters_from_sklearn",
    "sklearn_class",
]

OWN_ATTRIBUTES = frozenset(
    {
        "existence_",
        "gap_",
        "has_offset_",
        "history_",
        "numerical_error_",
        "objective_",
        "run_report_",
        "solver_",
    }
)
"""What only these estimators know: of their fit."""
_OWN_SOLVERS = ("auto", "ipm", "sdca", "pqn")


class ExportedLinearModel(PortableModel):
    """What a linear model can be turned into, and made of."""

    coef_: Any

    def to_sklearn(self) -> Any:
        """Return the same model as scikit-learn's own estimator, for skl2onnx, skops, PMML, SHAP.

        Returns
        -------
        estimator of scikit-learn
            Fitted, of the class of the same name; a one-vs-rest `LogisticRegression` of more than
            two classes, which scikit-learn has no more, is a
            `sklearn.multiclass.OneVsRestClassifier` of such. It has this one's parameters, as far
            as they are scikit-learn's; ``solver`` becomes one that takes the penalty where this
            one's name is not scikit-learn's. It shares no memory with this model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If fit had an offset, which scikit-learn's estimator would leave out.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from snapml import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LogisticRegression().fit(X, y)
        >>> theirs = model.to_sklearn()
        >>> type(theirs).__module__.split(".")[0]
        'sklearn'
        >>> bool((theirs.predict(X) == model.predict(X)).all())
        True
        """
        check_is_fitted(self)
        if getattr(self, "has_offset_", False):
            raise ValueError(
                f"expected a model without an offset, which scikit-learn's {type(self).__name__} "
                "would leave out of its predictions"
            )
        model = self._local()
        is_logistic = hasattr(model, "predict_proba")
        if is_logistic and model.multi_class == "ovr" and len(model.classes_) > 2:
            return _one_vs_rest(model)
        theirs = sklearn_class(type(model))(**_their_parameters(model))
        vars(theirs).update(_learned(model, type(theirs)))
        if hasattr(model, "_is_multilabel"):
            theirs._label_binarizer = model._label_binarizer
        give_link(theirs)
        return theirs

    @classmethod
    def from_sklearn(cls, model: Any) -> Any:
        """Return a model of this class with what scikit-learn's estimator has learned.

        Parameters
        ----------
        model : fitted estimator of scikit-learn
            Of the class of the same name.

        Returns
        -------
        estimator
            Fitted, with the parameters of `model`; it predicts the same, and `save` writes it.
            Nothing is certain about its fit: ``gap_`` is infinite, ``objective_`` is NaN and
            ``history_`` is empty. It shares no memory with `model`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If `model` is not fitted.
        TypeError
            If it is of another class, a subclass among these.
        ValueError
            If a parameter has a value that this class has no parameter for.

        Examples
        --------
        >>> import sklearn.linear_model
        >>> from snapml import Ridge
        >>> theirs = sklearn.linear_model.Ridge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> float(Ridge.from_sklearn(theirs).predict([[3.0]])[0])
        2.333...
        """
        expected = sklearn_class(cls)
        if genuine_class(type(model)) is not expected:
            raise TypeError(
                f"model: expected a {expected.__module__.rsplit('._', 1)[0]}.{expected.__name__}, "
                f"got a {type(model).__module__}.{type(model).__name__}"
            )
        check_is_fitted(model)
        made: Any = cls(**parameters_from_sklearn(cls, model))
        learned = _learned(model, type(made))
        if hasattr(model, "_label_binarizer"):  # of ridge classifiers, whose classes_ it has
            learned["classes_"] = copy.deepcopy(model.classes_)
            learned["_is_multilabel"] = model._label_binarizer.y_type_.startswith("multilabel")
        own = getattr(model, "solver_", getattr(model, "solver", None))
        solver = f"scikit-learn {sklearn.__version__}" + (f", {own}" if own else "")
        certificate = {"gap_": np.inf, "objective_": np.nan, "history_": [], "solver_": solver}
        vars(made).update(learned | certificate)
        return made

    def _from_file(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return what a file holds; refuse shapes that no fit has made."""
        coef, intercept = attributes["coef_"], np.asarray(attributes["intercept_"])
        if not (isinstance(coef, np.ndarray) or issparse(coef)) or coef.ndim not in (1, 2):
            raise ValueError(f"coef_: expected a vector or a matrix, got {type(coef).__name__}")
        n_features = attributes["n_features_in_"]
        if not isinstance(n_features, numbers.Integral) or coef.shape[-1] != n_features:
            raise ValueError(f"coef_: expected {n_features!r} columns, got shape {coef.shape}")
        n_outputs = coef.shape[0] if coef.ndim == 2 else 1
        if intercept.shape not in ((), (1,), (n_outputs,)):
            raise ValueError(f"intercept_: expected {n_outputs} numbers, got {intercept.shape}")
        if coef.dtype.kind != "f":
            raise ValueError(f"coef_: expected floating-point numbers, got {coef.dtype}")
        if intercept.dtype.kind not in "fiu":
            raise ValueError(f"intercept_: expected numbers, got {intercept.dtype}")
        if is_classifier(self):
            classes = attributes["classes_"]
            expected = 2 if n_outputs == 1 and not attributes.get("_is_multilabel") else n_outputs
            if not isinstance(classes, np.ndarray) or classes.shape != (expected,):
                raise ValueError(f"classes_: expected {expected} labels, got {classes!r}")
        return attributes


def parameters_from_sklearn(cls: type[Any], model: Any) -> dict[str, Any]:
    """Return the parameters of scikit-learn's estimator that a class here takes.

    Parameters
    ----------
    cls : type
        The class here.
    model : estimator of scikit-learn
        Of the class of the same name.

    Returns
    -------
    dict
        Copies.

    Raises
    ------
    ValueError
        If another parameter is not what it is by default.
    """
    known, found = cls._get_param_names(), {}
    defaults = inspect.signature(type(model)).parameters
    for name, value in model.get_params(deep=False).items():
        if name in known:
            found[name] = copy.deepcopy(value)
        elif value is not defaults[name].default and value != defaults[name].default:
            raise ValueError(f"{name}={value!r}: {cls.__name__} has no such parameter here")
    return found


def sklearn_class(cls: type[Any]) -> type[Any]:
    """Return scikit-learn's own class of the same name.

    Parameters
    ----------
    cls : type
        One of the estimators.

    Returns
    -------
    type
        Not the one that `snapml.accel` may have put in its place.
    """
    entry = nearest_entry(cls)
    if entry is None:
        raise TypeError(f"expected a class of snapml's estimators, got {cls.__name__}")
    return genuine_class(entry.load_sklearn())


def give_link(model: Any) -> None:
    """Make what predictions of scikit-learn's models with a link go through, which its fit makes.

    Parameters
    ----------
    model : estimator of scikit-learn
        With the attributes of a fit; one without a link stays as it is.
    """
    if hasattr(model, "_get_loss"):
        model._base_loss = model._get_loss()


def genuine_class(cls: type[Any]) -> type[Any]:
    """Return scikit-learn's own class where `snapml.accel` has put another in its place.

    Parameters
    ----------
    cls : type
        A class, under scikit-learn's name or not.

    Returns
    -------
    type
        What it stands for; itself, if for nothing.
    """
    found: type[Any] = vars(cls).get("genuine", cls)
    return found


def _learned(model: Any, to: type[Any]) -> dict[str, Any]:
    """Return copies of what both classes learn; what one derives is none of it."""
    return {
        name: copy.deepcopy(value)
        for name, value in vars(model).items()
        if name.endswith("_")
        and not name.startswith("_")
        and name not in OWN_ATTRIBUTES
        and not isinstance(getattr(to, name, None), property)
    }


def _their_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that scikit-learn's class of the same name takes."""
    theirs = sklearn_class(type(model))
    known = theirs._get_param_names()
    found = {k: copy.deepcopy(v) for k, v in model.get_params(deep=False).items() if k in known}
    if "solver" not in found:
        return found
    if type(model).__name__.startswith("LogisticRegression"):
        found["solver"] = _logistic_solver(model)
    elif found["solver"] in _OWN_SOLVERS:
        found["solver"] = inspect.signature(theirs).parameters["solver"].default
    return found


def _logistic_solver(model: Any) -> str:
    """Return a solver of scikit-learn that takes the model's penalty."""
    several = getattr(model, "l1_ratios", None)  # a list or an array, which has no truth value
    ratios = [getattr(model, "l1_ratio", None), *(() if several is None else np.ravel(several))]
    mixes = {float(ratio) for ratio in ratios if isinstance(ratio, numbers.Real)}
    if model.penalty == "l1":
        mixes = {1.0}
    elif model.penalty in ("l2", None):
        mixes = set()
    is_liblinears = model.solver == "liblinear" and not mixes - {0.0, 1.0}
    if mixes - {0.0} and not is_liblinears:
        return "saga"
    return "lbfgs" if model.solver in _OWN_SOLVERS else str(model.solver)


def _one_vs_rest(model: Any) -> Any:
    """Return one binary model of scikit-learn per class, as one classifier."""
    import sklearn.linear_model
    from sklearn.multiclass import OneVsRestClassifier

    LogisticRegression = genuine_class(sklearn.linear_model.LogisticRegression)
    known = LogisticRegression._get_param_names()
    parameters = {k: v for k, v in _their_parameters(model).items() if k in known}
    columns = ("n_features_in_", "feature_names_in_")
    names = {k: v for k, v in _learned(model, LogisticRegression).items() if k in columns}
    coef = model.coef_.toarray() if issparse(model.coef_) else model.coef_
    intercept = np.broadcast_to(model.intercept_, len(coef))
    found = OneVsRestClassifier(LogisticRegression(**parameters))
    found.estimators_ = []
    for number in range(len(coef)):
        binary = LogisticRegression(**parameters)
        if hasattr(model, "C_"):
            binary.C = float(model.C_[number])
        vars(binary).update(
            copy.deepcopy(names),
            coef_=coef[number : number + 1].copy(),
            intercept_=intercept[number : number + 1].copy(),
            classes_=np.array([0, 1]),
        )
        found.estimators_.append(binary)
    found.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(model.classes_)
    vars(found).update(names, classes_=copy.deepcopy(model.classes_))
    return found
