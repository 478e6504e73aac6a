"""Files: how data come in."""

from snapml.io.svmlight import load_svmlight

__all__ = ["load_svmlight"]
