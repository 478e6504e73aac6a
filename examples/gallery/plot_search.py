"""
C by cross-validation, on shared reads of X
===========================================

``snapml.model_selection.GridSearchCV`` has scikit-learn's results. Values of C and folds are
columns of one solve: X is not copied, and each of its entries is read once for up to 16 models.
"""

# %%
# Pictures of digits, "is it an even one?": 1,797 rows, 64 columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

from snapml import LogisticRegression
from snapml.model_selection import GridSearchCV

X, digit = load_digits(return_X_y=True)
X, y = scale(X), digit % 2 == 0
search = GridSearchCV(
    LogisticRegression(), {"C": np.logspace(-4, 2, 10)}, cv=5, scoring="neg_log_loss"
)
search.fit(X, y)
print(f"{search.n_shared_} fits on shared reads; best C: {search.best_params_['C']:.3g}")
print(f"the refit is certified: gap {search.best_estimator_.gap_:.1e}")

# %%
# The results are scikit-learn's ``cv_results_``.

results = search.cv_results_
means, spread = -results["mean_test_score"], results["std_test_score"]
figure, axes = plt.subplots()
axes.errorbar(results["param_C"].astype(float), means, yerr=spread, marker="o", capsize=3)
axes.axvline(search.best_params_["C"], color="black", linestyle=":")
axes.set(xscale="log", xlabel="C", ylabel="log loss of rows held out", title="Ten C, five folds")
plt.show()

# %%
# A pipeline, of rows that are scaled anew in each fold: the scaler is fitted once a fold, and what
# it makes is shared by all values of C. Class weights are columns of the same solve, too.

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

grid = {
    "logisticregression__C": np.logspace(-4, 2, 10),
    "logisticregression__class_weight": [None, "balanced"],
}
pipeline = make_pipeline(StandardScaler(), LogisticRegression())
search = GridSearchCV(pipeline, grid, cv=5, scoring="neg_log_loss").fit(X, y)
print(f"{search.n_shared_} fits shared their reads; best: {search.best_params_}")
