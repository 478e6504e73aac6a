"""How raw fields became hashed columns: kept by stores and models, so that predictions do alike.

An encoding is a dict of text, numbers and lists, which manifests and model files hold as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapml.io.readers.click_log import ClickLogEncoder

__all__ = [
    "HASHED_COLUMNS",
    "Encoding",
    "check_encoding",
    "column_encoder",
    "encoding_of_columns",
    "encoding_of_log",
    "encoding_text",
    "log_encoder",
]

Encoding = Mapping[str, Any]

HASHED_COLUMNS, _LOG = "hashed columns", "click log"


def encoding_of_columns(encoder: ClickLogEncoder, columns: list[str], texts: list[str]) -> Encoding:
    """Return the encoding of a table's columns.

    Parameters
    ----------
    encoder : ClickLogEncoder
        What hashes them.
    columns : list of str
        All features, in the order of their fields.
    texts : list of str
        Those among them that are text; others are numbers.

    Returns
    -------
    dict
        The encoding.
    """
    return {
        "kind": HASHED_COLUMNS,
        "n_features": encoder.n_features,
        "seed": encoder.seed,
        "columns": columns,
        "text_columns": texts,
    } | _kept(encoder)


def encoding_of_log(encoder: ClickLogEncoder) -> Encoding:
    """Return the encoding of a click log's fields."""
    names = ("n_features", "seed", "n_numbers", "n_categories")
    return {"kind": _LOG} | {name: getattr(encoder, name) for name in names}


def column_encoder(source: str, known: Encoding, given: ClickLogEncoder | None) -> ClickLogEncoder:
    """Return what hashes a table's columns as in fit.

    Parameters
    ----------
    source : str
        For messages.
    known : dict
        The encoding in fit.
    given : ClickLogEncoder or None
        What the user asked for.

    Returns
    -------
    ClickLogEncoder
        That of the fit.

    Raises
    ------
    ValueError
        If the rows of the fit were of another kind, or `given` hashes otherwise.
    """
    _check_kind(source, known, HASHED_COLUMNS)
    if given is not None:
        names = ("n_features", "seed", "keep_numbers")
        _compare(source, known, {name: getattr(given, name) for name in names})
    keep_numbers = bool(_value(known, "keep_numbers"))
    return ClickLogEncoder(known["n_features"], seed=known["seed"], keep_numbers=keep_numbers)


def log_encoder(source: str, known: Encoding, given: Mapping[str, Any]) -> ClickLogEncoder:
    """Return what hashes a click log's fields as in fit.

    Parameters
    ----------
    source : str
        For messages.
    known : dict
        The encoding in fit.
    given : dict
        Parameters of `ClickLogEncoder` that the user asked for.

    Returns
    -------
    ClickLogEncoder
        That of the fit.

    Raises
    ------
    ValueError
        If the rows of the fit were of another kind, or a parameter is another.
    """
    _check_kind(source, known, _LOG)
    _compare(source, known, given)
    return ClickLogEncoder(**{name: value for name, value in known.items() if name != "kind"})


def check_encoding(source: str, known: Encoding | None, found: Encoding | None) -> None:
    """Refuse rows that were hashed in another way than those of the fit.

    Parameters
    ----------
    source : str
        For messages.
    known : dict or None
        The encoding in fit; None where nobody knows one.
    found : dict or None
        That of the rows.

    Raises
    ------
    ValueError
        If both are known and differ.
    """
    if known is None or found is None:
        return
    _check_kind(source, known, found["kind"])
    names = {*known, *found}
    _compare(source, known, {name: _value(found, name) for name in sorted(names)})


def encoding_text(encoding: Encoding | None) -> str:
    """Return an encoding in a line.

    Parameters
    ----------
    encoding : dict or None
        None where columns are as they are.

    Returns
    -------
    str
        Kind and numbers.
    """
    if encoding is None:
        return "none"
    numbers = [f"{name}={value}" for name, value in encoding.items() if isinstance(value, int)]
    columns = encoding.get("columns")
    of = "" if columns is None else f" of {len(columns)} columns"
    return f"{encoding['kind']}{of}: {', '.join(numbers)}"


def _kept(encoder: ClickLogEncoder) -> dict[str, Any]:
    """Return whether numbers stay what they are, which is written down only where they do."""
    return {"keep_numbers": True} if encoder.keep_numbers else {}


def _value(encoding: Encoding, name: str) -> Any:
    return encoding.get(name, False if name == "keep_numbers" else None)


def _check_kind(source: str, known: Encoding, kind: str) -> None:
    if known["kind"] != kind:
        raise ValueError(f"{source}: expected rows of {known['kind']} as in fit, got {kind}")


def _compare(source: str, known: Encoding, found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        expected = _value(known, name)
        if value != expected:
            raise ValueError(f"{source}: {name}: expected {expected!r} as in fit, got {value!r}")
