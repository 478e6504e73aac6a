"""Messages of the command line name its options, not parameters of Python."""

import pytest

from snapml.cli import main
from snapml.cli.own_words import in_own_words

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        (
            "a,city,y\n1,x,0\n2,z,1\n",
            "--label y",
            "column 'city': expected a number, got 'x'; text",
        ),
        ("a,city,y\n1,x,0\n2,z,1\n", "--label y", "hashed to columns of ones .* (--hash-text)"),
        ("a,y\n1,no\n2,yes\n", "", "the label (--label 'y')"),
        ("a;y\n1;0\n2;1\n", "--label y", "maybe --delimiter ';'"),
        ("a,y\n1,0\n2,1\n", "--label z", "--label 'z': expected the name or number"),
        ("a,y\n1,0\n,1\n", "--label y", "row 1 (counted from 0): expected a number, got null"),
        ("a,y\n1,0\n,1\n", "--label y", "hash the columns (--hash-text or --hash-columns)"),
        ("a,y\n1,0\n2,0\n", "--label y", "2 classes"),
    ],
)
def test_errors_in_files_name_options(tmp_path, capsys, text, words, says):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert main(["train", str(path), *words.split(), "--model", str(tmp_path / "m")]) == 1
    error = capsys.readouterr().err
    for part in says.split(" .* "):
        assert part in error
    assert "=" not in error.replace(str(path), "")


def test_a_store_that_exists_names_append(tmp_path, capsys):
    (tmp_path / "rows.svm").write_text("1 1:2\n0 1:1\n")
    command = ["convert", str(tmp_path / "rows.svm"), str(tmp_path / "store")]
    assert main(command) == 0
    assert main(command) == 1
    assert capsys.readouterr().err.endswith("expected a new or empty folder, or --append\n")
    assert main([*command, "--append"]) == 0


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("n_features=3: expected 4", "--n-features 3: expected 4"),
        ("set zero_based=True", "set --zero-based yes"),
        ("device_ids=[0, 1]: no", "--devices 0, 1: no"),
        ("no GPU; use device_ids=None", "no GPU; leave out --devices"),
        ("x == y, C==1", "x == y, C==1"),
    ],
)
def test_parameters_become_options(message, expected):
    assert in_own_words(message) == expected
