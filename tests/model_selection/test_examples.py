"""The page's own example runs as it is written."""

import re
from pathlib import Path

import pytest

import snapml

PAGE = Path(snapml.__file__).parents[1] / "docs" / "model_selection.md"


@pytest.mark.parametrize("number", [0])
def test_examples_of_the_page_run(number, capsys):
    if not PAGE.exists():
        pytest.skip("the documentation is not beside an installed package")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 1
    exec(compile(blocks[number], str(PAGE), "exec"), {})
    assert "\n50\n" in capsys.readouterr().out
