"""
Clicks: a hundred thousand one-hot columns
==========================================

Sparse rows as logs of advertisements have them: one category in each of 39 fields. The fit uses
SciPy's arrays in place, on all cores.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from snapml import LogisticRegression
from snapml.data import make_click_log

X, clicks = make_click_log(n_rows=60_000, n_features=100_000, random_state=0)
print(f"{X.shape[0]:,} rows, {X.shape[1]:,} columns, {X.nnz:,} entries")

# %%
# A grid of strengths.

train, test = X[:50_000], X[50_000:]
strengths = np.logspace(-3, 0, 4)
losses = []
for C in strengths:
    model = LogisticRegression(C=C).fit(train, clicks[:50_000])
    losses.append(log_loss(clicks[50_000:], model.predict_proba(test)[:, 1]))
    print(f"C={C:g}: log loss {losses[-1]:.4f}, gap {model.gap_:.1e}, {model.solver_}")

figure, axes = plt.subplots()
axes.semilogx(strengths, losses, "o-")
axes.set(xlabel="C", ylabel="log loss of rows held out", title="Clicks")
plt.show()
