"""What there is to say about a store."""

from __future__ import annotations

from typing import Any

from snapml.data import ChunkedDataset
from snapml.io.encoding import encoding_text

__all__ = ["classes_text", "store_summary"]

_MOST_SHOWN = 20


def store_summary(store: ChunkedDataset) -> dict[str, Any]:
    """Return what the manifest of a store says.

    Parameters
    ----------
    store : ChunkedDataset
        The store.

    Returns
    -------
    dict
        Names and values.
    """
    manifest = store.manifest
    schema = manifest.schema
    summary: dict[str, Any] = {
        "kind": "chunk store",
        "rows": manifest.n_rows,
        "columns": manifest.n_features,
        "layout": "compressed rows" if schema.is_sparse else "dense rows",
        "stored entries": manifest.n_stored,
        "dtype": schema.dtype,
    }
    if schema.is_sparse:
        summary |= {"index dtype": schema.index_dtype, "values": schema.has_values}
    if manifest.feature_names is not None:
        summary["column names"] = classes_text(manifest.feature_names)
    if manifest.encoding is not None:
        summary["encoding"] = encoding_text(manifest.encoding)
    return summary | {
        "labels": schema.has_labels,
        "classes": classes_text(manifest.label_names or manifest.classes),
        "weights": schema.has_weights,
        "chunks": store.n_chunks,
        "bytes": manifest.n_bytes,
    }


def classes_text(classes: Any) -> str:
    """Return distinct labels in a line.

    Parameters
    ----------
    classes : sequence or None
        Sorted; None where there are no labels, or many.

    Returns
    -------
    str
        The first of them.
    """
    if classes is None:
        return "none, or too many to be classes"
    shown = ", ".join(f"{c:g}" if isinstance(c, float) else str(c) for c in classes[:_MOST_SHOWN])
    return shown if len(classes) <= _MOST_SHOWN else f"{shown}, ... ({len(classes)})"
