"""What a rank prints that ends because another one has failed: a line, after the other's traceback.

Whatever ends first ends the job. A rank that only hears of a failure must not be the first, or the
traceback of the rank that has failed may never be printed.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType

from snapml.distributed.ranks import RankError

__all__ = ["let_the_failed_rank_speak"]

_PATIENCE_S = 3.0


def let_the_failed_rank_speak() -> None:
    """Let an uncaught `RankError` wait for the other rank, and print no traceback of its own."""
    before = sys.excepthook
    if getattr(before, "waits_for_ranks", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, RankError):
            before(kind, error, trace)
            return
        time.sleep(_PATIENCE_S)
        sys.stderr.write(f"{kind.__module__}.{kind.__qualname__}: {error}\n")
        sys.stderr.flush()

    hook.waits_for_ranks = True  # type: ignore[attr-defined]
    sys.excepthook = hook
