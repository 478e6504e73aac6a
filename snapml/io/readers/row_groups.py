"""Parts of Parquet and Arrow files, which come in groups of rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

__all__ = ["between", "groups_between", "parquet_part", "rows_of_groups"]


def rows_of_groups(dataset: Any) -> list[int]:
    """Return how many rows each row group of a dataset has.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        Of Parquet files, whose footers are read.

    Returns
    -------
    list of int
        In the order of files.
    """
    return [int(group.num_rows) for part in dataset.get_fragments() for group in part.row_groups]


def parquet_part(name: str, dataset: Any, rows: tuple[int, int]) -> tuple[Any, int]:
    """Return the row groups of a dataset that hold some rows.

    Parameters
    ----------
    name : str
        For messages.
    dataset : pyarrow.dataset.FileSystemDataset
        Of Parquet files.
    rows : tuple of int
        The first row, and the one behind the last.

    Returns
    -------
    dataset : pyarrow.dataset.FileSystemDataset
        Of these groups only.
    n_skipped : int
        Rows of the first group before the first row.
    """
    import pyarrow.dataset as ds

    counts = rows_of_groups(dataset)
    first, last, n_skipped = groups_between(name, counts, rows)
    chosen, number = [], 0
    for fragment in dataset.get_fragments():
        ids = [
            group.id
            for number_here, group in enumerate(fragment.row_groups, number)
            if first <= number_here < last
        ]
        number += len(fragment.row_groups)
        if ids:
            chosen.append(fragment.subset(row_group_ids=ids))
    part = ds.FileSystemDataset(chosen, dataset.schema, dataset.format, dataset.filesystem)
    return part, n_skipped


def groups_between(name: str, counts: list[int], rows: tuple[int, int]) -> tuple[int, int, int]:
    """Return which groups hold some rows.

    Parameters
    ----------
    name : str
        For messages.
    counts : list of int
        Rows of each group.
    rows : tuple of int
        The first row, and the one behind the last.

    Returns
    -------
    first, last : int
        Number of the first group, and of the one behind the last.
    n_skipped : int
        Rows of the first group before the first row.

    Raises
    ------
    ValueError
        If there are no such rows.
    """
    ends = [0, *accumulate(counts)]
    begin, end = rows
    if not 0 <= begin <= end <= ends[-1]:
        raise ValueError(f"{name}: rows={rows}: expected two of 0 to {ends[-1]}, in order")
    if begin == end:
        return 0, 0, 0
    first = max(k for k in range(len(counts)) if ends[k] <= begin)
    last = min(k for k in range(len(ends)) if ends[k] >= end)
    return first, last, begin - ends[first]


def between(batches: Iterator[Any], n_skipped: int, n_rows: int) -> Iterator[Any]:
    """Drop rows at both ends of some batches.

    Parameters
    ----------
    batches : iterator of pyarrow.RecordBatch
        Not asked for more than it takes.
    n_skipped : int
        Rows to leave out first.
    n_rows : int
        Rows to take then.

    Yields
    ------
    pyarrow.RecordBatch
        Over the memory of the batches.
    """
    while n_rows > 0:
        batch = next(batches, None)
        if batch is None:
            return
        n_first = min(n_skipped, batch.num_rows)
        n_skipped -= n_first
        part = batch.slice(n_first, n_rows)
        n_rows -= part.num_rows
        if part.num_rows:
            yield part
