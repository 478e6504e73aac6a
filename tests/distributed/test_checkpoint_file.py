"""Files of checkpoints: what was written comes back, and nothing else does."""

import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml.distributed.checkpoints.checkpoint_file import CheckpointFile, write_checkpoint

CONTENT = {
    "text": "ä",
    "numbers": [1, 2.5, float("inf"), None, True],
    "nested": {"coef": np.arange(6.0).reshape(2, 3), "empty": np.empty(0, np.float32)},
}
VECTORS = [np.arange(5, dtype=np.float32), np.arange(5.0) / 3.0]


def written():
    stream = io.BytesIO()
    blocks = (vector[first : first + 2] for vector in VECTORS for first in range(0, 5, 2))
    write_checkpoint(stream, CONTENT, [vector.dtype for vector in VECTORS], blocks)
    return stream.getvalue()


WHOLE = written()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints") / "state"


def test_what_was_written_comes_back(path):
    path.write_bytes(WHOLE)
    found = CheckpointFile(path)
    assert found.content["numbers"] == CONTENT["numbers"]
    assert found.content["text"] == "ä"
    for name, array in CONTENT["nested"].items():
        np.testing.assert_array_equal(found.content["nested"][name], array)
        assert found.content["nested"][name].dtype == array.dtype
    for number, vector in enumerate(VECTORS):
        for begin, end in ((0, 5), (1, 3), (4, 4)):
            block = found.row_block(number, 5, begin, end)
            np.testing.assert_array_equal(block, vector[begin:end])
            assert block.dtype == vector.dtype


def test_a_file_without_rows_comes_back(path):
    stream = io.BytesIO()
    write_checkpoint(stream, {"a": 1}, [], [])
    path.write_bytes(stream.getvalue())
    assert CheckpointFile(path).content == {"a": 1}


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(WHOLE) - 1), change=st.integers(1, 255))
@example(place=0, change=1)
@example(place=17, change=128)
@example(place=len(WHOLE) - 1, change=1)
@example(place=len(WHOLE) - 12, change=255)
def test_any_changed_byte_is_refused(path, place, change):
    content = bytearray(WHOLE)
    content[place] ^= change
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged|another kind of file"):
        CheckpointFile(path)


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, len(WHOLE) - 1))
@example(length=0)
@example(length=20)
@example(length=len(WHOLE) - 1)
def test_any_shorter_file_is_refused(path, length):
    path.write_bytes(WHOLE[:length])
    with pytest.raises(ValueError, match=r"damaged|another kind of file"):
        CheckpointFile(path)


def test_a_longer_file_is_refused(path):
    path.write_bytes(WHOLE + b"\0")
    with pytest.raises(ValueError, match="damaged"):
        CheckpointFile(path)


def test_a_newer_version_is_refused_by_name(path, monkeypatch):
    monkeypatch.setattr("snapml.distributed.checkpoints.checkpoint_file._VERSION", 2)
    path.write_bytes(written())
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"at most version 1 .* got 2: a newer snapml"):
        CheckpointFile(path)
