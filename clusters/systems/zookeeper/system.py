"""ZooKeeper: an ensemble with a leader; reads are answered by the member that is asked.

Writes are linearizable; a read may be old (ZooKeeper Programmer's Guide, Consistency Guarantees).
Behind a `sync` it is so by less: a leader applies a write after it has told the followers, so one
that reads from the leader then may miss what a follower has acknowledged. A read that a transaction
has confirmed is as linearizable as the writes are.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.supervise import NOT_CONNECTED, SupervisedSystem
from clusters.supervise.log_forms import ZOOKEEPER_LINES
from clusters.systems.zookeeper.clients import CONFLICT, RegisterClient
from clusters.systems.zookeeper.deployment import HOME, PORT, ZookeeperDeployment
from clusters.systems.zookeeper.requests import ZookeeperRequests
from dstest.core.protocols import Option, Relaxation


class Zookeeper(SupervisedSystem):
    name = "zookeeper"
    doc = "ZooKeeper 3.8 from Debian: writes through a leader, reads from any member"
    packages = ("zookeeper",)
    services = ("zookeeper",)
    deployment = ZookeeperDeployment
    client_packages = ("kazoo",)
    clients = {"register": RegisterClient}
    options: Mapping[str, Option] = {
        "reads": Option(
            type=str,
            default="confirmed",
            choices=("confirmed", "sync", "local"),
            help="confirmed: a transaction finds the version that was read; sync: a read waits"
            " until its member has caught up with the leader; local: as ZooKeeper reads",
        ),
    }
    definite_errors = {
        NOT_CONNECTED: "ours: there was no session, so nothing was sent",
        CONFLICT: "ZooKeeper, setData: fails with BadVersion where the version is another one",
    }
    conflict_errors = frozenset({CONFLICT})
    relaxations = (
        Relaxation(
            model="sequential",
            source="ZooKeeper Programmer's Guide, Consistency Guarantees: it can serve older data",
            option="reads",
            value="local",
        ),
    )
    log_reader = ZOOKEEPER_LINES
    log_alarms = ("Unexpected exception causing shutdown", "Severe unrecoverable error")
    ports = (PORT, 2888, 3888)
    client_port = PORT
    home = HOME
    own_image = True
    request_counter = ZookeeperRequests


SYSTEM = Zookeeper()
