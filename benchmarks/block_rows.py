"""How long blocks of neighbouring rows should be in dual coordinate ascent on sparse rows.

A block shares cache misses; rows that always come together cost epochs. Made-up rows and real ones,
C of 0.1, 1 and 30, default fits otherwise, one thread; all lengths by turns, the fastest of each
counting. Only fits that coordinate ascent ends at every length are told.
``python -m benchmarks.block_rows`` writes ``results/block_rows.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import snapml
from benchmarks.real_defaults import data_sets
from snapml.solvers.dual_ascent import cpu_engine

LENGTHS = (1, 4, 16)
ROUNDS, LONG_S = 5, 3.0
STRENGTHS = (0.1, 1.0, 30.0)
MODELS = {
    "LogisticRegression": lambda C: snapml.LogisticRegression(C=C),
    "LinearSVC, hinge": lambda C: snapml.LinearSVC(C=C, loss="hinge"),
    "LinearSVC": lambda C: snapml.LinearSVC(C=C),
}
# Rows, columns, entries a row.
TEXT = [(500, 200_000, 400), (3000, 20_000, 80), (20_000, 47_000, 80), (60_000, 30_000, 12)]
ONE_HOT = [(8000, 2000, 20), (30_000, 20_000, 15), (60_000, 300, 12), (100_000, 4000, 10)]
REAL = ["phishing", "mushrooms", "pcmac", "relathe", "rcv1_small", "news20_binary", "a9a", "w8a"]


def labels_of(rng, scores, noise):
    """Return two classes of equal size."""
    noisy = scores + noise * rng.normal(size=len(scores))
    return noisy > np.median(noisy)


def text(rng, n, p, entries):
    """Return rows of length 1 whose words are as frequent as words are, and labels."""
    frequency = 1 / np.arange(1, p + 1)
    words = rng.choice(p, size=n * entries, p=frequency / frequency.sum())
    offsets = np.arange(0, n * entries + 1, entries)
    X = sp.csr_matrix((np.ones(n * entries), words, offsets), shape=(n, p))
    X.sum_duplicates()
    rarity = np.log((1 + n) / (1 + np.bincount(X.indices, minlength=p))) + 1
    X = sp.csr_matrix(X @ sp.diags(rarity))
    X = sp.csr_matrix(sp.diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    return X, labels_of(rng, 4 * (X @ rng.normal(size=p)), 0.7)


def one_hot(rng, n, p, entries):
    """Return rows of one level of each of some categories, and labels."""
    levels = p // entries
    columns = rng.integers(0, levels, (n, entries)) + levels * np.arange(entries)
    offsets = np.arange(0, n * entries + 1, entries)
    X = sp.csr_matrix((np.ones(n * entries), columns.ravel(), offsets), shape=(n, p))
    return X, labels_of(rng, X @ rng.normal(size=p), 1.0)


def problems():
    """Yield a name, rows and labels."""
    for make, shapes in ((text, TEXT), (one_hot, ONE_HOT)):
        for n, p, entries in shapes:
            X, y = make(np.random.default_rng(0), n, p, entries)
            yield make.__name__.replace("_", "-"), X, y
    for name, X, y in data_sets(REAL):
        yield name, sp.csr_matrix(X), y


def compare(make, X, y):
    """Return the seconds and epochs for each length; nothing where another solver ended a fit."""
    seconds, epochs = dict.fromkeys(LENGTHS, np.inf), {}
    usual, began = cpu_engine.block_rows, time.perf_counter()
    try:
        for _ in range(ROUNDS):
            for length in LENGTHS:
                cpu_engine.block_rows = lambda *_, is_sparse, length=length: length
                start = time.perf_counter()
                model = make().fit(X, y)
                seconds[length] = min(seconds[length], time.perf_counter() - start)
                epochs[length] = int(np.max(model.n_iter_))
                if not model.solver_.startswith("dual coordinate ascent"):
                    return None
            if time.perf_counter() - began > LONG_S:
                break
    finally:
        cpu_engine.block_rows = usual
    return seconds, epochs


def main():
    """Time all fits and write the table."""
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "block_rows.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        head = [f"{what}_{length}" for what in ("seconds", "epochs") for length in LENGTHS]
        table.writerow(["data", "shape", "entries_a_row", "estimator", "C", *head])
        for data, X, y in problems():
            shape, entries = f"{X.shape[0]} x {X.shape[1]}", f"{X.nnz / X.shape[0]:.0f}"
            for name, model in MODELS.items():
                for C in STRENGTHS:
                    found = compare(lambda model=model, C=C: model(C), X, y)
                    if found is None:
                        continue
                    seconds, epochs = found
                    told = [f"{seconds[k]:.4g}" for k in LENGTHS] + [epochs[k] for k in LENGTHS]
                    table.writerow([data, shape, entries, name, C, *told])
                    file.flush()


if __name__ == "__main__":
    main()
