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
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        assert names["search"].n_shared_ == 50
    assert "\n50 " in capsys.readouterr().out
