"""The estimators of the command line, and their parameters as options."""

from __future__ import annotations

import argparse
from typing import Any

from snapml import _registry as registry
from snapml.cli.reading import byte_count

__all__ = ["ESTIMATORS", "add_estimator_options", "make_estimator"]

ESTIMATORS: dict[str, type[Any]] = {
    entry.command: entry.load() for entry in registry.ESTIMATORS if entry.command is not None
}
"""Estimators by the names that the command line has for them."""


_LOSSES = ("hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive")


def add_estimator_options(parser: argparse.ArgumentParser) -> None:
    """Add which estimator, and its parameters; those not given have the estimator's defaults.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "--estimator", choices=tuple(ESTIMATORS), default="logistic", help="default: logistic"
    )
    group = parser.add_argument_group(
        "parameters of the estimator", "as in its documentation, whose defaults hold"
    )

    def add(option: str, parameter: str, **how: Any) -> None:
        group.add_argument(option, dest=parameter, default=argparse.SUPPRESS, **how)

    add("--C", "C", type=float, metavar="C", help="inverse strength: logistic, svc, svr")
    add(
        "--alpha",
        "alpha",
        type=float,
        help="strength: ridge, lasso, elasticnet, quantile, huber, counts, amounts",
    )
    add("--family", "family", help="'poisson', 'tweedie (1.7)', ...: glm")
    add("--link", "link", help="of means: glm, tweedie")
    add("--power", "power", type=float, help="of the mean, 0 or from 1 to 2: tweedie")
    add("--quantile", "quantile", type=float, help="between 0 and 1: quantile")
    add("--theta", "theta", type=_theta, help="a number, or 'estimate': negative-binomial")
    add("--loss", "loss", choices=_LOSSES, help="the first two: svc, the others: svr")
    add("--epsilon", "epsilon", type=float, help="where losses change their kind: svr, huber")
    add("--penalty", "penalty", choices=("l1", "l2"), help="svc")
    add(
        "--l1-ratio",
        "l1_ratio",
        type=float,
        help="share of L1: logistic, elasticnet, counts, amounts",
    )
    add(
        "--class-weight",
        "class_weight",
        type=_class_weight,
        metavar="WEIGHTS",
        help="'balanced', or weights of labels as in 0=1,1=2.5: classifiers",
    )
    add("--multi-class", "multi_class", choices=("auto", "multinomial", "ovr"), help="logistic")
    add("--solver", "solver", help="by name; auto chooses by the data")
    add("--positive", "positive", action="store_true", help="no negative coefficients: regressors")
    add("--no-intercept", "fit_intercept", action="store_false", help="leave out the intercept")
    add("--tol", "tol", type=float, help="relative duality gap to stop at")
    add("--max-iter", "max_iter", type=int, metavar="N", help="most reads of the data")
    add("--max-time", "max_time_s", type=float, metavar="S", help="seconds that the fit may take")
    add("--seed", "random_state", type=int, help="of the order of rows, and samples")
    add("--threads", "n_threads", type=int, metavar="N", help="default: all that are available")
    add("--no-deterministic", "deterministic", action="store_false", help="equal fits may differ")
    add("--devices", "device_ids", type=_devices, metavar="IDS", help="GPUs, as in 0,1")
    add(
        "--memory-limit",
        "memory_limit",
        type=_memory_limit,
        metavar="BYTES",
        help="what rows may take in memory, such as 4GB; default: half of what is available",
    )


def make_estimator(args: argparse.Namespace) -> Any:
    """Return the estimator that was asked for.

    Parameters
    ----------
    args : argparse.Namespace
        With the options of `add_estimator_options`, and the parser, which refuses those of others.

    Returns
    -------
    estimator
        Not fitted.
    """
    cls = ESTIMATORS[args.estimator]
    known = cls().get_params()
    given = {name: value for name, value in vars(args).items() if name in _PARAMETERS}
    for name in given:
        if name not in known:
            args.parser.error(f"{_PARAMETERS[name]}: --estimator {args.estimator} has no such one")
    return cls(**given)


def _class_weight(text: str) -> Any:
    if text == "balanced":
        return text
    try:
        pairs = [item.split("=") for item in text.split(",")]
        return {float(label): float(weight) for label, weight in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected 'balanced' or weights as in 0=1,1=2.5, got {text!r}"
        ) from None


def _theta(text: str) -> Any:
    return text if text == "estimate" else float(text)


def _devices(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected numbers of GPUs as in 0,1, got {text!r}"
        ) from None


def _memory_limit(text: str) -> Any:
    return text if text == "auto" else byte_count(text)


def _parameters() -> dict[str, str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_estimator_options(parser)
    return {
        action.dest: action.option_strings[0]
        for action in parser._actions
        if action.default is argparse.SUPPRESS
    }


_PARAMETERS = _parameters()
