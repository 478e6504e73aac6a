"""The losses in plain NumPy: value, derivatives, conjugate, dual variable, gap.

All functions work elementwise in the type
of their arguments, so that `numpy.longdouble` gives an oracle for float64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

Elementwise = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LossOracle:
    """One loss l(z, y).

    Attributes
    ----------
    value, gradient, curvature : callable
        l, l' and l'' in the margin z.
    conjugate : callable
        l*(u) = sup_z (u z - l(z)).
    dual : callable
        beta / c from the stored state and the label.
    labels : str
        What labels are: "sign" (-1 and +1), "real" or "count" (from 0 on).
    kinks : callable
        Margins at which the gradient or the curvature jumps, from the label.
    is_smooth : bool
        Whether the gradient is continuous, and the state therefore a margin.
    states : tuple of float, or None
        Least and largest state, where the state is no margin.
    max_curvature : float
        Largest l''; infinite where there is none.
    """

    value: Elementwise
    gradient: Elementwise
    curvature: Elementwise
    conjugate: Elementwise
    dual: Elementwise
    labels: str = "sign"
    kinks: Callable[[float], tuple[float, ...]] = lambda y: ()
    is_smooth: bool = True
    states: tuple[float, float] | None = None
    max_curvature: float = 0.0

    def gap(self, state: np.ndarray, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return l(z) + l*(-beta) + beta z: what one row adds to the duality gap."""
        beta = self.dual(state, y)
        if self.is_smooth:  # the same, as a Bregman divergence: no conjugate near its bounds
            s = state
            return self.value(z, y) - self.value(s, y) + beta * (z - s)
        return self.value(z, y) + self.conjugate(-beta, y) + beta * z


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def _x_log_x(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.where(x > 0, x, 1))


def _logistic_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    a = -u * y
    entropy = _x_log_x(a) + _x_log_x(1 - a)
    return np.where((a >= 0) & (a <= 1), entropy, np.inf)


def _hinge_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    a = -u * y
    return np.where((a >= 0) & (a <= 1), -a, np.inf)


def _squared_hinge_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    a = -u * y
    return np.where(a >= 0, a**2 / 4 - a, np.inf)


