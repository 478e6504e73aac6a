"""Quasi-Newton and Newton methods for smooth problems, and the certificate of their points."""
