"""The command ``snapml``, whose imports may be interrupted like its work."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line.

    Returns
    -------
    int
        The exit code, 130 where Ctrl-C came before there was anything to interrupt.
    """
    try:
        from snapml.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("snapml: interrupted\n")
        return 130
    return run()
