"""The examples in docstrings give what they say."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import snapml

ROOT = Path(snapml.__file__).parent


def modules_with_examples():
    for found in pkgutil.walk_packages([str(ROOT)], "snapml."):
        path = ROOT.joinpath(*found.name.split(".")[1:])
        source = path / "__init__.py" if found.ispkg else path.with_suffix(".py")
        if source.exists() and ">>>" in source.read_text():
            yield found.name


@pytest.mark.parametrize("name", sorted(modules_with_examples()))
def test_examples_in_docstrings_give_what_they_say(name):
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_public_classes_have_examples():
    for name in snapml.__all__:
        public = getattr(snapml, name)
        if isinstance(public, type):
            assert ">>>" in public.__doc__, f"{name}: expected an example in its docstring"
