"""Classes of MPI say what they take, as those of one machine do."""

import inspect

import pytest
from sklearn.base import clone

import snapml

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

from snapml.distributed import mpi

NAMES = ("ElasticNet", "Lasso", "LinearRegression", "LinearSVC", "LogisticRegression", "Ridge")
OF_JOBS = ["comm", "checkpoint", "checkpoint_every", "report"]


@pytest.mark.parametrize("name", NAMES)
def test_signature_has_the_parameters_of_both(name):
    found = list(inspect.signature(getattr(mpi, name)).parameters)
    assert found == OF_JOBS + list(inspect.signature(getattr(snapml, name)).parameters)
    assert set(found) == set(getattr(mpi, name)().get_params())


@pytest.mark.parametrize("name", NAMES)
def test_documentation_explains_every_parameter(name):
    text = inspect.getdoc(getattr(mpi, name))
    assert text.startswith(f"`snapml.{name}` on the rows of all ranks")
    told = {
        each
        for line in text.splitlines()
        for each in line.split(" : ")[0].split(", ")
        if " : " in line
    }
    assert set(inspect.signature(getattr(mpi, name)).parameters) <= told
    assert "Examples" not in text


@pytest.mark.parametrize("name", NAMES)
def test_repr_and_clone_show_what_was_set(name):
    model = getattr(mpi, name)(tol=0.25, report="r.json")
    assert repr(model) == repr(clone(model)) == f"{name}(report='r.json', tol=0.25)"


def test_unknown_parameters_are_refused_by_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'alfa'"):
        mpi.Lasso(alfa=1)
