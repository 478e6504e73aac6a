"""Readers: what rows come from, as batches of bounded size."""
