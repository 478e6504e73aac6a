"""A standalone master and its workers, in processes that end with the block."""

import os
import re
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

START_S = 60
_MASTER, _WORKER = (
    f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker")
)


@contextmanager
def standalone(folder, environment, n_workers):
    """Start a master and workers of one core each; yield the master's URL.

    Parameters
    ----------
    folder : path
        For logs and the workers' files.
    environment : dict of str to str
        Of all processes; those of worker k also get the path of the folder's file
        installation<k>, as INSTALLATION.
    n_workers : int
        How many.
    """
    environment = os.environ | environment
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOG_DIR": str(folder)}
    environment |= {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
    where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_process([_MASTER, *where], environment, log))
        url = _said(log, r"Starting Spark master at (spark://\S+)")
        for number in range(n_workers):
            command = [_WORKER, *where, "--cores", "1", "--memory", "1g"]
            command += ["--work-dir", str(folder / f"worker{number}"), url]
            own = environment | {"INSTALLATION": str(folder / f"installation{number}")}
            stack.enter_context(_process(command, own, folder / f"worker{number}.log"))
        for number in range(n_workers):
            _said(folder / f"worker{number}.log", "Successfully registered with (master)")
        yield url


@contextmanager
def _process(command, environment, log):
    """Run a daemon of Spark's; end it and the processes that it has started."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(script), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(START_S)


def _said(log, pattern):
    """Return what a process writes to its log in time."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"expected {pattern!r} in {START_S} s, got:\n{log.read_text()}")
