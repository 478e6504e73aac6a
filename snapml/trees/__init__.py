"""Decision trees with scikit-learn's interface."""

from snapml.trees.decision_tree import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = ["DecisionTreeClassifier", "DecisionTreeRegressor"]
