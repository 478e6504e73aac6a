"""The part of an accelerated class that is not scikit-learn's: `fit`."""

from __future__ import annotations

import copy
import logging
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from snapml.accel.callbacks import HandedCallbacks
from snapml.accel.served import ours_for, reason_against
from snapml.models.linear_exports import OWN_ATTRIBUTES, give_link

__all__ = ["Accelerated", "AcceleratedMeta", "AcceleratedTree"]

_logger = logging.getLogger("snapml.accel")
_PRIVATE = ("_label_binarizer",)  # what scikit-learn's predictions read besides public attributes
_said: set[tuple[str, str]] = set()


class AcceleratedMeta(ABCMeta):
    """Makes scikit-learn's own instances and subclasses count as those of its stand-in.

    A model that was fitted or unpickled before the names changed must still pass a script's
    ``isinstance(model, LogisticRegression)``.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        """Tell whether the class, or the one that it stands for, made the instance."""
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        """Tell whether it is a subclass of this one or of the one that it stands for."""
        # By the order of bases: to ask the genuine class would be to ask its subclasses, this one.
        genuine = cls.__dict__.get("genuine")
        return genuine in subclass.__mro__ or super().__subclasscheck__(subclass)


class Accelerated:
    """Fits by snapml where it serves parameters and data, else by scikit-learn.

    What a fit leaves behind are scikit-learn's attributes, so everything but `fit` is
    scikit-learn's. A fit by snapml adds its certificate: `gap_`, `objective_`, `solver_`.
    """

    genuine: Any
    ours: Any

    def _fit_by_either(
        self, fit_genuine: Callable[..., Any], X: Any, y: Any, **options: Any
    ) -> Any:
        """Fit by snapml, or by scikit-learn and log once why."""
        parameters = {name: getattr(self, name) for name in self.genuine._get_param_names()}
        reason = reason_against(self.genuine, parameters)
        if reason is None:
            callbacks = HandedCallbacks(self)
            try:
                model = ours_for(self.genuine, self.ours, parameters)
                callbacks.set_on(model)
                model.fit(X, y, **options)
            except (NotImplementedError, TypeError, ValueError) as refusal:
                if callbacks.have_raised(refusal):
                    raise
                # What cannot be fitted at all is for scikit-learn to say, in its words.
                reason = str(refusal)
                _logger.debug("%s: not by snapml", self.genuine.__name__, exc_info=True)
            else:
                self._take(model)
                _logger.info("%s: fitted by snapml", self.genuine.__name__)
                return self
        before = {name: vars(self)[name] for name in OWN_ATTRIBUTES if name in vars(self)}
        fit_genuine(X, y, **options)
        for name, value in before.items():  # unless this fit has set it anew, as Ridge does one
            if vars(self)[name] is value:
                delattr(self, name)
        _say_once(self.genuine.__name__, reason)
        return self

    def _take(self, model: Any) -> None:
        """Have the attributes that the other model's fit left."""
        vars(self).pop("feature_names_in_", None)  # of a former fit, where this one had none
        vars(self).update(_learned(model))
        give_link(self)

    def to_sklearn(self) -> Any:
        """Return the same model as scikit-learn's own class, for skl2onnx and others.

        Returns
        -------
        estimator
            Of the class that this one stands for, with copies of what was learned.
        """
        parameters = {name: getattr(self, name) for name in self.genuine._get_param_names()}
        model = self.genuine(**copy.deepcopy(parameters))
        learned = {k: v for k, v in _learned(self).items() if k not in OWN_ATTRIBUTES}
        vars(model).update(copy.deepcopy(learned))
        give_link(model)
        return model


class AcceleratedTree(Accelerated):
    """Walks by snapml too, which takes many rows at once."""

    tree_: Any

    def _take(self, model: Any) -> None:
        super()._take(model)
        self._walker = model

    def apply(self, X: Any, check_input: bool = True) -> Any:
        """Return the leaf of each row, as scikit-learn's does."""
        return self._by_walker("apply", X, check_input)

    def predict(self, X: Any, check_input: bool = True) -> Any:
        """Return the prediction for each row, as scikit-learn's does."""
        return self._by_walker("predict", X, check_input)

    def _by_walker(self, method: str, X: Any, check_input: bool) -> Any:
        walker = vars(self).get("_walker")
        # A later fit by scikit-learn, or pruning, gives the estimator another tree.
        by = walker if walker is not None and walker.tree_ is self.tree_ else super()
        return getattr(by, method)(X, check_input=check_input)


def _learned(model: Any) -> dict[str, Any]:
    """Return what a fit has left, but for what only fits of one library read."""
    learned = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    return learned | {name: getattr(model, name) for name in _PRIVATE if hasattr(model, name)}


def _say_once(name: str, reason: str) -> None:
    """Log why scikit-learn fitted, the first time for this class and reason."""
    if (name, reason) not in _said:
        _said.add((name, reason))
        _logger.warning("%s stays scikit-learn's: %s", name, reason)
