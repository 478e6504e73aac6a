"""Fits of many models of the same rows, and the choice among them."""
