"""The digest of the core headers: what compiled kernels are kept by."""

import shutil

import pytest

from snapml import core


@pytest.fixture
def headers(tmp_path, monkeypatch):
    """A copy of the headers, which a test may change."""
    copy = tmp_path / "include"
    shutil.copytree(core.include_dir(), copy)
    monkeypatch.setattr(core, "include_dir", lambda: copy)
    core.source_digest.cache_clear()
    yield copy / "snapml"
    core.source_digest.cache_clear()


def digest():
    core.source_digest.cache_clear()
    return core.source_digest()


def test_digest_changes_with_a_character_and_with_a_name(headers):
    first = digest()
    assert digest() == first
    math = headers / "math.hpp"
    math.write_text(math.read_text() + " ")
    second = digest()
    math.rename(headers / "mathematics.hpp")
    assert len({first, second, digest()}) == 3
