"""What each system calls an alarm in its logs, and what healthy servers write."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.supervise import SupervisedSystem
from dstest.core import registry
from dstest.judge.audit_rows import kind_of

SUPERVISED = [
    system
    for name in registry.names("systems", ours=True)
    if isinstance(system := registry.load("systems", name), SupervisedSystem)
]


def kind(name: str, line: str) -> tuple[str, bool] | None:
    system: Any = registry.load("systems", name)
    return kind_of(line, system.logs.alarms, system.logs.harmless)


def test_each_system_names_alarms() -> None:
    without = {system.name for system in SUPERVISED if not system.logs.alarms}
    assert without == {"memcached"}, "of a crash it says an assertion, which is any system's alarm"
    texts = [text for system in SUPERVISED for text in system.logs.alarms]
    assert all(text.strip() for text in texts)


def test_whoever_names_alarms_has_the_mark_of_starts_all_the_same() -> None:
    assert all(system.logs.start for system in SUPERVISED)


REDIS = [
    "=== REDIS BUG REPORT START: Cut & paste starting from here ===",
    "7:M 23 Nov 2026 05:48:31.249 # ------------------------------------------------",
    "7:M 23 Nov 2026 05:48:31.249 # !!! Software Failure. Press left mouse button to continue",
    '7:M 23 Nov 2026 05:48:31.249 # Guru Meditation: "Unknown encoding type" #object.c:90',
    "7:M 23 Nov 2026 05:48:31.249 # Bad file format reading the append only file appendonly.aof.1",
]
FAILED = "2026-11-23 05:48:31.249000+00:00 [error] <0.581.0> "
CUT = "{inconsistent_database, running_partitioned_network, 'rabbit@10.0.0.2'}"
ALARMS = [
    *(("redis-sentinel", line) for line in (REDIS[0], *REDIS[3:])),
    *(("redis-cluster", line) for line in (REDIS[0], *REDIS[3:])),
    ("rabbitmq", "Crash dump is being written to: /opt/rabbitmq/log/erl_crash.dump...done"),
    ("rabbitmq", '{"Kernel pid terminated",application_controller,"{application_start_failure}"}'),
    ("rabbitmq", f"{FAILED}** State machine '%2F_job-1' terminating"),
    ("rabbitmq", f"{FAILED}    initial call: ra_server_proc:init/1"),
    ("rabbitmq", f"{FAILED}    registered_name: ra_log_wal"),
    ("rabbitmq", f"{FAILED}    registered_name: rabbit_node_monitor"),
    ("rabbitmq", f"{FAILED}** Generic server rabbit_node_monitor terminating"),
    ("galera", "WSREP: Vote 0 (success) on 6c1f:5 is inconsistent with group. Leaving cluster."),
    ("patroni", "AttributeError: 'NoneType' object has no attribute 'lease'"),
    ("patroni", "KeyError: 'members'"),
    ("patroni", "TypeError: unsupported operand type(s) for -: 'int' and 'NoneType'"),
    ("nats", "[7] [WRN] Error applying entries to '$G > jobs': last sequence mismatch"),
]

CALM = [
    ("redis-cluster", "7:M 23 Nov 2026 05:48:31.249 # Cluster state changed: fail"),
    ("redis-cluster", "7:M 23 Nov 2026 05:48:31.249 # Start of election delayed for 507 ms"),
    ("rabbitmq", "[warning] <0.581.0> closing AMQP connection <0.581.0> (10.0.0.9:40312 -> "),
    ("rabbitmq", f"{FAILED}missed heartbeats from client, timeout: 2s"),
    ("rabbitmq", f"{FAILED}** Generic server <0.581.0> terminating"),
    ("rabbitmq", f"{FAILED}  crasher:"),
    ("rabbitmq", f"{FAILED}    initial call: rabbit_reader:init/3"),
    ("rabbitmq", f"{FAILED}    initial call: rabbit_channel:init/1"),
    ("rabbitmq", f"{FAILED}    registered_name: []"),
    ("rabbitmq", f"{FAILED}Mnesia('a'): ** ERROR ** mnesia_event got {CUT}"),
    ("galera", "2026-11-23  5:48:31 0 [Note] WSREP: Member 1.0 (n2) synced with group."),
    ("patroni", "Traceback (most recent call last):"),
    ("patroni", "ConnectionRefusedError: [Errno 111] Connection refused"),
    ("patroni", "psycopg2.OperationalError: connection to server at 10.0.0.1 failed"),
    ("nats", "[7] 2026/11/23 05:48:31.249 [WRN] JetStream cluster no metadata leader"),
]


@pytest.mark.parametrize(("name", "line"), ALARMS)
def test_what_servers_say_that_break(name: str, line: str) -> None:
    assert kind(name, line) == ("alarm", False)


@pytest.mark.parametrize(("name", "line"), CALM)
def test_what_servers_say_that_only_lost_a_peer_or_a_client(name: str, line: str) -> None:
    assert kind(name, line) is None
