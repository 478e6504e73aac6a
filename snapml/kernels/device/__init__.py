"""The device: its memory, its launches, the compiler and its cache."""
