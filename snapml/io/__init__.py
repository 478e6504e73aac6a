"""Files: how data come in, and go out."""

from snapml.io.convert import convert
from snapml.io.readers.click_log import ClickLogEncoder
from snapml.io.readers.snap_format import dump_snap, load_snap, snap_batches
from snapml.io.readers.svmlight import load_svmlight, svmlight_batches
from snapml.io.sources import open_source, read_batches

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
