"""The one error of the launcher."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """What was asked for cannot be launched; the message says why, and what would work."""
