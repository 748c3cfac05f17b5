"""Each check of `dstest logs`: a log in which it must find something, and its clean twin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from log_files import at, fault, found, looked, outcome
from msgspec.structs import replace

from dstest.debug.logs.analysis import CHECKS

NODES = ("n1", "n2", "n3")


def line(second: float, level: str, message: str) -> str:
    return f"{at(second)} [{level}]: {message}"


def row(second: float, message: str, **more: Any) -> str:
    return json.dumps({"timestamp": at(second), "level": "info", "message": message, **more})


CALM = [line(1, "INFO", "starting"), line(2, "INFO", "serving clients")]


def others(lines: Sequence[str]) -> dict[str, Sequence[str]]:
    """These of n1, and calm ones of the others."""
    return {"n1": lines, "n2": CALM, "n3": CALM}


WORDS = {
    "consensus_timeout": (
        line(5, "WARN", "consensus round 7 timeout, no decision"),
        line(5, "INFO", "consensus timeout = 5s"),
    ),
    "state_conflicts": (
        line(5, "ERROR", "conflict on key x: two values"),
        line(5, "INFO", "merge done without conflict"),
    ),
    "network_partition_detected": (
        line(5, "ERROR", "split-brain: two leaders"),
        line(5, "INFO", "topic has 3 partitions, partition key is id"),
    ),
    "out_of_memory": (
        line(5, "ERROR", "java.lang.OutOfMemoryError: Java heap space"),
        line(5, "INFO", "bloom filter in the room of memory pool ready"),
    ),
}


@pytest.mark.parametrize(
    ("message", "check"),
    [
        ("no more retries, consensus timeout after 5s", "consensus_timeout"),
        ("consensus timeout = 5s exceeded, giving up", "consensus_timeout"),
        ("write not acknowledged: conflict in replicated state", "state_conflicts"),
    ],
)
def test_a_denial_of_something_else_denies_nothing(
    message: str, check: str, tmp_path: Path
) -> None:
    assert found(looked(tmp_path, others([*CALM, line(5, "ERROR", message)])), check)


@pytest.mark.parametrize("check", WORDS)
def test_words_are_found_and_their_healthy_likes_are_not(check: str, tmp_path: Path) -> None:
    bad, clean = WORDS[check]
    (one,) = found(looked(tmp_path / "bad", others([*CALM, bad])), check)
    assert (one.nodes, one.count, one.window, one.expected) == (["n1"], 1, "no fault", False)
    assert one.rows[0].place == "n1/server.log:3"
    assert found(looked(tmp_path / "clean", others([*CALM, clean])), check) == []


def test_a_node_without_any_vote_is_found(tmp_path: Path) -> None:
    """The mean is of all nodes that there are, and zero counts."""
    votes = [line(n, "INFO", f"node votes for proposal {n}") for n in range(1, 11)]
    logs = {"n1": votes, "n2": votes, "n3": CALM}
    (one,) = found(looked(tmp_path, logs, NODES), "silent_failures")
    assert one.nodes == ["n3"] and "0 times" in one.said and one.bad


def test_the_mean_is_of_all_nodes(tmp_path: Path) -> None:
    """Six votes are less than half of the mean of those who vote at all, and enough of all."""

    def votes(count: int) -> list[str]:
        return [*CALM, *(line(n, "INFO", f"votes for proposal {n}") for n in range(1, count + 1))]

    logs = {"n1": votes(20), "n2": votes(6), "n3": CALM, "n4": CALM}
    both = found(looked(tmp_path, logs, ["n1", "n2", "n3", "n4"]), "silent_failures")
    assert [one.nodes for one in both] == [["n3"], ["n4"]]


def test_nodes_are_not_compared_by_a_few_votes(tmp_path: Path) -> None:
    """Some servers' logs tell of who won an election alone: of two or three of them."""
    logs = {"n1": [line(1, "INFO", "votes in term 1"), line(2, "INFO", "votes in term 2")]}
    made = outcome(looked(tmp_path, others(logs["n1"]), NODES), "silent_failures")
    assert made.findings == [] and any("too few to compare" in note for note in made.notes)


def test_a_node_without_any_line_is_found_where_the_nodes_are_declared(tmp_path: Path) -> None:
    logs = {"n1": CALM, "n2": CALM}
    (one,) = found(looked(tmp_path / "a", logs, NODES), "silent_failures")
    assert one.nodes == ["n3"] and "says nothing" in one.said and one.bad
    undeclared = outcome(looked(tmp_path / "b", logs), "silent_failures")
    assert undeclared.findings == [] and "declared" in undeclared.not_evaluated


