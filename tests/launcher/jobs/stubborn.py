"""Stands in for an mpirun whose job does not end: it and its child ignore signals."""

import os
import signal
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    if sys.argv[1] == "--version":
        print("mpirun (Open MPI) 5.0.11")
        sys.exit(0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(os.environ["SNAPML_TEST_FOUND"])
    signal.signal(signal.SIGUSR1, lambda *_: (folder / "heard").write_text("SIGUSR1"))
    child = os.fork()
    (folder / ("child" if child == 0 else "parent")).write_text(str(os.getpid()))
    while True:
        time.sleep(0.1)
