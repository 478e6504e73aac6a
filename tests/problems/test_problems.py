"""Losses and the objective as values."""

import dataclasses

import numpy as np
import pytest
from reference.losses import ORACLES

from snapml import _native, problems
from snapml.problems import (
    Hinge,
    Intercept,
    Logistic,
    Loss,
    Problem,
    Softmax,
    Squared,
)


def test_every_registered_loss_is_compiled_in(loss):
    assert np.isfinite(_native.core_loss(loss.core_name, "value", 0.0, 1.0, True))


def test_registered_losses_are_public_and_have_oracles():
    registered = [cls for cls in Loss.__subclasses__() if cls is not Softmax]
    assert {cls().core_name for cls in registered} == set(ORACLES)
    assert {cls.__name__ for cls in registered} <= set(problems.__all__)


def test_name_in_core_is_the_name_of_the_class(loss):
    assert loss.struct == type(loss).__name__
    assert loss.core_name.partition("(")[0] == loss.struct


def test_losses_of_classification_look_at_the_sign_of_the_label_only(loss):
    """At twice the label and half the margin the product y z is the same."""
    value = [
        _native.core_loss(loss.core_name, "value", z, y, True) for z, y in ((2.0, 1.0), (1.0, 2.0))
    ]
    if loss.labels == "sign":
        assert value[0] == value[1]


def test_equal_problems_are_equal_values():
    assert Problem(Logistic()) == Problem(Logistic(), Intercept.NONE, 1.0)
    assert Problem(Logistic()) != Problem(Hinge())
    assert Problem(Logistic()) != Problem(Logistic(), Intercept.FREE)
    assert hash(Logistic()) == hash(Logistic())


@pytest.mark.parametrize(
    ("value", "field"), [(Problem(Squared()), "loss"), (Squared(), "struct")], ids=str
)
def test_values_are_frozen(value, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)
