"""Sums over threads, blocks and launches."""
