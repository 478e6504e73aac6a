"""The page's own examples run as they are written."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import snapml

PAGE = Path(snapml.__file__).parents[1] / "docs" / "model_selection.md"


def test_examples_of_the_page_run(capsys):
    if not PAGE.exists():
        pytest.skip("the documentation is not beside an installed package")
    *searches, paths = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    n_shared = [50, 50, 15]
    names = {}
    for block, expected in zip(searches, n_shared, strict=True):
        exec(compile(block, str(PAGE), "exec"), names)
        assert names["search"].n_shared_ == expected
    assert "\n50 " in capsys.readouterr().out
    exec(compile(paths, str(PAGE), "exec"), names)
    from_file, X, y = names["model"], names["X"], names["y"]
    in_memory = clone(from_file).fit(X, y)
    assert from_file.C_ == in_memory.C_
    np.testing.assert_allclose(from_file.scores_, in_memory.scores_, rtol=1e-3)
