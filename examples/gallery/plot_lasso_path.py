"""
The lasso along its path
========================

``lasso_path`` starts each strength from the one before; ``LassoCV`` chooses one by folds.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from snapml import LassoCV, lasso_path

data = load_diabetes()
X = StandardScaler().fit_transform(data.data)
y = data.target - data.target.mean()
alphas, coefs, gaps = lasso_path(X, y)
chosen = LassoCV(cv=5).fit(X, y)
print(f"alpha {chosen.alpha_:.3f} keeps {np.count_nonzero(chosen.coef_)} of {X.shape[1]} columns")
print(f"largest certified gap on the path: {gaps.max():.1e}")

# %%
figure, axes = plt.subplots()
for name, path in zip(data.feature_names, coefs, strict=True):
    axes.semilogx(alphas, path, label=name)
axes.axvline(chosen.alpha_, color="black", linestyle=":", label="chosen")
axes.invert_xaxis()
axes.set(xlabel="alpha", ylabel="coefficient", title="The lasso of the diabetes data")
axes.legend(fontsize="small", ncols=2)
plt.show()
