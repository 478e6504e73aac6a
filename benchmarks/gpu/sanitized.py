"""The parity of verbs on few rows, for compute-sanitizer, which slows kernels down a lot."""

from __future__ import annotations

import sys

from benchmarks.gpu.parity import check_verbs
from snapml.kernels import CudaDevice

if __name__ == "__main__":
    device = CudaDevice(int(sys.argv[1]))
    with device.use():
        failed = [m for m in check_verbs(device, seed=0, n_rows=300) if not m.is_good]
    sys.exit(len(failed) > 0)
