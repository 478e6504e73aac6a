"""As in scikit-learn's gallery: trees, and estimators that hold others."""

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, export_text

X, y = load_iris(return_X_y=True)
tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
print(export_text(tree, decimals=1))
print(DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y).get_n_leaves())
stack = [("tree", DecisionTreeClassifier(random_state=0)), ("ridge", RidgeClassifier())]
for model in (
    CalibratedClassifierCV(LinearSVC()),
    AdaBoostClassifier(n_estimators=5, random_state=0),
    BaggingClassifier(DecisionTreeClassifier(), n_estimators=5, random_state=0),
    OneVsRestClassifier(LogisticRegression()),
    StackingClassifier(stack),
):
    print(f"{type(model).__name__} {model.fit(X, y).score(X, y):.1f}")
print(RFE(LogisticRegression(), n_features_to_select=2).fit(X, y).support_)
print(SelectFromModel(LinearSVC(C=0.01)).fit(X, y).get_support())
