"""What "balanced" counts: weights as repetition, or rows where scikit-learn counts those."""

import numpy as np
import pytest
from sklearn.linear_model import RANSACRegressor
from sklearn.linear_model import RidgeClassifier as TheirRidgeClassifier

from snapml import LinearRegression, LinearSVC, LogisticRegression, RidgeClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = (X[:, 0] + RNG.normal(size=200) > 1.0).astype(int)
COUNTS = RNG.integers(0, 4, 200)


@pytest.mark.parametrize("model", [LogisticRegression, LinearSVC])
def test_weights_are_repetitions(model):
    weighted = model(class_weight="balanced", tol=1e-12).fit(X, Y, sample_weight=COUNTS)
    repeated = model(class_weight="balanced", tol=1e-12).fit(X.repeat(COUNTS, 0), Y.repeat(COUNTS))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)


def test_ridge_classifier_counts_rows_as_scikit_learn_does():
    ours = RidgeClassifier(class_weight="balanced").fit(X, Y, sample_weight=COUNTS)
    theirs = TheirRidgeClassifier(class_weight="balanced").fit(X, Y, sample_weight=COUNTS)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)


def test_ransac_takes_our_class_as_the_page_says():
    y = X @ [1.0, 2.0, 3.0]
    y[:20] += 50.0
    model = RANSACRegressor(LinearRegression(), min_samples=X.shape[1] + 1, random_state=0)
    np.testing.assert_allclose(model.fit(X, y).estimator_.coef_, [1.0, 2.0, 3.0], rtol=1e-9)
