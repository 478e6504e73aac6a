"""Algorithms, each written once against the Engine and Communicator protocols."""
