"""``snapml predict``: predictions of a model into a file, and how good they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import snapml
from snapml.cli.exit_codes import FINISHED
from snapml.cli.progress import ProgressLine
from snapml.cli.reading import add_common_options, add_reading_options, reading_options
from snapml.cli.scores import RunningScore
from snapml.cli.table import print_table
from snapml.estimators.batch_predictions import METHODS, batches_with, column_names
from snapml.io.encoding import HASHED_COLUMNS
from snapml.io.readers.array_files import ARRAY_SUFFIXES, check_array_path, write_arrays

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : argparse subparsers
        Of the program.
    """
    parser = commands.add_parser(
        "predict",
        help="predict the rows of a store or a file",
        description="Predict rows in bounded memory.",
    )
    parser.add_argument("source", metavar="SOURCE", help="store, or any source of convert")
    parser.add_argument("--model", required=True, metavar="FILE", help="of train, or of save")
    parser.add_argument(
        "--output", metavar="FILE", help=f"where predictions go: {', '.join(ARRAY_SUFFIXES)}"
    )
    parser.add_argument(
        "--method", choices=METHODS, default="predict", help="what to write; default: predict"
    )
    parser.add_argument(
        "--score",
        action="store_true",
        help="print accuracy and log loss, or R2, of rows that have labels",
    )
    add_reading_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(args: argparse.Namespace) -> int:
    if args.output is None and not args.score:
        args.parser.error("expected --output FILE, --score, or both")
    if args.output is not None:
        check_array_path(args.output)
    model = snapml.load(args.model)
    score = RunningScore(model) if args.score else None
    n_rows = 0
    with ProgressLine("read", args.quiet) as line:
        found = _predictions(args, model, score, line)
        if args.output is None:
            n_rows = sum(map(len, found))
        else:
            n_rows = write_arrays(args.output, found, column_names(model, args.method))
    if score is not None or not args.quiet:
        print_table({"rows": n_rows} | (score.values() if score and n_rows else {}))
    return FINISHED


def _predictions(
    args: argparse.Namespace, model: Any, score: RunningScore | None, line: ProgressLine
) -> Iterator[Any]:
    """Return what is to be written, and add up the score on the way."""
    methods = list(dict.fromkeys([args.method, *(score.methods if score else ())]))
    n_bytes = 0

    def on_read(n_more: int) -> None:
        nonlocal n_bytes
        n_bytes += n_more

    args.n_features = model.n_features_in_  # which hashed columns need to know
    encoding = getattr(model, "encoding_", {})
    if encoding.get("kind") == HASHED_COLUMNS:
        args.n_features = encoding["n_features"]
        keeps, asks = encoding.get("keep_numbers", False), (args.hash_columns, args.hash_text)
        if any(asks) and asks[1] != keeps:  # refused by what compares the encodings
            args.hash_seed = encoding["seed"] if args.hash_seed is None else args.hash_seed
        else:  # the model knows how; a seed is compared
            args.hash_columns = args.hash_seed is not None and not keeps
            args.hash_text = args.hash_seed is not None and keeps
    options = reading_options(args)
    for batch, results in batches_with(model, args.source, methods, on_read=on_read, **options):
        line.bytes(n_bytes, None)
        if score is not None:
            score.add(batch, [results[methods.index(method)] for method in score.methods])
        yield results[0]
