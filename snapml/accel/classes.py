"""scikit-learn's classes with another `fit`, each under scikit-learn's name.

They are ordinary classes of this module, so that a model which is pickled, or sent to a process of
joblib, is one of them there too.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import is_classifier

from snapml._registry import ESTIMATORS, Entry
from snapml.accel.accelerated import Accelerated, AcceleratedMeta, AcceleratedTree

_REPLACED = [entry for entry in ESTIMATORS if entry.sklearn_module is not None]
__all__ = [entry.name for entry in _REPLACED]


class _Weighted(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit, as scikit-learn's does."""
        return self._fit_by_either(super().fit, X, y, sample_weight=sample_weight)  # type: ignore[misc]


class _Checked(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        """Fit, as scikit-learn's does."""
        options = {"sample_weight": sample_weight, "check_input": check_input}
        return self._fit_by_either(super().fit, X, y, **options)  # type: ignore[misc]


class _Routed(Accelerated):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Fit, as scikit-learn's does."""
        options = {"sample_weight": sample_weight, **params}
        return self._fit_by_either(super().fit, X, y, **options)  # type: ignore[misc]


class _TreeRegressor(AcceleratedTree, _Checked):
    pass


class _TreeClassifier(AcceleratedTree, _Checked):
    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        """Return the share of each class in each row's leaf, as scikit-learn's does."""
        return self._by_walker("predict_proba", X, check_input)


def _fitting_as(genuine: Any) -> type[Accelerated]:
    """Return the class whose `fit` has the parameters of a genuine one."""
    if genuine.__module__.startswith("sklearn.tree"):
        return _TreeClassifier if is_classifier(genuine()) else _TreeRegressor
    its = inspect.signature(genuine.fit).parameters
    if "check_input" in its:
        return _Checked
    return _Routed if "params" in its else _Weighted


def _stand_in(entry: Entry) -> Any:
    """Return the class that stands for scikit-learn's of the same name."""
    genuine = entry.load_sklearn()
    about = {"__module__": __name__, "__doc__": genuine.__doc__}
    own = {"genuine": genuine, "ours": entry.load()}
    return AcceleratedMeta(entry.name, (_fitting_as(genuine), genuine), about | own)


globals().update({entry.name: _stand_in(entry) for entry in _REPLACED})
