"""What runs on nodes have shown that was missed, cut down to what gives it away; near misses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from planted_runs import Cluster, journal_files, line, op, ops_of, partition, planted

from dstest.debug.patterns.diagnosis import Diagnosis, _began, diagnose
from dstest.debug.patterns.model import Detection

pytestmark = pytest.mark.slow


def signs(found: Diagnosis, number: int, sign: str) -> list[Detection]:
    """What a sign of a pattern has found."""
    of = (h for h in found.hypotheses if h.number == number)
    return [d for h in of for d in h.detections if d.sign == sign]


def stepped_down(path: Path, next_s: float) -> Path:
    """n1 appends ten entries that nobody acknowledges and leads no longer; n2 is elected then."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    index = cluster.steady(1, 20)
    for more in range(10):
        cluster.note(20 + more / 100, 1, "append", term=1, index=index + more, row=[1, f"x{more}"])
    cluster.note(21.5, 1, "resign", term=1)
    cluster.elect(next_s, 2, 2)
    cluster.steady(next_s + 0.1, 80, first=index, leader=2, term=2)
    return planted(path, files=journal_files(cluster))


def test_entries_of_a_leader_that_stepped_down_wait_for_the_next_one(tmp_path: Path) -> None:
    (late,) = signs(diagnose(stepped_down(tmp_path / "late", 40)), 4, "late")
    assert (late.count, late.nodes, late.alarm) == (10, ["n1"], True), late
    assert not signs(diagnose(stepped_down(tmp_path / "soon", 23)), 4, "late")


def refused(path: Path, *, lets_go: bool = False) -> Path:
    """Two clients hold a lock each and ask for the other's ten times a second, as servers refuse at
    once what is taken; or one of them lets go of its own when it is refused."""
    ops = ops_of(load_s=20)
    for client, (has, wants) in enumerate((("a", "b"), ("b", "a"))):
        who: dict[str, Any] = {"process_id": 1000 + client, "op_type": "acquire"}
        ops.append(op(900 + client, 30, **who, key=has, output={"token": client}))
        for at in range(300):
            second = 31 + client / 100 + at / 10
            ops.append(op(1000 + 2 * at + client, second, **who, key=wants, output=False))
        if lets_go and client:
            who["op_type"] = "release"
            ops.append(op(990, 35.055, **who, key=has))
    return planted(path, sorted(ops, key=lambda one: one.invoke_ts))


def test_locks_that_are_refused_at_once_are_waited_for_as_well(tmp_path: Path) -> None:
    (circle,) = signs(diagnose(refused(tmp_path / "circle")), 16, "circle")
    assert circle.alarm and circle.strength == "proven" and len(circle.rows) == 2, circle
    assert not signs(diagnose(refused(tmp_path / "goes", lets_go=True)), 16, "circle")


def altered_on_the_way(path: Path) -> Path:
    """n3 gets other entries than n1 sends, from a moment on, and commits and applies them."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    index = cluster.steady(1, 20)
    for more in range(10):
        at, second, sent = index + more, 20 + more / 10, [1, f"x{more}"]
        cluster.note(second, 1, "append", term=1, index=at, row=sent)
        for server in (2, 3):
            row = [1, f"other{more}"] if server == 3 else sent
            cluster.note(second, server, "accept", term=1, leader=1, first=at, rows=[row])
            cluster.note(second, server, "ack", term=1, index=at)
        cluster.note(second + 0.01, 1, "commit", term=1, index=at)
        for server in (2, 3):
            cluster.note(second + 0.01, server, "learn", term=1, index=at)
    cluster.steady(22, 80, first=index + 10, by=(1, 2))
    return planted(path, files=journal_files(cluster))


def test_what_was_altered_on_its_way_is_not_what_two_leaders_sent(tmp_path: Path) -> None:
    found = diagnose(altered_on_the_way(tmp_path / "run"))
    assert found.hypotheses[0].pattern == "byzantine-corruption", found.hypotheses
    assert not signs(found, 1, "conflicting-commits") and not signs(found, 20, "commits-differ")


def two_leaders_of_one_term(path: Path) -> Path:
    """n1 and n3 are both elected in term 1; n3 has n2 commit what it sent, in place of n1's."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    index = cluster.steady(1, 20)
    cluster.note(20, 3, "campaign", term=1, last=[1, index - 1])
    cluster.note(20.1, 3, "lead", term=1, votes=[2, 3])
    for server in (1, 3):
        row = [1, f"of{server}"]
        cluster.note(21, server, "append", term=1, index=index, row=row)
        if server == 3:
            cluster.note(21, 2, "accept", term=1, leader=3, first=index, rows=[row])
            cluster.note(21, 2, "ack", term=1, index=index)
        cluster.note(21, server, "ack", term=1, index=index)
        cluster.note(21.1, server, "commit", term=1, index=index)
    return planted(path, files=journal_files(cluster))


