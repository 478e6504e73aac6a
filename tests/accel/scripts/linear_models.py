"""As in scikit-learn's gallery: shrinkage, sparsity and a robustly chosen alpha."""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ElasticNet, Lasso, LassoCV, LinearRegression, Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

X, y = load_diabetes(return_X_y=True)
for model in (LinearRegression(), Ridge(alpha=0.1), Lasso(alpha=0.1), ElasticNet(alpha=0.01)):
    fitted = clone(model).fit(X, y)
    zeros = int(np.sum(fitted.coef_ == 0))
    print(f"{model!r}: r2 {r2_score(y, fitted.predict(X)):.3f}, {zeros} zeros")
    print(f"    {cross_val_score(model, X, y, cv=5).mean():.3f}")
print(f"{LassoCV(cv=5).fit(X, y).alpha_:.4f} {RidgeCV([0.01, 0.1, 1.0]).fit(X, y).alpha_}")
