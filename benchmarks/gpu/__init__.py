"""The check for a machine with a CUDA device: parity, kernels over their floor, fits by peers."""