def test_nodes_that_all_vote_are_clean_and_a_vote_told_twice_is_one(tmp_path: Path) -> None:
    votes = [line(n, "INFO", f"votes in term {n}") for n in range(1, 11)]
    logs = {"n1": [*votes, *votes, *votes], "n2": votes, "n3": votes}
    assert found(looked(tmp_path, logs, NODES), "silent_failures") == []


def test_votes_while_a_fault_stood_accuse_nobody(tmp_path: Path) -> None:
    early = [line(n, "INFO", f"votes in term {n}") for n in range(1, 4)]
    alone = [line(n, "INFO", f"votes in term {n}") for n in range(11, 30)]
    logs = {"n1": [*early, *alone], "n2": early, "n3": early}
    stands = [fault(10, 40, ["n1"])]
    assert found(looked(tmp_path / "a", logs, NODES, stands), "silent_failures") == []
    healthy = found(looked(tmp_path / "b", logs, NODES, []), "silent_failures")
    assert [one.nodes for one in healthy] == [["n2"], ["n3"]]


def test_rejections(tmp_path: Path) -> None:
    good = [line(n, "INFO", f"votes for proposal {n}") for n in range(1, 8)]
    bad = [line(20 + n, "INFO", f"reject vote for proposal {n}") for n in range(1, 5)]
    (one,) = found(looked(tmp_path / "a", others([*good, *bad])), "high_rejection_rate")
    assert one.severity == "medium" and one.said.startswith("36% of 11")
    few = others([*good, bad[0]])
    assert found(looked(tmp_path / "b", few), "high_rejection_rate") == []


def test_a_response_before_its_request_is_found_though_a_later_one_exists(tmp_path: Path) -> None:
    """The last response behind the last request says nothing about the others."""
    lines = [
        row(1, "response to m1", correlationId="m1"),
        row(2, "request m1", correlationId="m1"),
        row(3, "request m2", correlationId="m2"),
        row(4, "response to m2", correlationId="m2"),
    ]
    (one,) = found(looked(tmp_path / "bad", others(lines)), "causal_ordering_violation")
    assert one.bad and one.rows[0].place == "n1/server.log:1" and "before" in one.said
    lines[:2] = reversed(lines[:2])
    assert found(looked(tmp_path / "good", others(lines)), "causal_ordering_violation") == []


def test_between_nodes_times_decide_and_vector_clocks_before_them(tmp_path: Path) -> None:
    def logs(asked: float, answered: float, **vectors: Any) -> dict[str, list[str]]:
        a, b = ({"vectorClock": v} if (v := vectors.get(name)) else {} for name in "ab")
        return {
            "n1": [row(asked, "request", correlationId="x", **a)],
            "n2": [row(answered, "response", correlationId="x", **b)],
        }

    name = "causal_ordering_violation"
    assert found(looked(tmp_path / "a", logs(1, 2)), name) == []
    assert [one.nodes for one in found(looked(tmp_path / "b", logs(2, 1)), name)] == [["n2"]]
    late = logs(2, 1, a={"n1": 1}, b={"n1": 1, "n2": 1})
    assert found(looked(tmp_path / "c", late), name) == []
    early = logs(1, 2, a={"n1": 1, "n2": 1}, b={"n2": 1})
    assert len(found(looked(tmp_path / "d", early), name)) == 1


def test_a_response_to_nothing_and_a_request_without_an_answer(tmp_path: Path) -> None:
    lines = [row(1, "response", correlationId="a"), row(2, "request", correlationId="b")]
    both = found(looked(tmp_path, others(lines)), "causal_ordering_violation")
    assert {(one.severity, one.said) for one in both} == {
        ("high", "a response, and no request that it could be to"),
        ("medium", "a request that no line answers"),
    }


def test_a_message_is_no_duplicate_of_its_own_arrival(tmp_path: Path) -> None:
    sent = row(1, "sent append", messageId="m1", to="n2")
    to_other = row(1, "sent append", messageId="m1", to="n3")
    got = row(2, "received append", messageId="m1")
    passed_on = row(3, "sent append", messageId="m1")
    clean = {"n1": [sent, to_other], "n2": [got, passed_on], "n3": [got]}
    assert found(looked(tmp_path / "clean", clean), "duplicate_messages") == []
    twice = {"n1": [sent], "n2": [got, got], "n3": [sent, sent]}
    both = found(looked(tmp_path / "bad", twice), "duplicate_messages")
    assert {(one.nodes[0], one.said.split()[2]) for one in both} == {("n2", "was"), ("n3", "was")}
    assert any("received again" in one.said for one in both)
    assert any("sent again" in one.said for one in both)