def _squared_hinge_gradient(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -2 * y * np.maximum(0, 1 - y * z)


def _poisson_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    mean = u + y
    return np.where(mean >= 0, _x_log_x(mean) - mean - _x_log_x(y) + y, np.inf)


def _mills(x: np.ndarray) -> np.ndarray:
    """Return the tail of the normal law beyond x by its density there."""
    return np.sqrt(np.pi / 2) * special.erfcx(np.asarray(x, np.float64) / np.sqrt(2))


def _probit_curvature(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    m = y * z
    ratio = _mills(-np.minimum(m, 30))
    return np.where(m > 0, (1 / ratio + m) / ratio, (1 + m * ratio) / ratio**2)


def _probit_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    h = -float(u * y)
    if h <= 0:
        return np.float64(0.0 if h == 0 else np.inf)
    m = optimize.brentq(lambda m: 1 / _mills(-m) - h, -h - 1, 38, xtol=1e-15, rtol=1e-15)
    return -h * m + special.log_ndtr(m)


def _cloglog_value(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = np.asarray(z, np.float64)
    near = np.maximum(z, -30)
    rate = np.exp(near)
    some = np.where(rate > 1, -np.log1p(-np.exp(-rate)), -np.log(-np.expm1(-np.minimum(rate, 1))))
    return np.where(np.asarray(y) < 0, np.exp(z), np.where(z < -30, -z, some))


def _cloglog_gradient(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    rate = np.exp(np.asarray(z, np.float64))
    return np.where(np.asarray(y) < 0, rate, -(special.exprel(rate) ** -1.0))


def _cloglog_curvature(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    rate = np.exp(np.asarray(z, np.longdouble))
    share = rate / np.expm1(np.minimum(rate, 1e3))
    return np.float64(np.where(np.asarray(y) < 0, rate, share * (share + rate - 1)))


def _cloglog_conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    u = float(u)
    if y < 0:
        return _poisson_conjugate(np.float64(u), np.float64(0.0))
    if not 0 < -u < 1:
        return np.float64(0.0 if u in (0, -1) else np.inf)
    z = optimize.brentq(lambda z: _cloglog_gradient(z, 1.0) - u, -40, 7, xtol=1e-15, rtol=1e-15)
    return u * z - _cloglog_value(z, 1.0)


def _quantile(q: float) -> LossOracle:
    return LossOracle(
        value=lambda z, y: np.maximum(q * (y - z), (q - 1) * (y - z)),
        gradient=lambda z, y: np.where(z > y, 1 - q, -q),
        curvature=lambda z, y: np.zeros_like(z),
        conjugate=lambda u, y: np.where((u >= -q) & (u <= 1 - q), u * y, np.inf),
        dual=lambda state, y: 1.0 * state,  # a copy
        labels="real",
        kinks=lambda y: (y,),
        is_smooth=False,
        states=(q - 1, q),
    )


def _epsilon_insensitive(epsilon: float) -> LossOracle:
    return LossOracle(
        value=lambda z, y: np.maximum(0, abs(z - y) - epsilon),
        gradient=lambda z, y: np.where(abs(z - y) > epsilon, np.sign(z - y), 0.0),
        curvature=lambda z, y: np.zeros_like(z),
        conjugate=lambda u, y: np.where(abs(u) <= 1, u * y + epsilon * abs(u), np.inf),
        dual=lambda state, y: 1.0 * state,  # a copy
        labels="real",
        kinks=lambda y: (y - epsilon, y + epsilon),
        is_smooth=False,
        states=(-1.0, 1.0),
    )


def squared_epsilon_insensitive(epsilon: float) -> LossOracle:
    def outside(r):
        return np.sign(r) * np.maximum(0, abs(r) - epsilon)

    return LossOracle(
        value=lambda z, y: outside(z - y) ** 2,
        gradient=lambda z, y: 2 * outside(z - y),
        curvature=lambda z, y: np.where(abs(z - y) < epsilon, 0.0, 2.0),
        conjugate=lambda u, y: u * y + epsilon * abs(u) + u**2 / 4,
        dual=lambda state, y: 2 * outside(y - state),
        labels="real",
        kinks=lambda y: (y - epsilon, y + epsilon),
        max_curvature=2.0,
    )


def _negative_binomial(theta: float) -> LossOracle:
    def raw(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (y + 1 / theta) * np.logaddexp(0, z + np.log(theta)) - y * z

    def least(y: np.ndarray) -> np.ndarray:
        return (y + 1 / theta) * np.log1p(theta * y) - _x_log_x(y)

    def conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
        m = y + 1 / theta
        r = np.clip((u + y) / m, 0, 1)
        raw_conjugate = m * (_x_log_x(r) + _x_log_x(1 - r)) - (u + y) * np.log(theta)
        return np.where((u + y >= 0) & (u + y <= m), raw_conjugate + least(y), np.inf)

    def gradient(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (y + 1 / theta) * _sigmoid(z + np.log(theta)) - y

    def curvature(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        q = _sigmoid(z + np.log(theta))
        return (y + 1 / theta) * q * (1 - q)

    return LossOracle(
        value=lambda z, y: raw(z, y) - least(y),
        gradient=gradient,
        curvature=curvature,
        conjugate=conjugate,
        dual=lambda state, y: -gradient(state, y),
        labels="count",
        max_curvature=np.inf,
    )


def _tweedie(power: float) -> LossOracle:
    a, b = 2 - power, power - 1

    def gradient(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(a * z) - y * np.exp(-b * z)

    def value(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(a * z) / a + y * np.exp(-b * z) / b - y**a / (a * b)

    def conjugate(u: np.ndarray, y: np.ndarray) -> np.ndarray:
        u, y = np.broadcast_arrays(np.asarray(u, np.longdouble), np.asarray(y, np.longdouble))
        low, high = np.full(u.shape, np.longdouble(-2e3)), np.full(u.shape, np.longdouble(2e3))
        for _ in range(200):  # the slope rises in z: halve
            middle = (low + high) / 2
            is_below = gradient(middle, y) < u
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        z = (low + high) / 2
        return np.where((y == 0) & (u < 0), np.inf, np.where(u == 0, y * 0.0, u * z) - value(z, y))

    return LossOracle(
        value=value,
        gradient=gradient,
        curvature=lambda z, y: a * np.exp(a * z) + b * y * np.exp(-b * z),
        conjugate=conjugate,
        dual=lambda state, y: -gradient(state, y),
        labels="count",
        max_curvature=np.inf,
    )


ORACLES = {
    "Logistic": LossOracle(
        value=lambda z, y: np.logaddexp(0, -y * z),
        gradient=lambda z, y: -y * _sigmoid(-y * z),
        curvature=lambda z, y: _sigmoid(z) * _sigmoid(-z),
        conjugate=_logistic_conjugate,
        dual=lambda state, y: y * _sigmoid(-y * state),
        max_curvature=0.25,
    ),
    "Probit": LossOracle(
        value=lambda z, y: -special.log_ndtr(np.asarray(y * z, np.float64)),
        gradient=lambda z, y: -y / _mills(-np.minimum(y * z, 38)),
        curvature=_probit_curvature,
        conjugate=_probit_conjugate,
        dual=lambda state, y: y / _mills(-np.minimum(y * state, 38)),
        max_curvature=1.0,
    ),
    "ComplementaryLogLog": LossOracle(
        value=_cloglog_value,
        gradient=_cloglog_gradient,
        curvature=_cloglog_curvature,
        conjugate=_cloglog_conjugate,
        dual=lambda state, y: -_cloglog_gradient(state, y),
        max_curvature=np.inf,
    ),
    "SmoothedHinge": LossOracle(
        value=lambda z, y: np.where(y * z > 0, np.maximum(0, 1 - y * z) ** 2 / 2, 0.5 - y * z),
        gradient=lambda z, y: -y * np.clip(1 - y * z, 0, 1),
        curvature=lambda z, y: np.where((y * z > 0) & (y * z < 1), 1.0, 0.0),
        conjugate=lambda u, y: np.where((u * y <= 0) & (u * y >= -1), u * y + u**2 / 2, np.inf),
        dual=lambda state, y: y * np.clip(1 - y * state, 0, 1),
        kinks=lambda y: (0.0, y),
        max_curvature=1.0,
    ),
    "Squared": LossOracle(
        value=lambda z, y: (z - y) ** 2 / 2,
        gradient=lambda z, y: z - y,
        curvature=lambda z, y: np.ones_like(z),
        conjugate=lambda u, y: u * y + u**2 / 2,
        dual=lambda state, y: y - state,
        labels="real",
        max_curvature=1.0,
    ),
    "Hinge": LossOracle(
        value=lambda z, y: np.maximum(0, 1 - y * z),
        gradient=lambda z, y: np.where(y * z < 1, -y, 0),
        curvature=lambda z, y: np.zeros_like(z),
        conjugate=_hinge_conjugate,
        dual=lambda state, y: y * state,
        kinks=lambda y: (y,),
        is_smooth=False,
        states=(0.0, 1.0),
    ),
    "SquaredHinge": LossOracle(
        value=lambda z, y: np.maximum(0, 1 - y * z) ** 2,
        gradient=_squared_hinge_gradient,
        curvature=lambda z, y: np.where(y * z < 1, 2.0, 0.0),
        conjugate=_squared_hinge_conjugate,
        dual=lambda state, y: -_squared_hinge_gradient(state, y),
        kinks=lambda y: (y,),
        max_curvature=2.0,
    ),
    "Huber": LossOracle(
        value=lambda z, y: np.where(abs(z - y) <= 1, (z - y) ** 2 / 2, abs(z - y) - 0.5),
        gradient=lambda z, y: np.clip(z - y, -1, 1),
        curvature=lambda z, y: np.where(abs(z - y) <= 1, 1.0, 0.0),
        conjugate=lambda u, y: np.where(abs(u) <= 1, u * y + u**2 / 2, np.inf),
        dual=lambda state, y: np.clip(y - state, -1, 1),
        labels="real",
        kinks=lambda y: (y - 1.0, y + 1.0),
        max_curvature=1.0,
    ),
    "Poisson": LossOracle(
        value=lambda z, y: np.exp(z) - y * z + _x_log_x(y) - y,
        gradient=lambda z, y: np.exp(z) - y,
        curvature=lambda z, y: np.exp(z),
        conjugate=_poisson_conjugate,
        dual=lambda state, y: y - np.exp(state),
        labels="count",
        max_curvature=np.inf,
    ),
    "Quantile(0.5)": _quantile(0.5),
    "EpsilonInsensitive(0.0)": _epsilon_insensitive(0.0),
    "SquaredEpsilonInsensitive(0.0)": squared_epsilon_insensitive(0.0),
    "NegativeBinomial(1.0)": _negative_binomial(1.0),
    "Tweedie(1.5)": _tweedie(1.5),
}
