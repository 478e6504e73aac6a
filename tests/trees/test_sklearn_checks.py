"""scikit-learn's own checks of an estimator, none of them expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from snapml import DecisionTreeClassifier, DecisionTreeRegressor


@parametrize_with_checks(
    [
        DecisionTreeClassifier(),
        DecisionTreeClassifier(splitter="hist"),
        DecisionTreeClassifier(
            splitter="hist", criterion="entropy", max_features="sqrt", ccp_alpha=0.01
        ),
        DecisionTreeClassifier(splitter="best"),
        DecisionTreeRegressor(),
        DecisionTreeRegressor(splitter="hist"),
        DecisionTreeRegressor(splitter="hist", max_features=0.5, min_impurity_decrease=0.01),
        DecisionTreeRegressor(splitter="best"),
    ]
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)