def test_states_are_compared_at_the_same_index_and_lag_is_none(tmp_path: Path) -> None:
    def states(*hashes: str) -> list[str]:
        return [row(n, "applied", appliedIndex=n, stateHash=one) for n, one in enumerate(hashes, 1)]

    good = {"n1": states("a", "b", "c"), "n2": states("a"), "n3": states("a", "b")}
    assert found(looked(tmp_path / "lag", good), "state_divergence") == []
    bad = {**good, "n3": states("a", "x")}
    (one,) = found(looked(tmp_path / "bad", bad), "state_divergence")
    assert (one.nodes, one.said) == (["n1", "n3"], "at applied index 2 the states differ: n1; n3")
    more = {**bad, "n2": states("a", "b", "c", "d"), "n4": states("a", "b", "c", "e")}
    odd, later = found(looked(tmp_path / "more", more), "state_divergence")
    assert (odd.nodes, odd.said) == (["n3"], "at applied index 2 the states differ: n1, n2, n4; n3")
    assert odd.count == 2 and later.nodes == ["n2", "n4"] and "index 4" in later.said


def test_no_fault_explains_states_that_differ(tmp_path: Path) -> None:
    logs = {
        "n1": [row(15, "applied", appliedIndex=1, stateHash="a")],
        "n2": [row(15, "applied", appliedIndex=1, stateHash="b")],
    }
    (one,) = found(looked(tmp_path, logs, ["n1", "n2"], [fault(10, 20, [])]), "state_divergence")
    assert not one.expected and one.bad


def test_a_partition_is_expected_by_time_and_by_who_is_named(tmp_path: Path) -> None:
    logs = {
        "n1": [line(12, "ERROR", "peer 10.0.0.2 unreachable")],
        "n2": [line(15, "ERROR", "peer 10.0.0.3 unreachable")],
        "n3": [line(90, "ERROR", "peer 10.0.0.1 unreachable")],
    }
    addresses = {"10.0.0.1": "n1", "10.0.0.2": "n2", "10.0.0.3": "n3"}
    made = looked(tmp_path, logs, NODES, [fault(10, 20, ["n1"])], addresses=addresses)
    told = {tuple(one.nodes): one for one in found(made, "network_partition_detected")}
    assert told["n1", "n2"].expected and told["n1", "n2"].window == "f1"
    assert not told["n2", "n3"].expected and "about others" in told["n2", "n3"].why
    assert not told["n3", "n1"].expected and told["n3", "n1"].window == "no fault"


def test_lack_of_memory_wants_a_fault_that_explains_it(tmp_path: Path) -> None:
    logs = others([line(12, "ERROR", "out of memory")])
    for number, (nemesis, nodes, expected) in enumerate(
        [("partition", ["n1"], False), ("memory", ["n1"], True), ("memory", ["n2"], False)]
    ):
        stands = [replace(fault(10, 20, nodes), nemesis=nemesis)]
        (one,) = found(looked(tmp_path / str(number), logs, NODES, stands), "out_of_memory")
        assert one.expected is expected


def refused(count: int, seconds: float) -> list[str]:
    step = seconds / count
    return [line(n * step, "WARN", "dial 10.0.0.2:80: connection refused") for n in range(count)]


def test_connections_by_minute_and_pair(tmp_path: Path) -> None:
    where = {"10.0.0.2": "n2", "10.0.0.3": "n3"}
    made = looked(tmp_path / "bad", others(refused(11, 50)), NODES, addresses=where)
    (one,) = found(made, "connection_failures")
    assert (one.nodes, one.count) == (["n1", "n2"], 11) and one.bad
    (pair,) = outcome(made, "connection_failures").facts["reachability"]
    assert (pair["from"], pair["to"], pair["most_a_minute"]) == ("n1", "n2", 11)
    slow = looked(tmp_path / "slow", others(refused(40, 600)), NODES, addresses=where)
    assert found(slow, "connection_failures") == []
    assert outcome(slow, "connection_failures").facts["reachability"][0]["failures"] == 40


def test_latency_interpolates_and_a_few_slow_ones_are_not_the_maximum(tmp_path: Path) -> None:
    def took(*durations: float) -> list[str]:
        return [row(1, "done", operation="get", duration=ms) for ms in durations]

    (one,) = found(looked(tmp_path / "bad", others(took(*[1500.0] * 20))), "high_latency")
    assert "p95 is 1500.0 ms" in one.said
    good = looked(tmp_path / "good", others(took(*[10.0] * 19, 1100.0)))
    assert found(good, "high_latency") == []
    (fact,) = outcome(good, "high_latency").facts["p95"]
    assert fact["p95_ms"] == pytest.approx(10 + 0.05 * 1090)


def test_latency_against_the_time_before_the_first_fault(tmp_path: Path) -> None:
    usual = [row(n * 0.1, "done", operation="get", duration=10) for n in range(50)]
    later = [row(40 + n * 0.1, "done", operation="get", duration=100) for n in range(500)]
    made = looked(tmp_path, others([*usual, *later]), NODES, [fault(10, 20, [])])
    (one,) = found(made, "high_latency")
    assert one.severity == "medium" and "the baseline is 10.0 ms" in one.said


