"""Tarantool: members that replicate to one another, without elections (they came with 2.6.1).

As it comes replication is asynchronous and every member takes writes; two that write one key need
not agree afterwards. Synchronous, the first member alone takes writes and waits for a majority; its
readers see what the majority has not yet confirmed, and may never (Tarantool, Synchronous
replication; without the transaction manager that came with 2.6.1 reads are dirty).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.supervise import SupervisedSystem
from clusters.supervise.documented import TARANTOOL
from clusters.supervise.log_forms import TARANTOOL_LINES
from clusters.supervise.some_nodes import MEMBERS
from clusters.systems.tarantool.clients import IprotoRequests, RegisterClient, SetClient
from clusters.systems.tarantool.deployment import HOME, TarantoolDeployment
from clusters.systems.tarantool.link import PORT
from dstest.core.protocols import Option


class Tarantool(SupervisedSystem):
    name = "tarantool"
    doc = "Tarantool 2.6 from Debian: every member takes writes, or one that waits for a majority"
    packages = ("tarantool",)
    services = ("tarantool",)
    deployment = TarantoolDeployment
    client_packages = ("asynctnt",)
    clients: Mapping[str, Any] = {"register": RegisterClient, "set": SetClient}
    options: Mapping[str, Option] = {
        **MEMBERS,
        "replication": Option(
            type=str,
            default="asynchronous",
            choices=("asynchronous", "synchronous"),
            help="synchronous: the first member takes all writes, and waits for a majority",
        ),
        "reads": Option(
            type=str,
            default="local",
            choices=("local", "confirmed"),
            help="local reads see writes that are not kept yet; confirmed: a read writes too",
        ),
        "wal_mode": Option(
            type=str,
            default="write",
            choices=("none", "write", "fsync"),
            help="write, as it comes, syncs nothing: a power cut may lose what was acknowledged",
        ),
    }
    definite_errors = {
        "ER_READONLY": "Tarantool, read_only: such an instance refuses writes",
        "ER_LOADING": "Tarantool: an instance that has not started yet refuses requests",
    }
    cautions = TARANTOOL
    log_reader = TARANTOOL_LINES
    log_alarms = (" F> ", "Segmentation fault", "Attempting backtrace")
    ports = (PORT,)
    client_port = PORT
    home = HOME
    own_image = True
    request_counter = IprotoRequests


SYSTEM = Tarantool()
