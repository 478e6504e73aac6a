"""Options that say how to read a source of rows, shared by all commands."""

from __future__ import annotations

import argparse
from typing import Any

from snapml.data.memory_limit import resolve_memory_limit
from snapml.io import ClickLogEncoder
from snapml.io.sources import FORMATS

__all__ = ["add_common_options", "add_reading_options", "byte_count", "reading_options"]


def byte_count(text: str) -> int:
    """Return a number of bytes, for argparse.

    Parameters
    ----------
    text : str
        As "40MB", "1.5 GiB" or a number.

    Returns
    -------
    int
        Bytes, at least 1.
    """
    try:
        n_bytes = 0 if text == "auto" else resolve_memory_limit(text)
    except ValueError:
        n_bytes = 0
    if n_bytes < 1:
        raise argparse.ArgumentTypeError(f"expected bytes, such as 40MB or 2GiB, got {text!r}")
    return n_bytes


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command takes.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of files that are no stores.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    group = parser.add_argument_group("how to read a source that is no store")
    group.add_argument(
        "--format", choices=("auto", *FORMATS), default="auto", help="default: by the name"
    )
    group.add_argument(
        "--label",
        metavar="COLUMN",
        help="column of labels: its name, or in CSV and npy its number from 0",
    )
    group.add_argument("--weight", metavar="COLUMN", help="column of weights of the rows")
    group.add_argument(
        "--n-features", type=int, metavar="N", help="columns of sparse rows; default: as found"
    )
    group.add_argument(
        "--zero-based",
        choices=("auto", "yes", "no"),
        default=None,
        help="whether indices of svmlight text begin at 0; auto reads the file twice",
    )
    group.add_argument("--delimiter", metavar="CHARACTER", help="between the fields of CSV")
    group.add_argument("--no-header", action="store_true", help="CSV has no line of names")
    group.add_argument(
        "--hash-columns",
        action="store_true",
        help="turn the columns of CSV, Parquet and Arrow, numbers and categories, into --n-features"
        " (default 2^20) hashed ones",
    )
    group.add_argument(
        "--hash-text",
        action="store_true",
        help="turn the columns of text into --n-features (default 2^20) hashed ones, one-hot, and"
        " leave columns of numbers as they are",
    )
    group.add_argument(
        "--n-numbers", type=int, metavar="N", help="leading numbers of a click log; default 13"
    )
    group.add_argument(
        "--n-categories", type=int, metavar="N", help="categories behind them; default 26"
    )
    group.add_argument("--hash-seed", type=int, metavar="SEED", help="of hashed columns; default 0")
    group.add_argument(
        "--no-labels", action="store_true", help="lines of a click log begin without a label"
    )


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the user asked for, as `snapml.io.convert` and `open_source` take it.

    Parameters
    ----------
    args : argparse.Namespace
        With the options of `add_reading_options`.

    Returns
    -------
    dict
        Only options that were given.
    """
    options: dict[str, Any] = {"format": args.format}
    for name in ("label", "weight"):
        column = getattr(args, name)
        if column is not None:
            options[name] = int(column) if column.isdecimal() else column
    if args.zero_based is not None:
        options["zero_based"] = {"auto": "auto", "yes": True, "no": False}[args.zero_based]
    if args.hash_columns and args.hash_text:
        args.parser.error("expected --hash-columns or --hash-text, got both")
    if args.hash_columns or args.hash_text:
        options["encoder"] = ClickLogEncoder(
            args.n_features or 2**20, seed=args.hash_seed or 0, keep_numbers=args.hash_text
        )
    elif args.hash_seed is not None:
        options["seed"] = args.hash_seed
    for name in ("delimiter", "n_numbers", "n_categories"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    if args.no_header:
        options["has_header"] = False
    if args.no_labels:
        options["has_labels"] = False
    return options