def test_errors_are_counted_by_operation_and_not_by_line(tmp_path: Path) -> None:
    def operation(n: int, failed: bool, lines: int = 1) -> list[str]:
        level = "error" if failed else "info"
        return [row(n, "get", operation="get", requestId=f"r{n}", level=level)] * lines

    good = [text for n in range(100) for text in operation(n % 60, False)]
    one_loud = [row(1, "get", operation="get", requestId="x", level="error")] * 50
    many = [row(n % 60, "get", operation="get", requestId=f"g{n}") for n in range(100)]
    assert found(looked(tmp_path / "good", others([*many, *one_loud])), "high_error_rate") == []
    bad = [row(1, "get", operation="get", requestId=f"b{n}", level="error") for n in range(6)]
    (one,) = found(looked(tmp_path / "bad", others([*many, *bad])), "high_error_rate")
    assert one.count == 6 and one.said.startswith("get: 5.7% of 106")
    assert good


def test_what_had_nothing_to_look_at_is_not_clean(tmp_path: Path) -> None:
    made = looked(tmp_path, {"n1": CALM, "n2": CALM})
    silent = {one.check for one in made.outcomes if one.not_evaluated}
    assert silent == {
        *("silent_failures", "high_rejection_rate", "causal_ordering_violation"),
        *("duplicate_messages", "state_divergence", "high_latency", "high_error_rate"),
        "tenant_values",
    }


def test_all_thirteen_are_there_and_calm_logs_are_clean(tmp_path: Path) -> None:
    assert len({check.id for check in CHECKS}) == 13
    assert looked(tmp_path, dict.fromkeys(NODES, CALM), NODES).findings == []


HEALTHY = [
    "Assigned partition orders-3 to consumer 2",
    "Received partition leader epoch 5 for orders-3",
    "table partitioned by day, partition count 12",
    "n3 : ok=12 changed=0 unreachable=0 failed=0",
    "consensus timeout configured 2000ms",
    "using consensus timeout 2s",
    "conflict-free replicated map ready",
    "INSERT ... ON CONFLICT DO NOTHING",
    "conflict resolution is last-write-wins",
    "split-brain resolver started",
    "network partition handling strategy: autoheal",
    "conflicts: 0, unreachable: none",
    "consensus timeout 2000ms",
    "flags -XX:+HeapDumpOnOutOfMemoryError -XX:+ExitOnOutOfMemoryError",
]


def test_healthy_words_are_no_trouble(tmp_path: Path) -> None:
    made = looked(tmp_path, others([line(5, "INFO", text) for text in HEALTHY]))
    told = [one.said for check in WORDS for one in found(made, check)]
    assert told == []


@pytest.mark.parametrize(
    ("message", "check"),
    [
        ("n2 unreachable=1", "network_partition_detected"),
        ("partition detected between n1 and n2", "network_partition_detected"),
        ("we are in the minority partition, stepping down", "network_partition_detected"),
        ("n3 is partitioned from the others", "network_partition_detected"),
        ("write-write conflict on key x", "state_conflicts"),
        ("conflicts: 3", "state_conflicts"),
        ("consensus timed out after 2000ms", "consensus_timeout"),
    ],
)
def test_words_in_a_context_of_failure_are(message: str, check: str, tmp_path: Path) -> None:
    assert found(looked(tmp_path, others([line(5, "WARN", message)])), check)


def test_a_fault_explains_what_follows_its_heal_for_some_seconds(tmp_path: Path) -> None:
    faults = [fault(10, 20, ("n1",))]
    lines = [line(second, "WARN", "n1 is unreachable") for second in (20.5, 31.0)]
    rows = found(looked(tmp_path, others(lines), faults=faults), "network_partition_detected")
    assert [one.expected for one in rows] == [True, False]
    assert "it was healed 0.5 s before" in rows[0].why


def test_durations_in_words(tmp_path: Path) -> None:
    slow = ["GET /x answered in 2500ms", "write done, duration=2500ms", "request took 2.5s"]
    others_ = ["next election in 2500ms", "session expires after 30s", "heartbeat within 5s"]
    lines = [line(n, "INFO", text) for n, text in enumerate([*slow * 10, *others_])]
    (one,) = found(looked(tmp_path, others(lines)), "high_latency")
    assert one.count == 30 and "p95 is 2500.0 ms" in one.said


def test_ids_are_read_with_either_way_to_write_them(tmp_path: Path) -> None:
    rows = [
        row(5, "response sent", correlation_id="a", message_id="m1"),
        row(6, "request received", correlation_id="a", message_id="m2"),
    ]
    (one,) = found(looked(tmp_path, others(rows)), "causal_ordering_violation")
    assert one.said == "a response stands before its request"
