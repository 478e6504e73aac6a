"""``python -m snapml.accel script.py``: run a script of scikit-learn on snapml's solvers."""

from __future__ import annotations

import argparse
import logging
import runpy
import sys
from pathlib import Path

from snapml.accel.installing import install


def main(arguments: list[str] | None = None) -> None:
    """Run a script or a module with scikit-learn's classes accelerated.

    Parameters
    ----------
    arguments : list of str or None, default=None
        Of the command line; None takes ``sys.argv[1:]``.

    Raises
    ------
    SystemExit
        With status 2 where there is nothing to run.
    """
    parser = argparse.ArgumentParser(
        prog="python -m snapml.accel",
        description="Run a Python script in which scikit-learn's estimators fit by snapml.",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say what each fit was done by"
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    target.add_argument("script", nargs="?", help="run a script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    options = parser.parse_args(arguments)
    if options.module == []:
        parser.error("-m: expected the name of a module")
    if options.script is not None and not Path(options.script).is_file():
        parser.error(f"expected a script, found no file {options.script!r}")
    logger = logging.getLogger("snapml.accel")
    if options.verbose:
        logger.setLevel(logging.INFO)
        logger.addHandler(logging.StreamHandler())
    install()
    if options.module:
        sys.argv = options.module
        runpy.run_module(options.module[0], run_name="__main__", alter_sys=True)
        return
    given = sys.argv[1:] if arguments is None else arguments
    # argparse drops a "--" of the script's own.
    sys.argv = given[given.index(options.script) :]
    # What `python script.py` does: its folder comes first, this one's does not count.
    sys.path[0] = str(Path(options.script).resolve().parent)
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
