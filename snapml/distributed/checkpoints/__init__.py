"""Checkpoints of fits over ranks: a file of rank 0 from which the next fit goes on."""

from snapml.distributed.checkpoints.keeper import Checkpoints, passes_or_seconds

__all__ = ["Checkpoints", "passes_or_seconds"]
