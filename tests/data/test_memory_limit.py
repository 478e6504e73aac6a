"""Limits in bytes, in words, and by what the machine has."""

import pytest

from snapml.data import memory_limit
from snapml.data.memory_limit import available_bytes, resolve_memory_limit


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, 0), (1e9, 10**9), ("40MB", 40_000_000), (" 1.5 gib ", 3 * 2**29), ("7", 7), ("2tb", 2e12)],
)
def test_limits_with_units(limit, expected):
    assert resolve_memory_limit(limit) == expected


@pytest.mark.parametrize("limit", ["", "40 M B", "x", "-1MB", -1, True, None, float("nan"), 1e30])
def test_other_limits_are_refused(limit):
    with pytest.raises(ValueError, match="memory_limit: expected 'auto', bytes, or text such as"):
        resolve_memory_limit(limit)


def test_auto_is_half_of_what_is_available(monkeypatch):
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 1001)
    assert resolve_memory_limit("auto") == 500


def test_container_bounds_what_is_available(tmp_path, monkeypatch):
    assert available_bytes() > 10**6
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    monkeypatch.setattr(memory_limit, "_CGROUP", tmp_path)
    assert available_bytes() == 2000
    (tmp_path / "memory.stat").write_text("anon 2500\nfile 500\nfile_mapped 7\n")
    assert available_bytes() == 2500
    (tmp_path / "memory.stat").write_text("anon 400\nfile 2500\nshmem 2100\n")
    assert available_bytes() == 2400
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes() > 10**6
