"""Leave-one-out residuals against the models that were really fitted without the row."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, DenseMatrix
from snapml.solvers.least_squares.least_squares import solve_least_squares
from snapml.solvers.least_squares.leave_one_out import LeaveOneOut


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 10.0])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("shape", "by_svd"), [((30, 4), False), ((30, 4), True), ((8, 20), False), ((9, 9), False)]
)
def test_predictions_are_those_of_models_without_the_row(
    shape, by_svd, fit_intercept, is_weighted, alpha, layout
):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=shape) + 1.0, rng.normal(size=(shape[0], 2)) + 3.0
    weights = np.append(rng.random(shape[0] - 1) + 0.5, 0.0) if is_weighted else None
    matrix = DenseMatrix(X)
    if layout == "csr":
        rows = csr_matrix(X)
        matrix = CompressedMatrix(rows.indptr, rows.indices, shape[1], rows.data)
    left_out = LeaveOneOut(matrix, Y, weights, fit_intercept, by_svd=by_svd)
    predictions = left_out.predictions(alpha)
    for row in range(shape[0]):
        others = np.arange(shape[0]) != row
        model = solve_least_squares(
            DenseMatrix(X[others]),
            Y[others],
            None if weights is None else weights[others],
            fit_intercept,
            alphas=alpha,
        )
        expected = X[row] @ model.coef.T + model.intercept
        np.testing.assert_allclose(predictions[row], expected, rtol=1e-6, atol=1e-6)
    roots = 1.0 if weights is None else np.sqrt(weights)[:, np.newaxis]
    np.testing.assert_allclose(left_out.residuals(alpha), roots * (Y - predictions), atol=1e-6)