def test_what_two_leaders_of_one_term_commit_is_theirs(tmp_path: Path) -> None:
    found = diagnose(two_leaders_of_one_term(tmp_path / "run"))
    (conflict,) = signs(found, 1, "conflicting-commits")
    assert conflict.nodes == ["n1", "n3"] and conflict.alarm, conflict
    assert found.hypotheses[0].pattern == "split-brain"


def slower(path: Path, share: float, *, until: float = 60, fault: bool = False) -> Path:
    """n3 gets this share of the entries only, one after the other, and the rest at the end."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    index = cluster.steady(1, 20, step=0.1)
    has = first = index
    while (second := 20 + (index - first) / 10) < until:
        cluster.entry(second, index, by=(1, 2))
        if has - first < share * (index - first):
            cluster.note(second, 3, "accept", term=1, leader=1, first=has, rows=[[1, f"e1-{has}"]])
            cluster.note(second, 3, "ack", term=1, index=has)
            cluster.note(second, 3, "learn", term=1, index=has)
            has += 1
        index += 1
    rows = [[1, f"e1-{at}"] for at in range(has, index)]
    cluster.note(until, 3, "accept", term=1, leader=1, first=has, rows=rows)
    cluster.note(until, 3, "ack", term=1, index=index - 1)
    cluster.note(until, 3, "learn", term=1, index=index - 1)
    cluster.steady(until + 0.1, 80, first=index, step=0.1)
    records = [partition(19.5, until, ("n3",))] if fault else []
    return planted(path, files=journal_files(cluster), records=records)


def test_a_member_that_falls_behind_more_and_more_is_told_though_it_comes_back(
    tmp_path: Path,
) -> None:
    found = diagnose(slower(tmp_path / "slower", 0.3))
    (falls,) = signs(found, 23, "falls-behind")
    assert falls.nodes == ["n3"] and falls.alarm, falls
    assert found.hypotheses[0].pattern == "incomplete-sync", found.hypotheses
    for name, run in (
        ("nothing", slower(tmp_path / "nothing", 0)),  # it takes no part: that is another trouble
        ("nearly", slower(tmp_path / "nearly", 0.95)),
        ("fault", slower(tmp_path / "fault", 0.3, fault=True)),
        ("short", slower(tmp_path / "short", 0.3, until=27)),
    ):
        assert not signs(diagnose(run), 23, "falls-behind"), name


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("toykv: the log is damaged at line 323", True),
        ("WARNING: invalid page in block 7 of relation base/5/16384", True),
        ("checks whether a page is damaged", False),
        ("no file was damaged", False),
    ],
)
def test_lines_of_damage(tmp_path: Path, said: str, told: bool) -> None:
    found = diagnose(planted(tmp_path / "run", logs={"n2": [said]}))
    damage = signs(found, 22, "damage-told")
    assert bool(damage) is told, damage
    if told:
        assert damage[0].nodes == ["n2"] and found.hypotheses[0].pattern == "corruption"


@pytest.mark.parametrize(
    ("nemesis", "node", "expected"),
    [
        ("bit-rot", "n2", True),
        ("bit-flip", "n2", True),
        ("bit-rot", "n3", False),
        ("partition", "n2", False),
    ],
)
def test_damage_that_a_fault_did_is_its_own(
    nemesis: str, node: str, expected: bool, tmp_path: Path
) -> None:
    """It damaged the disk of n2 alone, from 10 s to 20 s."""
    fault = msgspec.structs.replace(partition(10, 20, ["n2"]), nemesis=nemesis)
    logs = {node: [line(12.0, "toykv: the log is damaged at line 323")]}
    found = diagnose(planted(tmp_path / "run", records=[fault], logs=logs))
    (damage,) = signs(found, 22, "damage-told")
    assert damage.expected is expected, damage


def queue_of(path: Path, depths: list[float]) -> Path:
    rows: list[Any] = [(s, "n1", "queue", depth) for s, depth in enumerate(depths)]
    rows += [(s, "", "throughput", 35.0 + s % 3) for s in range(len(depths))]
    return planted(path, metrics=rows)


def test_a_queue_that_grew_for_long_is_told_though_it_was_emptied_at_last(tmp_path: Path) -> None:
    grew = [26.0 * s for s in range(77)]
    emptied = diagnose(queue_of(tmp_path / "emptied", [*grew, 3, 0, 1]))
    (depth,) = signs(emptied, 25, "depth")
    assert depth.severity == "high" and depth.alarm and depth.nodes == ["n1"], depth
    for name, depths in (
        ("burst", [*[3.0] * 60, *(200.0 * s for s in range(10)), *[2.0] * 10]),
        ("tides", [300.0 * (s % 20) for s in range(80)]),
    ):
        assert not signs(diagnose(queue_of(tmp_path / name, depths)), 25, "depth"), name


def blocked(path: Path, *, reads_too: bool = False, some: bool = False) -> Path:
    """No write of k1 is answered, as if somebody held its row; or `some` of them are."""
    ops = []
    for one in ops_of():
        number, write = int(one.op_id), one.op_type == "write"
        if one.key == "k1" and (write or reads_too) and not (some and number % 50 == 1):
            fields: dict[str, Any] = {"input": number} if write else {"op_type": "read"}
            ops.append(op(number, number / 20, None, key="k1", **fields))
        elif one.key == "k1" and not write and not some:
            ops.append(op(number, number / 20, op_type="read", key="k1", output=None))
        else:
            ops.append(one)
    return planted(path, ops)


def test_changes_of_a_key_that_are_never_served_starve_though_reads_are(tmp_path: Path) -> None:
    found = diagnose(blocked(tmp_path / "run"))
    (starved,) = signs(found, 26, "never-served")
    assert starved.said.startswith("changes of key k1 ") and starved.alarm, starved
    (whole,) = signs(diagnose(blocked(tmp_path / "whole", reads_too=True)), 26, "never-served")
    assert whole.said.startswith("key k1 "), "all of it is told once"
    assert not signs(diagnose(blocked(tmp_path / "some", some=True)), 26, "never-served")


def in_turn(path: Path, second_s: float, lasts_s: float = 30) -> Path:
    """n1 was cut off from 4 to 9 s; n2 serves nobody for long from 20 s on, n3 from `second_s`."""

    def change(number: int, second: float) -> dict[str, Any]:
        node, begin = {1: ("n2", 20.0), 2: ("n3", second_s)}.get(number % 3, ("n1", 90.0))
        bad = begin <= second < begin + lasts_s
        return {"error": "Definite: no-leader"} if bad and node != "n1" else {}

    records = [partition(4, 9, ("n1",))]
    return planted(path, ops_of(change), records=records, recoveries=[(9.0, 9.5)])


def test_a_key_that_lived_while_nobody_was_served_does_not_starve(tmp_path: Path) -> None:
    def change(number: int, second: float) -> dict[str, Any]:
        if not 30 <= second < 45:
            return {}
        return {"key": f"k{number % 5 + 5}", "error": "Definite: no-leader"}

    assert not signs(diagnose(planted(tmp_path / "run", ops_of(change))), 26, "never-served")


def test_members_that_fail_in_turn_for_long_are_a_cascade_though_they_come_back(
    tmp_path: Path,
) -> None:
    (found,) = signs(diagnose(in_turn(tmp_path / "turn", 26)), 12, "onsets")
    assert found.nodes == ["n2", "n3"] and found.alarm, found
    for name, run in (
        ("apart", in_turn(tmp_path / "apart", 45, 15)),
        ("short", in_turn(tmp_path / "short", 24, 6)),
        ("together", in_turn(tmp_path / "together", 20)),
    ):
        assert not signs(diagnose(run), 12, "onsets"), name


@pytest.mark.parametrize(
    ("count", "window", "inside", "said"),
    [
        (1, "f1", True, ", in f1"),
        (2, "f1", True, "; it began in f1"),
        (2, "after f1", False, "; it began after f1"),
        (2, "no fault", False, "; no fault explains it"),
        (1, "no time stamp", False, "; when is not known"),
    ],
)
def test_a_cause_says_in_words_when_it_began(
    count: int, window: str, inside: bool, said: str
) -> None:
    found: Any = SimpleNamespace(count=count, window=window, in_window=inside)
    assert _began(found) == said
