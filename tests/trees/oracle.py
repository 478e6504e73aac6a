"""The splits of a node by their definition, in NumPy: slow and plain.

Columns must have few different values: a bin for each. A split is worth the decrease of impurity.
"""

import numpy as np


def impurity(criterion, y, w):
    """Return the impurity of weighted targets; infinite where Poisson's is not defined."""
    if criterion in ("gini", "entropy"):
        p = np.array([w[y == k].sum() for k in np.unique(y)]) / w.sum()
        return 1 - (p**2).sum() if criterion == "gini" else -(p * np.log2(p)).sum()
    mean = (w * y).sum() / w.sum()
    if criterion == "squared_error":
        return (w * (y - mean) ** 2).sum() / w.sum()
    if mean <= 0:
        return np.inf
    some = y > 0
    return (w[some] * y[some] * np.log(y[some] / mean)).sum() / w.sum()


def sides(x):
    """Yield (threshold, missing_left, rows on the left)."""
    missing = np.isnan(x)
    values = np.unique(x[~missing])
    middles = values[:-1] / 2 + values[1:] / 2
    for threshold in middles:
        yield threshold, False, x <= threshold
    if missing.any() and len(values):
        yield np.inf, False, ~missing
        for threshold in middles:
            yield threshold, True, (x <= threshold) | missing


def splits(X, y, w, criterion, min_samples_leaf):
    """Return {(column, threshold, missing_left): (decrease, rows on the left)}, best ties first."""
    before, found = impurity(criterion, y, w), {}
    for column in range(X.shape[1]):
        for threshold, missing_left, left in sides(X[:, column]):
            if min(left.sum(), (~left).sum()) < min_samples_leaf:
                continue
            after = sum(
                w[side].sum() * impurity(criterion, y[side], w[side]) for side in (left, ~left)
            )
            if np.isfinite(after):
                found[column, threshold, missing_left] = before - after / w.sum(), left
    return found
