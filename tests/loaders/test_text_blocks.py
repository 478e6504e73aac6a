"""Blocks of text: every line once, through two buffers."""

import io
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml.io.readers import text_blocks


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


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    st.booleans(),
    st.lists(st.integers(1, 300), max_size=5),
)
@example([b"a" * 29, b"", b"b", b"c" * 100, b"d"], False, [1, 30, 31, 32])
@example([b"a" * 70], False, [1, 2, 65])
def test_ranges_that_join_have_every_line_once(lines, ends, cuts):
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    bounds = [0, *sorted(set(cuts)), 400]
    found = b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", 8)
        patch.setattr(text_blocks, "_PAST_BYTES", 3)
        for low, high in pairwise(bounds):
            blocks = text_blocks.text_blocks(io.BytesIO(text), "text", low, high - low)
            found += b"".join(map(bytes, blocks))
    assert found == text


def test_of_a_range_little_more_is_read(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"0123456789abcde\n" * 200_000)
    for offset, length in ((0, 10**6), (10**6, 10**6), (3_199_000, 10**6)):
        n_read = []
        with text_blocks.opened(path, n_read.append) as stream:
            n_lines = sum(
                len(b) // 16 for b in text_blocks.text_blocks(stream, "x", offset, length)
            )
        end = min(offset + length, 3_200_000)
        assert n_lines == pytest.approx((end - offset) / 16, abs=1.0)
        assert sum(n_read) <= end - offset + 3 * 2**16
