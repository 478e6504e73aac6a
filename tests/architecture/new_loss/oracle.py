"""The oracle of the loss that only a test knows, as `tests/reference/losses.py` would have it."""

# ruff: noqa: F821 - appended to a file that has these names

ORACLES["LogCosh"] = LossOracle(
    value=lambda z, y: np.logaddexp(z - y, y - z) - np.log(2.0),
    gradient=lambda z, y: np.tanh(z - y),
    curvature=lambda z, y: 1.0 / np.cosh(z - y) ** 2,
    conjugate=lambda u, y: np.where(
        abs(u) <= 1,
        u * y + (_x_log_x(1 + u) + _x_log_x(1 - u)) / 2,
        np.inf,
    ),
    dual=lambda state, y: np.tanh(y - state),
    labels="real",
    max_curvature=1.0,
)
