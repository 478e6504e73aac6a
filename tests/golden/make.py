"""Write the model files of this version, which all later versions must load.

Run once for each release, from the repository's root; files of former releases stay as they are::

    python -m tests.golden.make

A folder for the version gets one file for each case, and ``expected.json``: rows, and what each
model answers for them.
"""

import json
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import snapml

FOLDER = Path(__file__).parent
METHODS = ("predict", "decision_function", "predict_proba", "apply")


def rows():
    """Return 40 rows of four columns, numbers to learn from them, and labels."""
    rng = np.random.default_rng(7)
    X = np.round(rng.normal(size=(40, 4)), 2)
    target = np.round(X @ [1.0, -2.0, 0.0, 0.5] + 0.1 * rng.normal(size=40), 2)
    return X, target, np.array(["a", "bb", "ccc"])[X[:, :3].argmax(axis=1)]


@cache
def fitted():
    """Return a fitted model for every kind that a file can hold, by name."""
    X, t, y = rows()
    two, several = y == "a", np.column_stack([t, -t])
    codes = np.column_stack([np.digitize(X[:, 0], [-1.0, 0.0, 1.0]), X[:, 1:]])
    cv = {"cv": 3}
    logistic = {"l1_ratios": (0.0,), "use_legacy_attributes": True, "Cs": 3, **cv}
    logistic["scoring"] = "accuracy"
    return {
        "DecisionTreeClassifier": snapml.DecisionTreeClassifier(max_depth=3).fit(X, y),
        "DecisionTreeClassifier-outputs": snapml.DecisionTreeClassifier(max_depth=2).fit(
            X, np.column_stack([two, y == "bb"]).astype(int)
        ),
        "DecisionTreeRegressor": snapml.DecisionTreeRegressor(max_depth=3).fit(X, t),
        "DecisionTreeRegressor-categories": snapml.DecisionTreeRegressor(
            max_depth=3, splitter="hist", categorical_features=[0]
        ).fit(codes, t),
        "ElasticNet": snapml.ElasticNet(alpha=0.1).fit(X, t),
        "ElasticNet-several": snapml.ElasticNet(alpha=0.1).fit(X, several),
        "ElasticNetCV": snapml.ElasticNetCV(alphas=5, **cv).fit(X, t),
        "Lasso": snapml.Lasso(alpha=0.1).fit(X, t),
        "LassoCV": snapml.LassoCV(alphas=5, **cv).fit(X, t),
        "LinearRegression": snapml.LinearRegression().fit(X, t),
        "LinearSVC": snapml.LinearSVC(class_weight={"a": 2.0}).fit(X, y),
        "LogisticRegression": snapml.LogisticRegression(C=np.float32(2.0)).fit(X, y),
        "LogisticRegression-float32": snapml.LogisticRegression().fit(X.astype(np.float32), two),
        "LogisticRegression-ovr": snapml.LogisticRegression(multi_class="ovr").fit(X, y),
        "LogisticRegression-sparse": snapml.LogisticRegression(l1_ratio=1.0, C=0.5)
        .fit(X, y)
        .sparsify(),
        "LogisticRegressionCV": snapml.LogisticRegressionCV(**logistic).fit(X, y),
        "PoissonRegressor": snapml.PoissonRegressor(alpha=0.1).fit(X, np.abs(t)),
        "GammaRegressor": snapml.GammaRegressor(alpha=0.1).fit(X, np.abs(t) + 0.1),
        "TweedieRegressor": snapml.TweedieRegressor(power=1.5, alpha=0.1).fit(X, np.abs(t)),
        "GeneralizedLinearRegressor": snapml.GeneralizedLinearRegressor(
            family="gamma", alpha=0.1
        ).fit(X, np.abs(t) + 0.1),
        "GeneralizedLinearRegressorCV": snapml.GeneralizedLinearRegressorCV(
            family="poisson", l1_ratio=0.5, n_alphas=4, **cv
        ).fit(X, np.abs(t)),
        "NegativeBinomialRegressor": snapml.NegativeBinomialRegressor().fit(X, np.abs(t).round()),
        "HuberRegressor": snapml.HuberRegressor().fit(X, t),
        "LinearSVR": snapml.LinearSVR(epsilon=0.1).fit(X, t),
        "QuantileRegressor": snapml.QuantileRegressor(quantile=0.75, alpha=0.01).fit(X, t),
        "Ridge": snapml.Ridge(alpha=0.5).fit(X, t),
        "Ridge-several": snapml.Ridge(alpha=np.array([0.5, 1.0])).fit(X, several),
        "RidgeCV": snapml.RidgeCV(store_cv_results=True).fit(X, t),
        "RidgeClassifier": snapml.RidgeClassifier().fit(X, y),
        "RidgeClassifier-labels": snapml.RidgeClassifier().fit(
            X, np.column_stack([two, y == "bb"]).astype(int)
        ),
        "RidgeClassifierCV": snapml.RidgeClassifierCV().fit(X, two),
    }


def answers(model, X):
    """Return what a model says of rows, as lists; of several outputs a list of them."""
    found = {name: getattr(model, name)(X) for name in METHODS if hasattr(model, name)}
    return {
        name: [each.tolist() for each in value] if isinstance(value, list) else value.tolist()
        for name, value in found.items()
    }


def main():
    """Write all files; refuse to replace those of a version that has some."""
    folder = FOLDER / snapml.__version__
    if folder.exists():
        sys.exit(f"{folder.name} has its files: later versions must load these")
    folder.mkdir()
    X, _, _ = rows()
    X = np.vstack([X[:4], [[3.0, 0.0, 2.0, 1.0]]])  # the first column is a category for one of them
    expected = {"rows": X.tolist(), "answers": {}, "gaps": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = fitted()
    for name, model in models.items():
        model.save(folder / f"{name}.model")
        expected["answers"][name] = answers(model, X)
        expected["gaps"][name] = getattr(model, "gap_", None)
    (folder / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    main()
