"""Files: how data come in, and go out."""

from snapml.io.snap_format import dump_snap, load_snap
from snapml.io.svmlight import load_svmlight, svmlight_batches

__all__ = ["dump_snap", "load_snap", "load_svmlight", "svmlight_batches"]
