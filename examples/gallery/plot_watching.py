"""
Watching a fit, and ending it early
===================================

A fit can log its passes, show a bar, score rows that it is not trained on, and end on time.
Callbacks obey scikit-learn's protocol, which came with its version 1.9.
"""

# %%
# A click log with a weak penalty: the fit overfits, and the rows held out tell.

import warnings

import matplotlib.pyplot as plt
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from snapml import LogisticRegression
from snapml.callbacks import EarlyStopping
from snapml.data import make_click_log

X, y = make_click_log(60_000, 20_000, random_state=0)
fit, rest = slice(40_000), slice(40_000, None)

monitor = ScoringMonitor(scoring="neg_log_loss")
stopping = EarlyStopping(X[rest], y[rest], scoring="neg_log_loss", patience=3)
model = LogisticRegression(C=3.0, solver="pqn").set_callbacks(monitor, stopping).fit(X[fit], y[fit])
print(f"ended after {len(stopping.scores_)} passes; the certified gap is {model.gap_:.3g}")
print(f"log loss: best pass {-stopping.best_score_:.4f}, last {-stopping.scores_[-1]:.4f}")

# %%
# What both have seen, pass by pass. ``best_estimator_`` is the model of the best pass.

trained = [row["neg_log_loss"] for row in monitor.get_logs().data if row["task_name"] == "pass"]
figure, axes = plt.subplots()
for name, scores in (("trained on", trained), ("held out", stopping.scores_)):
    axes.plot(range(1, len(scores) + 1), [-score for score in scores], "o-", label=name)
axes.axvline(stopping.scores_.index(stopping.best_score_) + 1, color="black", linestyle=":")
axes.set(xlabel="pass over the data", ylabel="log loss", title="C = 3")
axes.legend()
plt.show()

# %%
# A stronger penalty does better than an early end, and its minimum is certified.

best = stopping.best_estimator_
strong = LogisticRegression(C=0.1).fit(X[fit], y[fit])
for name, each in (("ended early, C = 3", best), ("to its minimum, C = 0.1", strong)):
    print(f"{name}: {log_loss(y[rest], each.predict_proba(X[rest])):.4f}")

# %%
# A time budget: the best model so far, and how far at most it is from the minimum.

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always", ConvergenceWarning)
    brief = LogisticRegression(C=3.0, max_time_s=0.02).fit(X[fit], y[fit])
print(told[0].message)
least = brief.objective_ - brief.gap_
print(f"objective {brief.objective_:.0f}; that of the minimum is at least {least:.0f}")
