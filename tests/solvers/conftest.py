"""One loss of each kind: what the others add is their formulas, which `tests/core` holds."""

import pytest

from snapml.problems import Hinge, Logistic, Poisson, Squared, SquaredHinge


@pytest.fixture(
    scope="session",
    params=[Hinge, Logistic, Poisson, Squared, SquaredHinge],
    ids=lambda cls: cls.__name__,
)
def loss(request):
    return request.param()
