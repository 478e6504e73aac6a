"""Files: how data come in, and go out."""

from snapml.io.click_log import ClickLogEncoder
from snapml.io.convert import convert
from snapml.io.snap_format import dump_snap, load_snap, snap_batches
from snapml.io.sources import open_source, read_batches
from snapml.io.svmlight import load_svmlight, svmlight_batches

__all__ = [
    "ClickLogEncoder",
    "convert",
    "dump_snap",
    "load_snap",
    "load_svmlight",
    "open_source",
    "read_batches",
    "snap_batches",
    "svmlight_batches",
]
