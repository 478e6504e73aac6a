"""
Are predicted click rates right? And which columns come at which C?
===================================================================

Click rates span decades, so both axes are logarithmic, and every bin holds as many rows.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from snapml import LogisticRegression, LogisticRegressionCV
from snapml.data import make_click_log
from snapml.plots import ClickCalibrationDisplay, RegularizationPathDisplay

X, y = make_click_log(60_000, 20_000, random_state=0)
fit, rest = slice(40_000), slice(40_000, None)
model = LogisticRegression(C=0.1).fit(X[fit], y[fit])
ClickCalibrationDisplay.from_estimator(model, X[rest], y[rest], linestyle="none")
plt.show()

# %%
# With too little regularisation the model is sure of what it has seen once: its lowest rates are
# too low, and its highest too high.

sure = LogisticRegression(C=3.0, max_iter=500).fit(X[fit], y[fit])
ClickCalibrationDisplay.from_estimator(sure, X[rest], y[rest], linestyle="none")
plt.show()

# %%
# The coefficients of a cross-validated model against C, means over the folds.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()
search = LogisticRegressionCV(
    Cs=9, cv=3, l1_ratios=(0.0,), scoring="neg_log_loss", use_legacy_attributes=False
).fit(X, y)
RegularizationPathDisplay.from_estimator(search, n_labels=6)
plt.show()
