"""What is kept of a fitted model, in whatever form: its class, parameters and attributes.

Only classes of the registry are made again, and only parameters and public attributes are set: what
a file holds is compared with what its class expects, and never looked up or called by name.

A model's parameters and the attributes that end in one underscore are what files hold.
``_stored_attributes`` of its class names others that predictions need. Where attributes are neither
text nor arrays, ``_to_file`` and ``_from_file`` of the class turn them into such, and back; the
latter refuses by ValueError what no fit has made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from snapml._distribution import installed_version
from snapml._registry import BY_NAME, entry_of
from snapml.models.objective_parameters import changed_since_fit
from snapml.models.values import decoded, encoded

__all__ = [
    "content_of",
    "known_class",
    "known_names",
    "model_of",
    "naming",
    "parsed",
]

_FORMAT = "snapml model"
_VERSION = 1
# How the fit went, with times: the same model would make another file each time it is fitted.
_NOT_STORED = {"history_"}
_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

_REPLACED = "; set_params replaces a parameter that predictions do not need"


def known_names() -> list[str]:
    """Return the names of the classes that `load` makes models of.

    Returns
    -------
    list of str
        Sorted.
    """
    return sorted(BY_NAME)


def known_class(name: str) -> type[Any] | None:
    """Return the class that `load` makes for a name.

    Parameters
    ----------
    name : str
        Any text.

    Returns
    -------
    type or None
        None where there is no such estimator.
    """
    return BY_NAME[name].load() if name in BY_NAME else None


def content_of(model: Any, put: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Return what JSON can hold of a fitted model.

    Parameters
    ----------
    model : fitted estimator
        Of one of the estimators.
    put : callable
        Takes an array, and returns what refers to it in JSON.

    Returns
    -------
    dict
        ``format``, ``version``, ``written_by``, ``class``, ``parameters``, ``attributes``; and
        ``fitted_with``, what the fit has used of parameters that were changed after it.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before fit.
    TypeError
        If the class is not known, or a parameter is nothing that text and arrays describe.
    ValueError
        If what fit has learned was changed into something that `model_of` refuses.
    """
    name = type(model).__name__
    if entry_of(type(model)) is None:
        raise TypeError(f"expected a model of {', '.join(known_names())}, got one of {name}")
    check_is_fitted(model)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "written_by": f"snapml {installed_version()}",
        "class": name,
        "parameters": _all_encoded(name, model.get_params(deep=False), put, _REPLACED),
        "attributes": _all_encoded(name, _plain_attributes(model), put),
    }
    changed = changed_since_fit(model)
    return content | ({"fitted_with": _all_encoded(name, changed, put)} if changed else {})


def parsed(text: bytes | str, path: Any) -> dict[str, Any]:
    """Return the content that JSON holds, refusing what is no model or of another version.

    Parameters
    ----------
    text : bytes or str
        The JSON.
    path : str or path-like
        For messages.

    Returns
    -------
    dict
        What begins as `content_of` makes it.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    try:
        content = json.loads(text)
        found, version = content["format"], content["version"]
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected the header of a model: {error!r}") from error
    if found != _FORMAT:
        raise ValueError(f"{path}: expected format {_FORMAT!r}, got {found!r}")
    if type(version) is not int or version < 1:
        raise ValueError(
            f"{path}: expected a version of the format, an integer >= 1, got {version!r}"
        )
    if version > _VERSION:
        raise ValueError(
            f"{path}: expected at most version {_VERSION} of the format, got {version!r}: "
            f"{content.get('written_by')} wrote it, a newer version"
        )
    return dict(content)


def model_of(
    content: dict[str, Any], path: Any, read: Callable[[], Callable[[Any], np.ndarray]]
) -> Any:
    """Return the model that a content describes.

    Parameters
    ----------
    content : dict
        From `parsed`.
    path : str or path-like
        For messages.
    read : callable
        Reads the arrays, once it is clear that they are needed; returns the `get` of `decoded`.

    Returns
    -------
    estimator
        Fitted.

    Raises
    ------
    ValueError
        If the class is not known, or the content is not what `content_of` makes.
    """
    name = content.get("class")
    cls = known_class(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(
            f"{path}: a model of class {name!r}, written by {content.get('written_by')}; this "
            f"version knows {', '.join(known_names())}"
        )
    get = read()
    with naming(path):
        return _made(cls, content, get)


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Turn what a header that nobody wrote so leads to into an error that names the file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Raises
    ------
    ValueError
        In the place of what a wrong header leads to.
    """
    try:
        yield
    except _MALFORMED as error:
        raise ValueError(f"{path}: the header of this model is malformed: {error!r}") from error


def _attributes(model: Any) -> dict[str, Any]:
    """Return what fit has learned, in the order of the names."""
    also = getattr(model, "_stored_attributes", ())
    return {
        name: value
        for name, value in sorted(vars(model).items())
        if name in also or (_is_public(name) and name not in _NOT_STORED)
    }


def _plain_attributes(model: Any) -> dict[str, Any]:
    found = _attributes(model)
    plain = model._to_file(found) if hasattr(model, "_to_file") else found
    if hasattr(model, "_from_file"):
        _check_readable(model, plain)
    return plain


def _check_readable(model: Any, plain: dict[str, Any]) -> None:
    """Refuse what a user has set that no file gives back: it would be lost with this process."""
    try:
        model._from_file(plain)
    except _MALFORMED as error:
        raise ValueError(
            f"{type(model).__name__}: expected attributes as fit leaves them, since no others can "
            f"be loaded again: {error}"
        ) from error


def _is_public(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z]\w*(?<!_)_", name) is not None


def _all_encoded(
    owner: str, values: dict[str, Any], put: Callable[[np.ndarray], Any], hint: str = ""
) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        try:
            found[name] = encoded(value, put)
        except TypeError as error:
            raise TypeError(
                f"{owner}.{name}: a model file holds None, numbers, text and arrays, and lists, "
                f"tuples and dicts of these, got {error}{hint}"
            ) from None
    return found


def _made(cls: type[Any], content: dict[str, Any], get: Callable[[Any], np.ndarray]) -> Any:
    model = cls(**{name: decoded(value, get) for name, value in content["parameters"].items()})
    also = getattr(cls, "_stored_attributes", ())
    found = {}
    for name, value in content["attributes"].items():
        if not (_is_public(name) or name in also):
            raise ValueError(f"{name!r} is no attribute of a fitted model")
        found[name] = decoded(value, get)
    if hasattr(model, "_from_file"):
        found = model._from_file(found)
    for name, value in found.items():
        setattr(model, name, value)
    if hasattr(model, "_keep_objective"):
        model._keep_objective()  # changes from here on are noticed, and those before
        for name, value in content.get("fitted_with", {}).items():
            if name not in model._fitted_with:
                raise ValueError(f"{name!r} is no parameter of the objective")
            model._fitted_with[name] = decoded(value, get)
    return model
