"""Fits whose answers must not change by a bit unless a commit says so."""
