"""Chunk stores: rows in files, in chunks of bounded size."""
