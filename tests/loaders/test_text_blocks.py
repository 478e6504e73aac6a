"""Blocks of text: every line once, through two buffers."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml.io import text_blocks


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    st.booleans(),
)
@example([b"a" * 39, b"", b"b", b"c" * 100, b"d"], False)
@example([b"a" * 7], True)
@example([], True)
def test_blocks_are_whole_lines_and_the_whole_text(lines, ends):
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", 8)
        blocks = [bytes(b) for b in text_blocks.text_blocks(io.BytesIO(text), "text", 0, -1)]
    assert b"".join(blocks) == text
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_two_buffers_serve_all_blocks(monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    blocks = text_blocks.text_blocks(io.BytesIO(b"a line\n" * 1000), "text", 0, -1)
    buffers = [block.obj for block in blocks]
    assert len(buffers) > 50
    assert len({id(buffer) for buffer in buffers}) <= 6  # which grow with the longest rest
