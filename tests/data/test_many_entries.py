"""Counts beyond 32 bits: in the format always, in a fit where that is asked for."""

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter, CompressedMatrix
from snapml.data.store.chunk_format import ALIGNMENT, Manifest, lay_out

ROOT = Path(__file__).parents[2]
BILLION = 10**9


def test_counts_of_a_store_have_64_bits(tmp_path):
    """Chunks as a manifest describes them, without the files."""
    X = CompressedMatrix(np.array([0, 2], np.int64), np.array([0, 5 * BILLION]), 6 * BILLION)
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(X)
    store = ChunkedDataset.open(tmp_path / "store")
    assert store.shape == (1, 6 * BILLION)
    np.testing.assert_array_equal(store.matrix(0).indices, X.indices)
    (chunk,) = store.manifest.chunks
    large = replace(chunk, n_rows=3 * BILLION, n_stored=5 * BILLION, n_bytes=64 * BILLION)
    manifest = replace(store.manifest, chunks=(large, large))
    assert '"n_stored": 5000000000' in manifest.to_json()
    whole = ChunkedDataset(tmp_path, manifest, memory_limit=0)
    assert whole.shape == (6 * BILLION, 6 * BILLION)
    assert whole.n_stored == 10 * BILLION
    assert whole.manifest.n_bytes == 128 * BILLION
    assert whole.chunk_rows.tolist() == [0, 3 * BILLION, 6 * BILLION]
    matrix = ChunkedMatrix(whole, 0)
    assert matrix.rows_of(1) == slice(3 * BILLION, 6 * BILLION)
    assert matrix.chunk_of(np.array([3 * BILLION - 1, 3 * BILLION])).tolist() == [0, 1]


def test_places_of_arrays_have_64_bits(tmp_path):
    with ChunkWriter(tmp_path / "store") as writer:
        writer.append(CompressedMatrix(np.array([0, 1]), np.array([0]), 1), [1.0])
    manifest: Manifest = ChunkedDataset.open(tmp_path / "store").manifest
    places, n_bytes = lay_out(manifest.schema, BILLION, 5 * BILLION)
    assert places["indices"][0] >= 8 * (BILLION + 1)
    assert places["labels"][0] >= places["indices"][0] + 8 * 5 * BILLION
    assert places["labels"][0] % ALIGNMENT == 0
    assert n_bytes == places["labels"][0] + 8 * BILLION


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("SNAPML_MANY_ENTRIES") != "1",
    reason="writes 9 GB and reads them often: set SNAPML_MANY_ENTRIES=1",
)
def test_more_than_2_31_entries_train(tmp_path):
    """The benchmark fails where the model is not that of one copy of the rows."""
    command = [sys.executable, "-m", "benchmarks.many_entries", "--folder", str(tmp_path)]
    output = tmp_path / "row.csv"
    subprocess.run([*command, "--output", str(output)], cwd=ROOT, check=True)
    (row,) = csv.DictReader(output.open(newline=""))
    assert int(row["n_stored"]) > 2**31
    assert int(row["peak_bytes"]) < 20 * 2**30
