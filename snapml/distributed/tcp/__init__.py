"""Ranks that talk over TCP, where a scheduler such as Spark's has started the processes."""

from snapml.distributed.tcp.group import TcpGroup
from snapml.distributed.tcp.mesh import Listener, Mesh, PeerError

__all__ = ["Listener", "Mesh", "PeerError", "TcpGroup"]
