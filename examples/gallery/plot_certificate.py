"""
A fit that proves how good it is
================================

``gap_`` bounds how far the objective is above its minimum. It is computed from the data in float64,
whatever the solver did, so it can be trusted where a "converged" flag cannot.
"""

# %%
# Standardised measurements of tumours, two classes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as Other
from sklearn.preprocessing import StandardScaler

from snapml import LogisticRegression

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
model = LogisticRegression(C=10.0).fit(X, y)
print(f"objective {model.objective_:.6f}, at most {model.gap_:.1e} above the minimum")
print(model.solver_)

# %%
# The gap holds against anybody's answer: scikit-learn's cannot be better by more.


def objective(w, b):
    """Return what both libraries minimise."""
    return 0.5 * w @ w + 10.0 * np.logaddexp(0.0, -(2 * y - 1) * (X @ w + b)).sum()


other = Other(C=10.0, max_iter=10_000).fit(X, y)
difference = objective(other.coef_[0], other.intercept_[0]) - model.objective_
print(f"scikit-learn's is {difference:.1e} above ours")
assert difference >= -model.gap_

# %%
# ``history_`` has the gap of each step.

steps = [step for step in model.history_ if step["gap"] > 0]
figure, axes = plt.subplots()
axes.semilogy([1e3 * step["time_s"] for step in steps], [step["gap"] for step in steps], "o-")
axes.set(xlabel="milliseconds", ylabel="certified gap", title="Logistic regression, C = 10")
plt.show()
