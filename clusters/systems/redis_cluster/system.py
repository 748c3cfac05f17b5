"""Redis Cluster: keys in shards, each with a primary and a replica on the next node.

Replication is asynchronous: a primary that is cut off acknowledges writes until it notices, and
those are lost when its replica has taken over (Redis Cluster specification, Write safety).
"""

from __future__ import annotations

from typing import Final

from clusters.supervise import NOT_CONNECTED, RespRequests, SupervisedSystem, resp
from clusters.supervise.documented import REDIS_CLUSTER
from clusters.supervise.redis_lines import REDIS_LINES
from clusters.systems.redis_cluster.clients import RegisterClient, SetClient
from clusters.systems.redis_cluster.deployment import BUS, HOME, ClusterDeployment
from clusters.systems.redis_cluster.shards import PORTS

SPEC: Final = "Redis Cluster specification"


class RedisCluster(SupervisedSystem):
    name = "redis-cluster"
    log_version = r"Redis version=([0-9.]+)"
    doc = "Redis Cluster from Debian: shards with a replica each, replicated asynchronously"
    packages = ("redis-server",)
    services = tuple(PORTS)
    deployment = ClusterDeployment
    client_packages = ("redis",)
    clients = {"register": RegisterClient, "set": SetClient}
    definite_errors = {
        NOT_CONNECTED: "ours: there was no connection to the slot's primary, so nothing was sent",
        "MOVED": f"{SPEC}, MOVED Redirection: another server has the slot",
        "ASK": f"{SPEC}, ASK redirection: the slot is on its way to another server",
        "CLUSTERDOWN": f"{SPEC}: queries are refused while slots are not served",
        "MASTERDOWN": "Redis, replica-serve-stale-data: a replica refuses without its primary",
        "READONLY": "Redis replication: a replica refuses writes",
        "LOADING": "Redis: a server that loads its data refuses commands",
    }
    cautions = REDIS_CLUSTER
    log_reader = REDIS_LINES
    log_alarms = resp.LOG_ALARMS
    ports = tuple(port + more for port in PORTS.values() for more in (0, BUS))
    client_port = PORTS["redis"]
    home = HOME
    request_counter = RespRequests


SYSTEM = RedisCluster()
