"""The base of systems whose servers we start: one way for us, a node's janitor and the guard."""

from clusters.supervise.deployment import Durable, FullMesh, SupervisedDeployment
from clusters.supervise.ops import (
    NOT_CONNECTED,
    BlockingClient,
    Link,
    LinkedClient,
    OpsClient,
    StreamClient,
    error_text,
    fail_unconnected,
)
from clusters.supervise.resp import RespClient, RespDeployment
from clusters.supervise.system import SupervisedSystem, residues
from clusters.supervise.wire import (
    FramedRequests,
    HttpClient,
    HttpRequests,
    LineRequests,
    RespRequests,
)

__all__ = [
    "NOT_CONNECTED",
    "BlockingClient",
    "Durable",
    "FramedRequests",
    "FullMesh",
    "HttpClient",
    "HttpRequests",
    "LineRequests",
    "Link",
    "LinkedClient",
    "OpsClient",
    "RespClient",
    "RespDeployment",
    "RespRequests",
    "StreamClient",
    "SupervisedDeployment",
    "SupervisedSystem",
    "error_text",
    "fail_unconnected",
    "residues",
]
