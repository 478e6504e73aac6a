"""``snapml train``: a model from a store or a file."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from snapml.cli.estimator_options import add_estimator_options, make_estimator
from snapml.cli.exit_codes import FINISHED, NOT_CONVERGED
from snapml.cli.progress import ProgressLine, logged_fit
from snapml.cli.reading import add_common_options, add_reading_options, reading_options
from snapml.cli.table import print_table, sized
from snapml.data import ChunkedDataset
from snapml.data.store.chunk_format import MANIFEST
from snapml.data.store.temporary_store import removing_temporary_stores, temporary_store_path
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
        "train",
        help="fit a model to the rows of a store or a file",
        description="Fit a model and write it to a file. Rows of a store stream past; other files "
        "are first converted to a temporary store in TMPDIR.",
    )
    parser.add_argument("source", metavar="SOURCE", help="store, or any source of convert")
    parser.add_argument("--model", required=True, metavar="FILE", help="where the model goes")
    add_estimator_options(parser)
    parser.add_argument(
        "--in-memory",
        action="store_true",
        help="load all rows first, for estimators that do not train on stores",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print a line for each read of the data to stderr"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float32",
        help="type that rows of files are converted to; default: float32",
    )
    add_reading_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(args: argparse.Namespace) -> int:
    model = make_estimator(args)
    folder = Path(args.model).absolute().parent
    if not folder.is_dir():  # told now, not after the fit
        raise FileNotFoundError(f"{args.model}: expected an existing folder for it: {folder}")
    with _store_of(args) as store:
        began_s = time.perf_counter()
        data = (*store.load(), store.weights()) if args.in_memory else (store, None, None)
        has_converged = _fit(model, data, args)
        time_s = time.perf_counter() - began_s
        if args.in_memory and store.feature_names is not None:
            model.feature_names_in_ = np.asarray(store.feature_names, dtype=object)
        if args.in_memory and store.manifest.encoding is not None:
            model.encoding_ = dict(store.manifest.encoding)
        model.save(args.model)
        if not args.quiet:
            print_table(_summary(model, store, args, time_s))
    return FINISHED if has_converged else NOT_CONVERGED


@contextmanager
def _store_of(args: argparse.Namespace) -> Iterator[ChunkedDataset]:
    """Return the store, or a temporary one of another source's rows."""
    options = reading_options(args)
    if options.pop("format") in ("auto", "store") and (Path(args.source) / MANIFEST).exists():
        if options:
            names = {"encoder": "--hash-columns or --hash-text"}
            told = [names.get(name, f"--{name.replace('_', '-')}") for name in sorted(options)]
            args.parser.error(f"a store says itself how it is read: unexpected {', '.join(told)}")
        yield ChunkedDataset.open(args.source)
        return
    with removing_temporary_stores():
        with ProgressLine("converted", args.quiet) as line:
            store = convert(
                args.source,
                temporary_store_path(),
                n_features=args.n_features,
                dtype=args.dtype,
                progress=line.bytes,
                **reading_options(args),
            )
        yield store


def _fit(model: Any, data: tuple[Any, Any, Any], args: argparse.Namespace) -> bool:
    """Fit, and return whether the tolerance was met."""
    with (
        ProgressLine("fit", args.quiet) as line,
        logged_fit(line, args.verbose) as wants_log,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        if wants_log and "verbose" in model.get_params():
            model.set_params(verbose=1)
        try:
            model.fit(data[0], data[1], sample_weight=data[2])
        except NotImplementedError as error:
            if ".load()" not in str(error):  # which the user of a command line cannot call
                raise
            raise NotImplementedError(f"{error}; here that is --in-memory") from error
        if wants_log and "verbose" in model.get_params():
            model.set_params(verbose=0)  # which the file will say
    for warning in caught:
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def _summary(
    model: Any, store: ChunkedDataset, args: argparse.Namespace, time_s: float
) -> dict[str, Any]:
    relative = model.gap_ / abs(model.objective_) if model.objective_ else float("nan")
    where = "GPU " + ", ".join(map(str, model.get_params().get("device_ids") or []))
    summary: dict[str, Any] = {
        "estimator": type(model).__name__,
        "rows": store.shape[0],
        "columns": store.shape[1],
        "data": sized(store.manifest.n_bytes),
        "ran on": where if model.get_params().get("device_ids") else "CPU",
        "solver": model.solver_,
        "objective": f"{model.objective_:.9g}",
        "certified gap": f"{model.gap_:.3g} ({relative:.1e} of the objective)",
    }
    if hasattr(model, "n_iter_"):
        summary["reads of the data"] = int(np.max(model.n_iter_))
    return summary | {"time": f"{time_s:.2f} s", "model": args.model}
