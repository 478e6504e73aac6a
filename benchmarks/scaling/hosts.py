"""Hosts simulated on this machine: network namespaces behind one switch, without sshd.

Each host has its own interface, address and name, so that MPI sees several machines: its ranks
start through a remote shell and talk over TCP. They share the processors and the files. Needs
Linux, root, and ip and tc of iproute2.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["SimulatedHosts", "why_not"]

_PREFIX = "snapml-hosts"
_SHELL = Path(__file__).with_name("host_shell")
_BURST_BYTES = 256 * 1024


def why_not() -> str | None:
    """Return why hosts cannot be simulated here; None where they can."""
    missing = [name for name in ("ip", "tc", "unshare", "hostname") if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)}: apt-get install iproute2 util-linux hostname"
    probe = f"{_PREFIX}-{os.getpid()}-probe"
    try:
        _run("ip", "netns", "add", probe)
        _run("ip", "netns", "exec", probe, "unshare", "--uts", "true")
        _run("ip", "-n", probe, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        _run("ip", "-n", probe, "link", "add", "bridge", "type", "bridge")
        _run(*_limit(probe, 1.0))
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None


class SimulatedHosts:
    """Hosts behind a switch, for the length of a ``with`` block.

    Parameters
    ----------
    n_hosts : int
        How many, up to 250.

    Attributes
    ----------
    addresses : list of str
        One of each host.
    """

    def __init__(self, n_hosts: int) -> None:
        self._name = f"{_PREFIX}-{os.getpid()}"
        self._switch = f"{self._name}-switch"
        self._hosts = [f"{self._name}-{k + 1}" for k in range(n_hosts)]
        self.addresses = [f"10.77.0.{k + 1}" for k in range(n_hosts)]

    def __enter__(self) -> SimulatedHosts:
        _remove_abandoned()
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def run(
        self,
        mpirun: str,
        ranks_per_host: int,
        command: Sequence[str],
        *,
        environment: dict[str, str],
        timeout_s: float,
    ) -> subprocess.CompletedProcess[str]:
        """Run a job over all hosts from the first one, and wait for its end.

        Parameters
        ----------
        mpirun : str
            Path of Open MPI's or MPICH's.
        ranks_per_host : int
            Ranks on each host.
        command : sequence of str
            What each rank runs.
        environment : dict
            What its environment has beyond this process's.
        timeout_s : float
            What still runs then is ended.

        Returns
        -------
        subprocess.CompletedProcess
            With its outputs as text.

        Raises
        ------
        subprocess.TimeoutExpired
            After that time.
        """
        job = self.start(mpirun, ranks_per_host, command, environment=environment)
        try:
            stdout, stderr = job.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.end_all()
            job.communicate()
            raise
        return subprocess.CompletedProcess(job.args, job.returncode, stdout, stderr)

    def start(
        self,
        mpirun: str,
        ranks_per_host: int,
        command: Sequence[str],
        *,
        environment: dict[str, str],
    ) -> subprocess.Popen[str]:
        """Start a job as `run` does, and return without waiting for it.

        Parameters
        ----------
        mpirun, ranks_per_host, command, environment
            As for `run`.

        Returns
        -------
        subprocess.Popen
            mpirun, on the first host.
        """
        words = [*self._launch(mpirun, ranks_per_host), *command]
        script = f"hostname {self._hosts[0]}; exec {shlex.join(words)}"
        inside = ["ip", "netns", "exec", self._hosts[0], "unshare", "--uts", "bash", "-c", script]
        # UCX would find its way through shared memory from one host to the other.
        own = {"SNAPML_HOSTS": self._name, "UCX_TLS": "tcp,self"}
        return subprocess.Popen(
            inside,
            env={**os.environ, **environment, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def limit_rate(self, mbit_per_s: float | None) -> None:
        """Let each host send at most so many megabits a second; None lifts the limit.

        Parameters
        ----------
        mbit_per_s : float or None
            The rate of each host's interface.
        """
        for host in self._hosts:
            old = ["ip", "netns", "exec", host, "tc", "qdisc", "del", "dev", "eth0", "root"]
            subprocess.run(old, capture_output=True, check=False)
            if mbit_per_s is not None:
                bucket = [
                    "rate",
                    f"{mbit_per_s}mbit",
                    "burst",
                    str(_BURST_BYTES),
                    "latency",
                    "400ms",
                ]
                in_host = ["ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "eth0"]
                _run(*in_host, "root", "tbf", *bucket)

    def cut(self, host: int) -> None:
        """Take the cable out of a host.

        Parameters
        ----------
        host : int
            Its number, from 0.
        """
        _run("ip", "-n", self._switch, "link", "set", f"port{host + 1}", "down")

    def bytes_sent(self) -> list[int]:
        """Return how many bytes each host has sent, headers included."""
        return [self._statistics(host)["tx"]["bytes"] for host in self._hosts]

    def end_all(self) -> None:
        """End every process on the hosts."""
        for host in self._hosts:
            _end_processes(host)

    def _launch(self, mpirun: str, ranks_per_host: int) -> list[str]:
        version = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, check=True
        ).stdout
        slots = ",".join(f"{address}:{ranks_per_host}" for address in self.addresses)
        count = ["-n", str(ranks_per_host * len(self._hosts))]
        if "Open MPI" not in version:
            shell = ["-launcher", "ssh", "-launcher-exec", str(_SHELL)]
            return [mpirun, *shell, "-iface", "eth0", "-hosts", slots, *count]
        # Each host would bind its first rank to the same core.
        placement = ["--map-by", "slot", "--bind-to", "none"]
        transport = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        transport += ["--mca", "btl_tcp_if_include", "eth0"]
        shell = ["--prtemca", "plm_ssh_agent", str(_SHELL), "--host", slots]
        return [mpirun, *shell, *placement, *transport, *count]

    def _build(self) -> None:
        _run("ip", "netns", "add", self._switch)
        switch = ["ip", "-n", self._switch, "link"]
        _run(*switch, "add", "bridge", "type", "bridge")
        _run(*switch, "set", "bridge", "up")
        for k, (host, address) in enumerate(zip(self._hosts, self.addresses, strict=True)):
            port = f"port{k + 1}"
            _run("ip", "netns", "add", host)
            in_host = ["ip", "-n", host]
            peer = ["peer", "name", port, "netns", self._switch]
            _run(*in_host, "link", "add", "eth0", "type", "veth", *peer)
            _run(*in_host, "addr", "add", f"{address}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _run(*in_host, "link", "set", interface, "up")
            _run(*switch, "set", port, "master", "bridge")
            _run(*switch, "set", port, "up")

    def _remove(self) -> None:
        self.end_all()
        for namespace in (*self._hosts, self._switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)

    def _statistics(self, host: str) -> Any:
        shown = _run("ip", "-n", host, "-s", "-j", "link", "show", "eth0")
        return json.loads(shown)[0]["stats64"]


def _limit(host: str, mbit_per_s: float) -> list[str]:
    new = ["ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf"]
    return [*new, "rate", f"{mbit_per_s}mbit", "burst", str(_BURST_BYTES), "latency", "400ms"]


def _remove_abandoned() -> None:
    """Remove the hosts of processes that were killed before they could."""
    for line in _run("ip", "netns", "list").splitlines():
        namespace = line.split()[0]
        owner = namespace.removeprefix(f"{_PREFIX}-").partition("-")[0]
        is_ours = namespace.startswith(f"{_PREFIX}-") and owner.isdigit()
        if is_ours and not Path("/proc", owner).exists():
            _end_processes(namespace)
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def _end_processes(namespace: str) -> None:
    listed = ["ip", "netns", "pids", namespace]
    found = subprocess.run(listed, capture_output=True, text=True, check=False)
    for pid in map(int, found.stdout.split()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
