"""Losses of rows, and the pass that fuses them with the products."""
