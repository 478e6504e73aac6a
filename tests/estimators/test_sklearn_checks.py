"""scikit-learn's own checks of an estimator, none of them expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from snapml import (
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    GeneralizedLinearRegressor,
    GeneralizedLinearRegressorCV,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)


# scikit-learn runs the checks of its own estimators with this warning off too: some of them set
# max_iter to a handful, or pose problems on a scale of 1e6 that no tolerance was chosen for.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LogisticRegression(),
        LogisticRegression(solver="liblinear"),
        LinearSVC(),
        LinearSVC(loss="hinge"),
        Ridge(),
        LogisticRegression(solver="sdca", multi_class="ovr", tol=1e-11, max_iter=2000),
        LogisticRegression(l1_ratio=0.5),
        Lasso(),
        ElasticNet(),
        LassoCV(),
        ElasticNetCV(),
        Ridge(solver="sag"),
        LinearRegression(),
        RidgeClassifier(),
        RidgeCV(),
        RidgeClassifierCV(),
        HuberRegressor(),
        LinearSVR(),
        LinearSVR(loss="squared_epsilon_insensitive"),
        PoissonRegressor(),
        QuantileRegressor(alpha=0.01),
        QuantileRegressor(alpha=0.01, l1_ratio=0.0),
        GammaRegressor(),
        TweedieRegressor(),
        TweedieRegressor(power=1.5),
        NegativeBinomialRegressor(),
        GeneralizedLinearRegressor(),
        GeneralizedLinearRegressorCV(n_alphas=5, cv=2),
    ]
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)
