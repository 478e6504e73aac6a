"""Files: how data come in, and go out."""

from snapml.io.snap_format import dump_snap, load_snap
from snapml.io.svmlight import load_svmlight

__all__ = ["dump_snap", "load_snap", "load_svmlight"]
