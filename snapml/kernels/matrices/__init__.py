"""Matrices on a device: how rows lie, and what is checked of them."""
