"""Coordinate ascent and descent."""
