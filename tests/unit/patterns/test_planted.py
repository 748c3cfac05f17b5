"""Each of the patterns, planted in a run: it is among the first three; and a near miss of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planted_runs import (
    LOAD_S,
    NODES,
    Cluster,
    journal_files,
    line,
    message,
    op,
    ops_of,
    partition,
    planted,
)

from dstest.debug.patterns.analysis import PATTERNS
from dstest.debug.patterns.diagnosis import Diagnosis, diagnose

pytestmark = pytest.mark.slow

Made = Callable[[Path], Path]


def of_journal(path: Path, cluster: Cluster, **how: Any) -> Path:
    return planted(path, files=journal_files(cluster), **how)


def led(*, until: float = LOAD_S, **how: Any) -> Cluster:
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    cluster.steady(1.0, until, **how)
    return cluster


def _with(changes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return fields | changes


# 1: two leaders of one term; near: a second leader in the next term


def split(path: Path) -> Path:
    cluster = led(until=40)
    cluster.note(40, 3, "campaign", term=1, last=[1, 5])
    cluster.note(40.1, 3, "lead", term=1, votes=[2, 3])
    return of_journal(path, cluster)


def no_split(path: Path) -> Path:
    cluster = led(until=40)
    cluster.elect(40, 3, 2)
    return of_journal(path, cluster)


# 2: a member that takes part in nothing; near: while it was cut off


def silent(path: Path) -> Path:
    return of_journal(path, led(by=(1, 2)))


def not_silent(path: Path) -> Path:
    cluster = led(until=20)
    index = cluster.steady(20, 50, first=200, by=(1, 2))
    for at in range(index - 150, index):
        row = [1, f"e1-{at}"]
        cluster.note(50.5, 3, "accept", term=1, leader=1, first=at, rows=[row])
    cluster.note(50.6, 3, "ack", term=1, index=index - 1)
    cluster.steady(51, LOAD_S, first=index)
    return of_journal(path, cluster, records=[partition(19.9, 50, ("n3",))])


# 3: a leader counts a vote that was not given; near: it counts what was given


def stuffed(path: Path) -> Path:
    cluster = led(until=40)
    cluster.note(40, 3, "campaign", term=2, last=[1, 5])
    cluster.note(40.1, 3, "lead", term=2, votes=[2, 3])
    return of_journal(path, cluster)


def counted(path: Path) -> Path:
    cluster = led(until=40)
    cluster.elect(40, 3, 2, (2, 3))
    return of_journal(path, cluster)


# 4: a decision that takes twenty seconds; near: while the leader was cut off


def late(path: Path, **how: Any) -> Path:
    cluster = led(until=20)
    cluster.entry(21, 97, late_s=20)
    return of_journal(path, cluster, **how)


def late_in_partition(path: Path) -> Path:
    return late(path, records=[partition(20.9, 41, ("n1",))])


# 5: a read behind what was confirmed; near: a read beside a write


def behind(path: Path) -> Path:
    ops = ops_of()
    ops[825] = op(825, 825 / 20, op_type="read", key="k0", output=ops[800].input)
    ops[815] = op(815, 815 / 20, op_type="write", key="k0", input=99_999)
    return planted(path, ops)


def beside(path: Path) -> Path:
    ops = [one for one in ops_of() if one.key != "k0" or one.invoke_ts < 40 * 10**9]
    ops.append(op(5000, 41, 500, key="k0", input=7_000))
    old = next(o for o in reversed(ops[:-1]) if o.key == "k0" and o.op_type == "write")
    ops.append(op(5001, 41.2, 5, op_type="read", key="k0", output=old.input))
    return planted(path, sorted(ops, key=lambda one: one.invoke_ts))


# 6: messages that never arrive; near: while the link was cut, and at the end of the logs


def mails(drop: Callable[[int], bool], swap: Callable[[int], bool] = lambda at: False) -> Any:
    sent = [message(1 + n / 5, "sent", f"m{n}", "n2") for n in range(350)]
    order = [n for n in range(350) if not drop(n)]
    for at in range(len(order) - 1):
        if swap(at):
            order[at], order[at + 1] = order[at + 1], order[at]
    got = [message(1.01 + n / 5, "received", f"m{n}", "n1") for n in order]
    return {"n1": sent, "n2": got}


def lost(path: Path) -> Path:
    return planted(path, logs=mails(lambda n: n in (100, 120, 140)), system="shop")


def lost_in_partition(path: Path) -> Path:
    logs = mails(lambda n: 100 <= n < 150 or n > 347)
    return planted(path, logs=logs, system="shop", records=[partition(20.9, 31)])


# 7: messages that are overtaken; near: all come late, in their order


def overtaken(path: Path) -> Path:
    return planted(path, logs=mails(lambda n: False, lambda at: at % 40 == 7), system="shop")


def in_order(path: Path) -> Path:
    sent = [message(1 + n / 5, "sent", f"m{n}", "n2") for n in range(350)]
    got = [message(3 + n / 5, "received", f"m{n}", "n1") for n in range(350)]
    return planted(path, logs={"n1": sent, "n2": got}, system="shop")


# 8: two swaps from one value; near: one of them was refused


def swaps(path: Path, **second: Any) -> Path:
    ops = ops_of(load_s=20)
    ops += [
        op(900, 30, key="x", input=1),
        op(901, 31, 50, op_type="cas", key="x", input=[1, 2], output=True),
        op(902, 31.01, 50, **{"op_type": "cas", "key": "x", "input": [1, 3], "output": True}
           | second),
    ]  # fmt: skip
    return planted(path, ops)


def one_swap(path: Path) -> Path:
    return swaps(path, output=False)


# 9: a read shows what was refused; near: what may have been done


def refused(path: Path, **write: Any) -> Path:
    ops = ops_of(load_s=20)
    ops += [
        op(900, 30, key="x", input=1),
        op(901, 31, **_with(write, key="x", input=2, error="Definite: refused")),
        op(902, 32, op_type="read", key="x", output=2),
    ]
    return planted(path, ops)


def unknown(path: Path) -> Path:
    return refused(path, took_ms=None, error="Indefinite: timeout")


# 10: different sums at one index; near: one is behind


def diverged(path: Path) -> Path:
    cluster = led(until=40)
    cluster.steady(40, LOAD_S, first=197, sums={3: 5})
    return of_journal(path, cluster)


def lagging(path: Path) -> Path:
    cluster = led(until=70)
    cluster.steady(70, LOAD_S, first=347, by=(1, 2))
    return of_journal(path, cluster)


# 11: nobody notices a partition; near: somebody campaigns soon


def unnoticed(path: Path, campaign: float = 0.0) -> Path:
    cluster = led(until=20)
    if campaign:
        cluster.note(campaign, 1, "campaign", term=2, last=[1, 5])
    cluster.steady(51, LOAD_S, first=97, term=1)
    ops = ops_of(lambda n, s: {"took_ms": None} if 20 < s < 50 and n % 3 == 0 else {})
    return of_journal(path, cluster, ops=ops, records=[partition(20, 50)])


def noticed(path: Path) -> Path:
    return unnoticed(path, campaign=23)


# 12: others fail one after the other once a fault was healed; near: while it stands


def cascade(path: Path, *, after: bool = True) -> Path:
    shift = 0 if after else -18

    def change(number: int, second: float) -> dict[str, Any]:
        node = NODES[number % 3]
        begins = {"n2": 40, "n3": 55}.get(node, 1000) + shift
        ends = LOAD_S if after else 38
        cut = node == "n1" and 20 <= second < 36
        return {"took_ms": None} if cut or begins <= second < ends else {}

    return planted(path, ops_of(change), records=[partition(20, 36)])


# 13: operations that take seconds; near: while a fault stands


def slow(path: Path, **how: Any) -> Path:
    return planted(path, ops_of(lambda n, s: {"took_ms": 3000} if 40 < s < 60 else {}), **how)


def slow_in_partition(path: Path) -> Path:
    return slow(path, records=[partition(39, 61)])


# 14: far fewer are served than are asked for; near: fewer are asked for


def collapsed(path: Path) -> Path:
    return planted(path, ops_of(lambda n, s: {"took_ms": None} if s > 50 and n % 4 else {}))


def asked_less(path: Path) -> Path:
    return planted(path, ops_of(lambda n, s: None if s > 50 and n % 4 else {}))


# 15: descriptors run out, and memory grows on and on; near: it grows while it warms up


def leaks(path: Path) -> Path:
    rows = [(s, "n2", "rss", 100e6 + 8e6 * s) for s in range(LOAD_S)]
    told = [line(70 + n, "accept: too many open files", "error") for n in range(4)]
    return planted(path, metrics=rows, logs={"n2": told})


def warms_up(path: Path) -> Path:
    rows = [(s, "n2", "rss", 100e6 + 20e6 * min(s, 10)) for s in range(LOAD_S)]
    told = [line(5, "max connections = 100, open files = 4096")]
    return planted(path, metrics=rows, logs={"n2": told})


# 16: each waits for what the other holds; near: one gives up


def waits(path: Path, *, gives_up: bool = False) -> Path:
    ops = ops_of(load_s=20)
    for client, (has, wants) in enumerate((("a", "b"), ("b", "a"))):
        who: dict[str, Any] = {"process_id": 1000 + client, "op_type": "acquire"}
        ops.append(
            op(900 + client, 30, **who, input={"ttl_ns": None}, key=has, output={"token": client})
        )
        took = 2000 if gives_up and client else None
        error = {"error": "Definite: timeout"} if took else {}
        ops.append(op(910 + client, 31 + client / 10, took, **(who | error), input={}, key=wants))
    return planted(path, ops)


def gives_up(path: Path) -> Path:
    return waits(path, gives_up=True)


# 17: term after term and nothing is committed; near: while most are cut off


def terms(path: Path, **how: Any) -> Path:
    cluster = led(until=40)
    for number in range(12):
        cluster.note(41 + number, 1 + number % 3, "campaign", term=2 + number, last=[1, 5])
    ops = ops_of(lambda n, s: {"took_ms": None} if s > 41 else {})
    return of_journal(path, cluster, ops=ops, **how)


def terms_in_partition(path: Path) -> Path:
    records = [partition(40.5, LOAD_S - 1, NODES)]
    return terms(path, records=records, recoveries=[(LOAD_S - 1, None)])


# 18: two votes of one server in a term; near: in two terms


def votes_twice(path: Path, *, terms: tuple[int, int] = (2, 2)) -> Path:
    cluster = led(until=40)
    for candidate, term in zip((1, 3), terms, strict=True):
        cluster.note(40, 2, "vote", term=term, candidate=candidate, last=[1, 5])
    return of_journal(path, cluster)


def votes_again(path: Path) -> Path:
    return votes_twice(path, terms=(2, 3))


# 19: one request applied twice; near: the second time it was known


def effects(*rows: dict[str, Any]) -> list[str]:
    plain = {"op": "add", "key": "k", "term": 1, "result": {"ok": None}}
    return [
        json.dumps({**plain, "index": at, "value": at, "id": f"c/{at}", **one})
        for at, one in enumerate(rows, 1)
    ]


def applied_twice(path: Path, **second: Any) -> Path:
    rows = effects(*[{}] * 50, {"id": "c/7", "value": 7, **second}, {})
    return planted(path, files={f"{node}/audit.jsonl": rows for node in NODES})


def known_again(path: Path) -> Path:
    return applied_twice(path, result={"again": None})


# 20: two replicas applied different things; near: one applied less


def orders(path: Path) -> Path:
    one, other = effects({}, {}, {}, {}), effects({}, {"value": 3}, {"value": 2}, {})
    return planted(path, files={"n1/audit.jsonl": one, "n2/audit.jsonl": other})


def shorter(path: Path) -> Path:
    rows = effects(*[{}] * 9)
    return planted(path, files={"n1/audit.jsonl": rows, "n2/audit.jsonl": rows[:5]})


# 21: an acknowledged element is gone; near: it was never acknowledged, or added later


def gone(path: Path, **add: Any) -> Path:
    ops = [op(n, n / 10, op_type="add", key="s", input=n) for n in range(300)]
    ops[50] = op(50, 5, **_with(add, op_type="add", key="s", input=50))
    left = [n for n in range(300) if n != 50]
    ops.append(op(400, 60, op_type="read", key="s", output=left))
    ops.append(op(401, 61, op_type="add", key="s", input=401))
    return planted(path, ops)


def never_acknowledged(path: Path) -> Path:
    return gone(path, took_ms=None)


# 22: damaged data; near: it says that there are none


def damaged(path: Path) -> Path:
    told = [line(40 + n, "wal: checksum mismatch in record 7", "error") for n in range(3)]
    return planted(path, logs={"n2": told}, system="shop")


def sound(path: Path) -> Path:
    told = [line(40 + n, "checked all records: no checksum mismatch") for n in range(3)]
    return planted(path, logs={"n2": told}, system="shop")


# 23: a replica that stays behind; near: one that catches up


def stays_behind(path: Path) -> Path:
    cluster = led(until=40)
    cluster.steady(40, LOAD_S, first=197, by=(1, 2))
    return of_journal(path, cluster)


def catches_up(path: Path) -> Path:
    cluster = led(until=40)
    index = cluster.steady(40, 60, first=197, by=(1, 2))
    rows = [[1, f"e1-{at}"] for at in range(197, index)]
    cluster.note(60, 3, "accept", term=1, leader=1, first=197, rows=rows)
    cluster.note(60, 3, "ack", term=1, index=index - 1)
    cluster.note(60, 3, "learn", term=1, index=index - 1)
    cluster.steady(61, LOAD_S, first=index)
    return of_journal(path, cluster)


# 24: no recovery after a heal; near: a quick one


def never_recovers(path: Path) -> Path:
    ops = ops_of(lambda n, s: {"took_ms": None} if s > 21 and n % 3 == 0 else {})
    return planted(path, ops, records=[partition(20, 30)], recoveries=[(30, None)])


def recovers(path: Path) -> Path:
    ops = ops_of(lambda n, s: {"took_ms": None} if 21 < s < 34 and n % 3 == 0 else {})
    return planted(path, ops, records=[partition(20, 30)], recoveries=[(30, 35)])


# 25: a queue grows and its consumers take no more; near: it goes up and down


def queue_grows(path: Path) -> Path:
    rows: list[Any] = [(s, "n1", "queue", 200 * s) for s in range(LOAD_S)]
    rows += [(s, "", "throughput", 20.0 + s % 2) for s in range(LOAD_S)]
    return planted(path, metrics=rows)


def queue_moves(path: Path) -> Path:
    rows: list[Any] = [(s, "n1", "queue", 200 * (s % 10)) for s in range(LOAD_S)]
    rows += [(s, "", "throughput", 20.0 + s % 2) for s in range(LOAD_S)]
    return planted(path, metrics=rows)


# 26: one client is never served; near: while its node was cut off


def starves(path: Path) -> Path:
    ops = ops_of(lambda n, s: {"error": "Definite: busy"} if n % 6 == 4 else {})
    return planted(path, ops)


def starves_in_partition(path: Path) -> Path:
    ops = ops_of(lambda n, s: {"error": "Definite: busy"} if n % 6 == 4 and 20 < s < 60 else {})
    return planted(path, ops, records=[partition(20, 60, ("n2",))])


# 27: one message with two contents; near: messages of two sources under one id


def two_contents(path: Path, *, source: str = "n1") -> Path:
    logs = {
        "n2": [message(5 + n, "received", f"m{n}", "n1", stateHash=f"h{n}") for n in range(30)],
        "n3": [message(5 + n, "received", f"m{n}", source, stateHash=f"h{n}") for n in range(29)]
        + [message(34, "received", "m29", source, stateHash="other")],
    }
    return planted(path, logs=logs, system="shop")


def two_sources(path: Path) -> Path:
    return two_contents(path, source="n2")


CASES: dict[int, tuple[Made, Made]] = {
    1: (split, no_split),
    2: (silent, not_silent),
    3: (stuffed, counted),
    4: (late, late_in_partition),
    5: (behind, beside),
    6: (lost, lost_in_partition),
    7: (overtaken, in_order),
    8: (swaps, one_swap),
    9: (refused, unknown),
    10: (diverged, lagging),
    11: (unnoticed, noticed),
    12: (cascade, lambda path: cascade(path, after=False)),
    13: (slow, slow_in_partition),
    14: (collapsed, asked_less),
    15: (leaks, warms_up),
    16: (waits, gives_up),
    17: (terms, terms_in_partition),
    18: (votes_twice, votes_again),
    19: (applied_twice, known_again),
    20: (orders, shorter),
    21: (gone, never_acknowledged),
    22: (damaged, sound),
    23: (stays_behind, catches_up),
    24: (never_recovers, recovers),
    25: (queue_grows, queue_moves),
    26: (starves, starves_in_partition),
    27: (two_contents, two_sources),
}


def taken_back(path: Path, **write: Any) -> Path:
    ops = ops_of(load_s=20)
    ops += [
        op(900, 30, key="x", input=1),
        op(901, 31, **_with(write, key="x", input=2, took_ms=None)),
        op(902, 33, op_type="read", key="x", output=2),
        op(903, 35, op_type="read", key="x", output=1),
    ]
    return planted(path, ops)


def test_what_was_shown_and_rolled_back_is_a_dirty_read(tmp_path: Path) -> None:
    found = diagnose(taken_back(tmp_path / "run"))
    assert found.hypotheses[0].number == 9 and found.hypotheses[0].alarm, told(found)
    acked = diagnose(taken_back(tmp_path / "acked", took_ms=5.0))
    ranks = {h.number: h.rank for h in acked.alarms}
    assert ranks[5] == 1 and 9 not in ranks, told(acked)


def test_a_read_that_is_old_takes_nothing_back(tmp_path: Path) -> None:
    """A value was confirmed on top of the one of unknown outcome; who reads the first is behind."""
    ops = ops_of(load_s=20)
    ops += [
        op(900, 30, key="x", input=1),
        op(901, 31, key="x", input=2, took_ms=None),
        op(902, 33, op_type="read", key="x", output=2),
        op(903, 34, key="x", input=3),
        op(904, 35, op_type="read", key="x", output=1),
    ]
    found = diagnose(planted(tmp_path / "run", ops))
    assert 9 not in {h.number for h in found.hypotheses}, told(found)


def told(found: Diagnosis) -> list[tuple[int, int, str, bool]]:
    return [(h.rank, h.number, h.detections[0].said, h.alarm) for h in found.hypotheses]


def test_there_are_twenty_seven_and_each_is_planted() -> None:
    assert [pattern.number for pattern in PATTERNS] == list(range(1, 28)) == sorted(CASES)
    assert len({pattern.id for pattern in PATTERNS}) == 27


@pytest.mark.parametrize("number", CASES, ids=lambda n: f"{n}-{PATTERNS[n - 1].id}")
def test_a_planted_pattern_is_among_the_first_three(number: int, tmp_path: Path) -> None:
    found = diagnose(CASES[number][0](tmp_path / "run"))
    ranks = {h.number: h for h in found.hypotheses}
    assert number in ranks, told(found)
    one = ranks[number]
    assert one.rank <= 3 and one.alarm, told(found)
    assert one.detections[0].rows, one
    assert found.code == 1


@pytest.mark.parametrize("number", CASES, ids=lambda n: f"{n}-{PATTERNS[n - 1].id}")
def test_a_near_miss_of_it_is_no_alarm(number: int, tmp_path: Path) -> None:
    found = diagnose(CASES[number][1](tmp_path / "run"))
    alarms = {h.number for h in found.alarms}
    assert number not in alarms, told(found)
    answer = found.answers[number - 1]
    assert answer.looked or answer.words, (answer, "the near miss has to be looked at")
