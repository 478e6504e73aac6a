"""``snapml convert``: any source of rows to a chunk store."""

from __future__ import annotations

import argparse
from typing import Any

from snapml.cli.exit_codes import FINISHED
from snapml.cli.progress import ProgressLine
from snapml.cli.reading import (
    add_common_options,
    add_reading_options,
    byte_count,
    reading_options,
)
from snapml.cli.store_summary import store_summary
from snapml.cli.table import print_table
from snapml.io import convert

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : argparse subparsers
        Of the program.
    """
    parser = commands.add_parser(
        "convert",
        help="write rows of any format to a store",
        description="Write the rows of a file or folder to a chunk store, in bounded memory. An "
        "interrupted or failed conversion leaves nothing.",
    )
    parser.add_argument("source", metavar="SOURCE", help="file or folder with rows")
    parser.add_argument("store", metavar="STORE", help="folder of the store; new or empty")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float32",
        help="type of the entries; default: float32",
    )
    parser.add_argument(
        "--chunk-bytes",
        type=byte_count,
        metavar="BYTES",
        default="64MiB",
        help="about the size of a chunk, and of what is kept in memory; default: 64MiB",
    )
    parser.add_argument("--append", action="store_true", help="add to a finished store")
    add_reading_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(args: argparse.Namespace) -> int:
    with ProgressLine("converted", args.quiet) as line:
        store = convert(
            args.source,
            args.store,
            n_features=args.n_features,
            dtype=args.dtype,
            chunk_bytes=args.chunk_bytes,
            append=args.append,
            progress=line.bytes,
            **reading_options(args),
        )
    if not args.quiet:
        print_table(store_summary(store))
    return FINISHED
