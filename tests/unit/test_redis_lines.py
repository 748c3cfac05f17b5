"""Lines of Redis' servers and sentinels, as these write them in a failover."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.supervise.log_lines import REDIS_LINES

A, B = "a1" * 20, "b2" * 20
ODDS = "Partial resynchronization not accepted: Requested offset for second ID was"
OF = "main 10.0.0.1 6379"


def record(text: str, letter: str = "M", level: str = "#") -> Any:
    found = REDIS_LINES.record_of(f"217:{letter} 28 Nov 2026 17:59:36.428 {level} {text}")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "topic", "peer"),
    [
        (f"+sdown master {OF}", "cut-off", "10.0.0.1"),
        (f"+sdown slave 10.0.0.3:6379 10.0.0.3 6379 @ {OF}", "cut-off", "10.0.0.3"),
        (f"+sdown sentinel {A} 10.0.0.2 26379 @ {OF}", "cut-off", "10.0.0.2"),
        (f"+odown master {OF} #quorum 4/3", "cut-off", "10.0.0.1"),
        (f"-sdown slave 10.0.0.3:6379 10.0.0.3 6379 @ {OF}", "calm", ""),
        (f"+switch-master {OF} 10.0.0.2 6379", "calm", ""),
        (f"+try-failover master {OF}", "calm", ""),
        (f"+failover-state-wait-promotion slave 10.0.0.2:6379 10.0.0.2 6379 @ {OF}", "calm", ""),
        (f"+failover-end master {OF}", "calm", ""),
        (f"-failover-abort-not-elected master {OF}", "consensus-timeout", ""),
        (f"FAIL message received from {A} about {B}", "cut-off", B),
        (f"Marking node {B} as failing (quorum reached).", "cut-off", B),
        ("Cluster state changed: fail", "cut-off", ""),
        ("Cluster state changed: ok", "calm", ""),
        (f"Clear FAIL state for node {B}: replica is reachable again.", "calm", B),
        ("Start of election delayed for 647 milliseconds (rank #0, offset 1).", "calm", ""),
        ("Connection with master lost.", "connection", ""),
        ("Connection with replica 10.0.0.5:6379 lost.", "connection", "10.0.0.5:6379"),
        ("Connection with replica client id #6 lost.", "connection", ""),
        ("MASTER timeout: no data nor PING received...", "connection", ""),
        ("MASTER <-> REPLICA sync: Finished with success", "calm", ""),
        (f"{ODDS} 9, but I can reply up to 7", "conflict", ""),
    ],
)
def test_what_a_line_is_about(text: str, topic: str, peer: str) -> None:
    found = record(text)
    assert (found.topics, found.peer) == ({topic}, peer)


@pytest.mark.parametrize(
    ("text", "vote", "voter", "ballot"),
    [
        (f"+vote-for-leader {A} 3", "granted", "", "3"),
        (f"{B} voted for {A} 3", "granted", B, "3"),
        (f"Failover auth granted to {A} for epoch 11", "granted", "", "11"),
        (f"Failover auth denied to {A}: its master is up", "rejected", "", ""),
        ("Starting a failover election for epoch 11.", "", "", "11"),
        ("+new-epoch 4", "", "", "4"),
    ],
)
def test_votes(text: str, vote: str, voter: str, ballot: str) -> None:
    found = record(text)
    assert (found.vote, found.voter, found.ballot) == (vote, voter, ballot)


@pytest.mark.parametrize(
    ("letter", "text", "role", "turned", "peer"),
    [
        ("M", "Ready to accept connections", "primary", False, ""),
        ("S", "Ready to accept connections", "replica", False, ""),
        ("X", f"+sdown master {OF}", "", False, "10.0.0.1"),
        ("S", "Failover election won: I'm the new master.", "primary", True, ""),
        ("S", "configEpoch set to 11 after successful failover", "primary", True, ""),
        ("M", "MASTER MODE enabled (user request from 'id=7')", "primary", True, ""),
        (
            *("M", f"Configuration change detected. Reconfiguring myself as a replica of {A}"),
            *("replica", True, A),
        ),
        ("S", "REPLICAOF 10.0.0.2:6379 enabled (user request)", "replica", True, "10.0.0.2:6379"),
        ("S", "Connecting to MASTER 10.0.0.2:6379", "replica", True, "10.0.0.2:6379"),
        ("C", "Redis version=7.0.15, bits=64, pid=2, just started", "", True, ""),
    ],
)
def test_roles(letter: str, text: str, role: str, turned: bool, peer: str) -> None:
    found = record(text, letter)
    assert (found.role, found.turned, found.peer) == (role, turned, peer)


def test_who_is_who() -> None:
    assert record(f"No cluster configuration found, I'm {A}").aliases == {A: ""}
    assert record(f"Node configuration loaded, I'm {A}").aliases == {A: ""}
    assert record(f"Sentinel ID is {A}", "X").aliases == {A: ""}
    known = record(f"+sentinel sentinel {A} 10.0.0.2 26379 @ {OF}", "X")
    assert known.aliases == {A: "10.0.0.2"}


def test_a_replica_that_asks_for_no_more_than_there_is_is_not_at_odds() -> None:
    assert record(f"{ODDS} 7, but I can reply up to 9").topics == frozenset()
    assert REDIS_LINES.record_of("217:M said nothing") is None
