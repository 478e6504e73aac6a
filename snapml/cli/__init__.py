"""The command line: ``snapml`` or ``python -m snapml``."""

from snapml.cli.main import main, make_parser

__all__ = ["main", "make_parser"]
