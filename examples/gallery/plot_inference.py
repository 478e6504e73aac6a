"""
Standard errors, offsets and bounds
===================================

``inference`` gives the numbers of a statistics package after a fit of this library; an offset adds
what is known about each row, and bounds say what is known about a coefficient.
"""

# %%
# Least squares: a table, as statsmodels prints it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from snapml import LinearRegression, LogisticRegression
from snapml.statistics import inference

X, y = load_diabetes(return_X_y=True, as_frame=True)
found = inference(LinearRegression().fit(X, y), X, y)
print(found.summary())

# %%
# The intervals of 95 %, on columns of one length. Those that leave out zero are filled.

table = found.to_frame().drop(index="intercept")
figure, axes = plt.subplots()
for place, row in enumerate(table.itertuples()):
    is_sure = row.lower > 0 or row.upper < 0
    axes.plot([row.lower, row.upper], [place, place], color="C0")
    axes.plot(row.estimate, place, "o", color="C0", mfc="C0" if is_sure else "white")
axes.axvline(0.0, color="black", linewidth=0.8)
axes.set(yticks=range(len(table)), yticklabels=table.index, xlabel="coefficient")
axes.set_title("Diabetes, with intervals of 95 %")
plt.show()

# %%
# An offset: an older score is known for each row, and the fit learns what it lacks. Its coefficient
# is 1 and is not estimated; predictions need it again.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()
older = LogisticRegression(C=np.inf, tol=1e-10).fit(X[["mean texture"]], y)
score = older.decision_function(X[["mean texture"]])
names = ["mean smoothness", "mean concavity"]
model = LogisticRegression(C=np.inf, tol=1e-10).fit(X[names], y, offset=score)
print(inference(model, X[names], y, offset=score))
print(f"accuracy {older.score(X[['mean texture']], y):.3f}, with the two columns", end=" ")
print(f"{model.score(X[names], y, offset=score):.3f}")

# %%
# Bounds: no large measurement may speak for a benign tumour. The certificate is that of the problem
# with its bounds.

free = LogisticRegression(C=0.1).fit(X, y)
bounded = LogisticRegression(C=0.1, bounds=(-np.inf, 0.0)).fit(X, y)
places = np.arange(X.shape[1])
figure, axes = plt.subplots(figsize=(6.4, 6.4))
axes.barh(places + 0.2, free.coef_[0], 0.4, label="free")
axes.barh(places - 0.2, bounded.coef_[0], 0.4, label="at most 0")
axes.set(yticks=places, yticklabels=X.columns, xlabel="coefficient")
axes.set_title(f"gap {free.gap_:.0e} and {bounded.gap_:.0e}")
axes.legend()
figure.tight_layout()
plt.show()
