"""Messages of the library in the words of the command line: options in place of parameters."""

from __future__ import annotations

import re

__all__ = ["in_own_words"]

# What a message for callers of Python says, and what the user of a shell would type.
_OPTIONS = (
    (r"encoder=snapml\.io\.ClickLogEncoder\(keep_numbers=True\)", "--hash-text"),
    (r"encoder=\.\.\.", "--hash-text or --hash-columns"),
    (r"\bappend=True\b", "--append"),
    (r"\bhas_header=False\b", "--no-header"),
    (r"\bhas_labels=False\b", "--no-labels"),
    (r"\bzero_based=(?:True|'yes')", "--zero-based yes"),
    (r"\bzero_based=False\b", "--zero-based no"),
    (r"\bpositive=True\b", "--positive"),
    (r"\bfit_intercept=False\b", "--no-intercept"),
    (r"\bdeterministic=False\b", "--no-deterministic"),
    (r"\buse device_ids=None\b", "leave out --devices"),
    (r"\bdevice_ids=\[([^]]*)\]", r"--devices \1"),
    (r"\brandom_state=", "--seed "),
    (r"\bmax_time_s=", "--max-time "),
    (r"\bn_threads=", "--threads "),
    (
        r"\b(format|label|weight|n_features|delimiter|n_numbers|n_categories|memory_limit|max_iter"
        r"|l1_ratio|class_weight|multi_class|chunk_bytes|solver|penalty|loss|alpha|dtype|tol|C)="
        r"(?=[^=])",
        None,
    ),
)


def in_own_words(message: str) -> str:
    """Return a message with the options of the command line.

    Parameters
    ----------
    message : str
        Of an exception or a warning of the library.

    Returns
    -------
    str
        With options in place of parameters; other text as it is.
    """
    for pattern, option in _OPTIONS:
        if option is None:
            message = re.sub(pattern, _spelled, message)
        else:
            message = re.sub(pattern, option, message)
    return message


def _spelled(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')} "
