"""The command line: ``python -m snapml``."""

import sys

from snapml.cli import main

if __name__ == "__main__":
    sys.exit(main())
