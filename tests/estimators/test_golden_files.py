"""Model files of every release: this version loads them, and answers as the writer did."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import snapml
from tests.golden.make import fitted

VERSIONS = sorted(path for path in (Path(__file__).parents[1] / "golden").glob("[0-9]*"))
FILES = [path for version in VERSIONS for path in sorted(version.glob("*.model"))]


def test_there_are_files_of_every_kind_of_model_that_this_version_writes():
    newest = {path.stem for path in VERSIONS[-1].glob("*.model")}
    assert newest >= set(fitted())
    classes = {name for name in snapml.__all__ if hasattr(getattr(snapml, name), "fit")}
    assert {name.partition("-")[0] for name in newest} == classes


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_model_of_a_release_answers_what_it_did_then(path):
    expected = json.loads((path.parent / "expected.json").read_text())
    model, X = snapml.load(path), np.array(expected["rows"])
    if path.stem.endswith("float32"):
        X = X.astype(np.float32)
    for method, answer in expected["answers"][path.stem].items():
        found = getattr(model, method)(X)
        if np.asarray(answer).dtype.kind in "biU":
            np.testing.assert_array_equal(found, answer)
        else:  # another processor adds up in another order
            np.testing.assert_allclose(found, answer, rtol=1e-5 if X.itemsize == 4 else 1e-12)
    gap = expected["gaps"][path.stem]
    assert gap is None or math.isclose(model.gap_, gap)
