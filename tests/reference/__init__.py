"""Oracles in plain NumPy, written from textbook formulas; the library never imports them."""
