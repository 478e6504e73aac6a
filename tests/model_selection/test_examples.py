"""The page's own examples run as they are written."""

import re
from pathlib import Path

import pytest

import snapml

PAGE = Path(snapml.__file__).parents[1] / "docs" / "model_selection.md"


def test_examples_of_the_page_run(capsys):
    if not PAGE.exists():
        pytest.skip("the documentation is not beside an installed package")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    n_shared = [50, 50, 15]
    names = {}
    for block, expected in zip(blocks, n_shared, strict=True):
        exec(compile(block, str(PAGE), "exec"), names)
        assert names["search"].n_shared_ == expected
    assert "\n50 " in capsys.readouterr().out
