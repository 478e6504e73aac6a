"""
Coefficients, their errors, and how a fit got there
===================================================

After a fit: which columns count, how sure that is, and how fast the certified gap fell.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from snapml import LogisticRegression
from snapml.plots import CoefficientsDisplay, ConvergenceDisplay
from snapml.statistics import inference

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()
model = LogisticRegression(C=0.1).fit(X, y)
CoefficientsDisplay.from_estimator(model, n_largest=12)
plt.tight_layout()
plt.show()

# %%
# Standard errors and p-values, of columns that do not say the same thing twice.

few = X[["mean texture", "mean area", "mean smoothness", "mean concavity"]]
print(inference(LogisticRegression(C=float("inf")).fit(few, y), few, y))

# %%
# The gap bounds how far the objective is above its minimum; the line across is the tolerance.

ConvergenceDisplay.from_estimator(LogisticRegression(C=100.0).fit(X, y))
plt.show()
