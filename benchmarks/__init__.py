"""Benchmarks: time to a stated accuracy, epoch speed, memory and import time."""
