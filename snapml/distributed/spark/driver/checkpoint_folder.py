"""The folder that keeps the state of one fit, which goes when the fit ends, well or not."""

from __future__ import annotations

import logging
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapml.distributed.spark.driver.errors import InvalidInput

__all__ = ["check_checkpoint_dir", "own_folder"]

_logger = logging.getLogger("snapml")
# Spark lets tasks that it has cancelled go on for 2 s (spark.python.task.killTimeout).
_MOST_TRIES, _PAUSE_S = 20, 0.5


def check_checkpoint_dir(path: str | None) -> None:
    """Refuse what is no folder that other machines can have under the same name.

    Parameters
    ----------
    path : str or None
        As a user has given it; None stands for none.

    Raises
    ------
    InvalidInput
        If it is relative, has a scheme such as ``hdfs://``, or is not there.
    """
    if path is None:
        return
    if not Path(path).is_absolute():
        raise InvalidInput(
            "checkpointDir: expected the absolute path of a folder in a file system that the "
            f"driver and all executors have mounted, got {path!r}"
        )
    if not Path(path).is_dir():
        raise InvalidInput(f"checkpointDir: there is no folder {path!r} on the driver")


@contextmanager
def own_folder(parent: str | None) -> Iterator[str | None]:
    """Make a folder that no other fit has, and remove it with what is in it at the end.

    Executors may be of another user than the driver, so the folder has the permissions of `parent`.

    Parameters
    ----------
    parent : str or None
        Where to make it; None makes none.

    Yields
    ------
    str or None
        Its path.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    if parent is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="snapml-fit-", dir=parent))
    try:
        folder.chmod(stat.S_IMODE(Path(parent).stat().st_mode))
        yield str(folder)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(_MOST_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)
    _logger.warning("checkpointDir: %s could not be removed", folder)
