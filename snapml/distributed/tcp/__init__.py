"""Ranks that talk over TCP: processes that a cluster's own scheduler has started, such as Spark's."""

from snapml.distributed.tcp.group import TcpGroup
from snapml.distributed.tcp.mesh import Listener, Mesh, PeerError

__all__ = ["Listener", "Mesh", "PeerError", "TcpGroup"]
