"""The launcher: ``python -m snapml_run``."""

import sys

from snapml_run.main import main

if __name__ == "__main__":
    sys.exit(main())
