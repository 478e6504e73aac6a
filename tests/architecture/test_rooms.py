"""Rooms: the page that draws them is the repository's, and none is crowded."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = 17

spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
rooms = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rooms)


def folders():
    suffixes = (".py", ".hpp", ".cpp", ".cu", ".cuh")
    return sorted({path.parent for path in (ROOT / "snapml").rglob("*") if path.suffix in suffixes})


def test_page_has_the_layers_of_the_contracts_and_every_room():
    """`python docs/rooms.py` writes it anew."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert rooms.with_rooms(page) == page
    named = rooms.generated()
    for folder in folders():
        name = folder.relative_to(ROOT / "snapml").as_posix()
        assert name == "." or f"| `{name}` |" in named, name


def test_page_fits_on_three_screens():
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= 210


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_room_is_crowded(folder):
    files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".so"]
    assert len(files) <= MOST_FILES, sorted(path.name for path in files)
