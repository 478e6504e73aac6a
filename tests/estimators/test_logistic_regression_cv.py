"""LogisticRegressionCV with more than two classes, against LogisticRegression."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from snapml import LogisticRegression, LogisticRegressionCV

from .conftest import iris_data

PARAMETERS = {"l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}


@pytest.mark.parametrize("multi_class", ["auto", "multinomial", "ovr"])
def test_scores_and_models_are_those_of_single_fits(multi_class):
    X, y = iris_data()
    rows = np.arange(len(y))
    folds = [(rows[k::3], np.setdiff1d(rows, rows[k::3])) for k in range(3)]
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=folds, multi_class=multi_class, **PARAMETERS)
    model.fit(X, y)
    assert model.coefs_paths_.shape == (3, 1, 2, 3, X.shape[1] + 1)
    for fold, (train, test) in enumerate(folds):
        for at, C in enumerate([0.1, 1.0]):
            single = LogisticRegression(C=C, multi_class=multi_class).fit(X[train], y[train])
            score = -log_loss(y[test], single.predict_proba(X[test]))
            assert model.scores_[fold, 0, at] == pytest.approx(score, rel=1e-5)
    final = LogisticRegression(C=model.C_, multi_class=multi_class).fit(X, y)
    np.testing.assert_allclose(model.coef_, final.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), final.predict_proba(X), atol=1e-6)


def test_fold_without_a_class_gives_it_no_chance():
    X, y = iris_data()
    seen = np.flatnonzero(y != y[0])
    for multi_class in ("multinomial", "ovr"):
        model = LogisticRegressionCV(
            Cs=[1.0], cv=[(seen, np.arange(len(y)))], multi_class=multi_class, refit=False,
            **PARAMETERS,
        ).fit(X, y)  # fmt: skip
        single = LogisticRegression(multi_class=multi_class).fit(X[seen], y[seen])
        np.testing.assert_allclose(
            model.predict_proba(X)[:, model.classes_ != y[0]], single.predict_proba(X), atol=1e-6
        )
