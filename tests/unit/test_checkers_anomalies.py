"""Every anomaly of every checker of whole histories, with its witness."""

from __future__ import annotations

from typing import Any

import pytest
from notation import check

SET = ("set-full", "linearizable")
QUEUE = ("total-queue", "exactly-once")
LOCK = ("exclusion", "lease")
KAFKA = ("kafka", "linearizable")
DEAD = ("dead-letters", "at-least-once")
BANK = ("bank", "strict-serializable")
G2 = ("g2", "serializable")
VIEW = ("atomic-view", "monotonic-atomic-view")
STRICT_VIEW = ("atomic-view", "strict-serializable")
SNAPSHOT = ("atomic-view", "snapshot-isolation")

_BOUNDS = ("counter-bounds", "counter-bounds")

CASES: list[tuple[tuple[str, str], str, list[int], str]] = [
    (SET, "lost", [0, 1], "1 add 7 @0-5\n2 read -> [] @10-15"),
    (SET, "lost", [0, 1, 2], "1 add 7 -> ? @0-5\n2 read -> [7] @10-15\n2 read -> [] @20-25"),
    (SET, "stale", [0, 1], "1 add 7 @0-5\n2 read -> [] @10-15\n2 read -> [7] @20-25"),
    (SET, "phantom", [1], "1 add 7 @0-5\n2 read -> [7, 8] @10-15"),
    (SET, "future-read", [0, 1], "2 read -> [7] @0-5\n1 add 7 @10-15"),
    (SET, "failed-but-applied", [0, 1], "1 add 7 -> ! @0-5\n2 read -> [7] @10-15"),
    (SET, "duplicated", [0, 1], "1 add 7 @0-5\n2 read -> [7, 7] @10-15"),
    (SET, "causal-reverse", [0, 1, 2], "1 add 1 @2-4\n2 add 2 @6-8\n3 read -> [2] @0-9"),
    (
        SET,
        "long-fork",
        [0, 1, 2, 3],
        "1 add 1 @0-99\n2 add 2 @1-99\n3 read -> [1] @3-90\n4 read -> [2] @4-90",
    ),
    (("set", "eventual"), "lost", [0, 2], "1 add 7 @0-5\n2 read -> [] @1-6\n2 read -> [] @10-15"),
    (
        ("no-lost-ack", "durable"),
        "lost",
        [0, 1, 2],
        "1 append 7 @0-1\n1 append 7 @2-3\n2 read -> [7] @4-5",
    ),
    (("no-lost-ack", "durable"), "phantom", [1], "1 append 7 @0-5\n2 read -> [7, 8] @10-15"),
    (
        QUEUE,
        "lost",
        [0, 2],
        "1 enqueue 7 @0-5\n1 enqueue 8 @6-9\n2 dequeue @20-21\n2 dequeue -> 8 @10-11",
    ),
    (
        QUEUE,
        "lost",
        [0, 1],
        "1 enqueue 7 @0-5\n2 dequeue @10-11\n3 dequeue -> ? @20-21",
    ),
    (
        QUEUE,
        "lost",
        [0, 1],
        # Who failed had begun when the queue was seen empty, and gave back before it was again.
        (
            "1 enqueue 7 @0-5\n2 dequeue @16-17\n3 dequeue -> ! @18-20\n2 dequeue @21-22\n"
            "3 dequeue -> ? @40-41"
        ),
    ),
    (
        QUEUE,
        "lost",
        [0, 1, 2, 3],
        "1 enqueue 7 @0-5\n1 enqueue 7 @6-7\n2 dequeue -> 7 @8-9\n2 dequeue @10-11",
    ),
    (
        ("exclusion", "lock"),
        "overlapping-holds",
        [0, 1, 2],
        "1 acquire[l] -> true @0-3\n1 release[l] -> ! @4-5\n2 acquire[l] -> true @6-7",
    ),
    (
        # It held it until it asked, whatever it was told then.
        ("exclusion", "lock"),
        "overlapping-holds",
        [0, 1, 2],
        "1 acquire[l] -> true @0-3\n2 acquire[l] -> true @4-5\n1 release[l] -> !not-held @6-7",
    ),
    (
        ("exclusion", "lock"),
        "overlapping-holds",
        [0, 1, 2],
        (
            "1 acquire[l] -> true @0-3\n1 release[l] -> !read phase: not-held @4-5\n"
            "2 acquire[l] -> true @6-7"
        ),
    ),
    (QUEUE, "duplicated", [0, 1, 2], "1 enqueue 7 @0-5\n2 dequeue -> 7 @6-8\n3 dequeue -> 7 @6-9"),
    (QUEUE, "unexpected", [0], "2 dequeue -> 7 @6-8"),
    (QUEUE, "future-read", [0, 1], "2 dequeue -> 7 @0-5\n1 enqueue 7 @6-8"),
    (QUEUE, "failed-but-applied", [0, 1], "1 enqueue 7 -> ! @0-5\n2 dequeue -> 7 @6-8"),
    (
        ("order", "fifo"),
        "reordered",
        [0, 1, 2, 3],
        "1 enqueue 1 @0-1\n1 enqueue 2 @2-3\n2 dequeue -> 2 @4-5\n2 dequeue -> 1 @6-7",
    ),
    (
        ("order", "fifo"),
        "skipped",
        [0, 1, 2],
        "1 enqueue 1 @0-1\n1 enqueue 2 @2-3\n2 dequeue -> 2 @4-5",
    ),
    (
        ("order", "prefix"),
        "incompatible-order",
        [2, 3],
        "1 append 1 @0-9\n2 append 2 @0-9\n3 read -> [1, 2] @1-9\n4 read -> [2] @1-9",
    ),
    (
        ("order", "prefix"),
        "reordered",
        [0, 1, 2],
        "1 append 1 @0-1\n2 append 2 @2-3\n3 read -> [2, 1] @0-9",
    ),
    (
        DEAD,
        "lost",
        [0, 1, 3],
        "1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue @9-10\n2 collect @11-12",
    ),
    (
        DEAD,
        "lost",
        [0, 4],
        (
            "1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n2 reject -> 8 @6-8\n2 dequeue @9-10\n"
            "2 collect @11-12\n2 collect -> 8 @13-14"
        ),
    ),
    (
        DEAD,
        "lost",
        [0, 4],
        (
            "1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n3 dequeue -> ? @0-9\n2 dequeue @10-11\n"
            "2 collect @12-13"
        ),
    ),
    (
        # Put in twice, rejected and collected once: the other copy is owed as well.
        DEAD,
        "lost",
        [0, 1, 2, 3, 5],
        (
            "1 enqueue 7 @0-5\n1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 collect -> 7 @9-10\n"
            "2 dequeue @11-12\n2 collect @13-14"
        ),
    ),
    (
        DEAD,
        "lost",
        [0, 1, 2, 3, 5],
        (
            "1 enqueue 7 @0-5\n1 enqueue 7 @0-5\n2 dequeue -> 7 @6-8\n2 reject -> 7 @6-8\n"
            "2 dequeue @9-10\n2 collect @11-12"
        ),
    ),
    (
        DEAD,
        "lost",
        [0, 1, 5],
        (
            "1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue @9-10\n2 collect @11-12\n"
            "2 dequeue @13-14\n2 collect @15-16\n3 collect -> ? @17-18"
        ),
    ),
    (DEAD, "unrejected", [1], "1 enqueue 7 @0-5\n2 collect -> 7 @6-8"),
    (DEAD, "unrejected", [1], "1 enqueue 7 @0-5\n2 collect -> 7 @6-8\n2 reject -> 7 @9-10"),
    (
        DEAD,
        "unrejected",
        [3],
        (
            "1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n3 reject -> ? @6-9\n2 collect -> 7 @6-8\n"
            "2 collect -> 8 @9-10"
        ),
    ),
    (DEAD, "unexpected", [0], "2 reject -> 7 @6-8"),
    (DEAD, "future-read", [0, 1], "2 reject -> 7 @0-5\n1 enqueue 7 @6-8"),
    (DEAD, "failed-but-applied", [0, 1], "1 enqueue 7 -> ! @0-5\n2 collect -> 7 @6-8"),
    (G2, "G2", [0, 1], '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> true @0-5'),
    (
        G2,
        "G2",
        [0, 1, 2],
        (
            '1 insert[p] ["a",1] -> ? @0-5\n2 insert[p] ["b",2] -> ? @0-5\n'
            '3 read -> {"pairs":[["p",[1,2]]]} @6-8\n'
            '1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> false @0-5'
        ),
    ),
    (G2, "G1a", [0, 1], '1 insert[p] ["a",1] -> ! @0-5\n2 insert[p] ["b",2] -> false @0-5'),
    (
        G2,
        "G2",
        [0, 1, 2],
        (
            '1 insert[p] ["a",1] -> ? @1-5\n2 insert[p] ["b",2] -> false @0-5\n'
            '3 insert[p] ["a",3] -> true @6-8'
        ),
    ),
    (
        STRICT_VIEW,
        "stale",
        [1, 3],
        (
            "1 bump[g] [0,1] -> ? @0-5\n2 bump[g] [0,1] -> [2,2] @10-15\n"
            '3 look[g] -> [["r",0,2],["r",1,2]] @20-29\n4 look[g] -> [["r",0,1],["r",1,1]] @30-39'
        ),
    ),
    (
        STRICT_VIEW,
        "stale",
        [0, 1],
        "1 bump[g] [0,1] -> [2,2] @0-5\n2 bump[g] [0,1] -> [1,1] @10-15\n3 bump[g] [0,1] -> ? @0-1",
    ),
    (
        VIEW,
        "phantom",
        [0, 1],
        (
            '1 look[g] -> [["r",0,1],["r",1,1]] @1-2\n2 bump[g] [0,1] -> [1,1] @3-5\n'
            "3 bump[g] [0,1] -> ? @0-1"
        ),
    ),
    (VIEW, "phantom", [0], "1 bump[g] [0,1] -> [700,700] @0-5"),
    (G2, "phantom", [0], '1 insert[p] ["a",1] -> false @0-5\n2 insert[p] ["b",2] -> true @6-8'),
    (
        VIEW,
        "nonmonotonic-view",
        [1],
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,1],["r",1,0]] @0-5',
    ),
    (
        VIEW,
        "phantom",
        [1],
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,2],["r",1,2]] @0-5',
    ),
    (
        SNAPSHOT,
        "non-repeatable-read",
        [1],
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,0],["r",0,1]] @0-5',
    ),
    (
        SNAPSHOT,
        "read-skew",
        [1],
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,0],["r",1,1]] @0-5',
    ),
    (
        SNAPSHOT,
        "lost-update",
        [0, 1],
        "1 bump[g] [0,1] -> [1,1] @0-5\n2 bump[g] [0,1] -> [1,1] @0-5",
    ),
    (
        ("atomic-view", "strict-serializable"),
        "stale",
        [0, 1],
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,0],["r",1,0]] @6-7',
    ),
    (("unique-ids", "unique"), "duplicated", [0, 1], "1 generate -> 5 @0-1\n2 generate -> 5 @0-1"),
    (
        ("unique-ids", "increasing"),
        "nonmonotonic",
        [0, 1],
        "1 generate -> 5 @0-1\n2 generate -> 4 @2-3",
    ),
    (_BOUNDS, "lost-increment", [0, 1], "1 inc 2 @0-1\n2 read -> 1 @2-3"),
    (_BOUNDS, "phantom-increment", [0, 1], "1 inc 2 @0-1\n2 read -> 3 @2-3"),
    (
        _BOUNDS,
        "nonmonotonic",
        [1, 2],
        "1 inc 2 -> ? @0-9\n2 read -> 2 @2-3\n2 read -> 0 @4-5",
    ),
    (
        BANK,
        "wrong-total",
        [1],
        '1 transfer {"from":0,"to":1,"amount":2} -> true @0-1\n2 read -> {"0":8,"1":11} @0-3',
    ),
    (
        BANK,
        "negative-value",
        [1],
        '1 transfer {"from":0,"to":1,"amount":12} -> true @0-1\n2 read -> {"0":-2,"1":22} @2-3',
    ),
    (
        BANK,
        "lost-transfer",
        [0, 1],
        '1 transfer {"from":0,"to":1,"amount":2} -> true @0-1\n2 read -> {"0":10,"1":10} @2-3',
    ),
    (
        BANK,
        "missing-account",
        [1],
        '1 transfer {"from":0,"to":1,"amount":2} -> true @0-1\n2 read -> {"0":20} @2-3',
    ),
    (
        BANK,
        "nil-balance",
        [1],
        '1 transfer {"from":0,"to":1,"amount":2} -> true @0-1\n2 read -> {"0":8,"1":null} @2-3',
    ),
    (
        LOCK,
        "overlapping-holds",
        [0, 1],
        '1 acquire[l] {"ttl_ns":100} -> true @0-5\n2 acquire[l] {"ttl_ns":100} -> true @6-9',
    ),
    (
        LOCK,
        "overlapping-holds",
        [0, 1, 2],
        (
            '1 acquire[l] {"ttl_ns":9} -> true @0-5\n1 renew[l] {"ttl_ns":90} @6-8\n'
            '2 acquire[l] {"ttl_ns":90} -> true @20-29'
        ),
    ),
    (
        LOCK,
        "fencing-token-regressed",
        [0, 1],
        (
            '1 acquire[l] {"ttl_ns":2} -> {"token":5} @0-1\n'
            '2 acquire[l] {"ttl_ns":2} -> {"token":4} @9-10'
        ),
    ),
    (
        LOCK,
        "fencing-token-reused",
        [0, 1],
        (
            '1 acquire[l] {"ttl_ns":2} -> {"token":5} @0-1\n'
            '2 acquire[l] {"ttl_ns":2} -> {"token":5} @9-10'
        ),
    ),
    (
        ("exactly-once", "ledger"),
        "duplicated",
        [0, 1, 2],
        '1 pay[a] {"id":"p"} -> ? @0-1\n2 pay[a] {"id":"p"} @2-3\n3 audit -> ["p","p"] @9-10',
    ),
    (
        ("exactly-once", "ledger"),
        "lost",
        [1, 2],
        '1 pay[a] {"id":"p"} -> ? @0-1\n2 pay[a] {"id":"p"} @2-3\n3 audit -> [] @9-10',
    ),
    (
        ("sessions", "session"),
        "nonmonotonic-read",
        [0, 1],
        '1 read[x] -> {"version":2} @0-1\n1 read[x] -> {"version":1} @2-3',
    ),
    (
        ("sessions", "session"),
        "own-write-missed",
        [0, 1],
        '1 write[x] 7 -> {"version":2} @0-1\n1 read[x] -> {"version":1} @2-3',
    ),
    (
        ("sessions", "session"),
        "nonmonotonic-write",
        [0, 1],
        '1 write[x] 7 -> {"version":2} @0-1\n1 write[x] 8 -> {"version":1} @2-3',
    ),
    (
        ("sessions", "session"),
        "write-before-read",
        [0, 1],
        '1 read[x] -> {"version":2} @0-1\n1 write[x] 8 -> {"version":1} @2-3',
    ),
    (
        ("sessions", "session"),
        "version-conflict",
        [0, 1],
        '1 write[x] 7 -> {"version":2} @0-1\n2 read[x] -> {"version":2,"value":8} @2-3',
    ),
    (
        ("causal", "causal"),
        "write-co-read",
        [0, 2, 3],
        "1 write[x] 1 @0-1\n2 read[x] -> 1 @2-3\n2 write[x] 2 @4-5\n2 read[x] -> 1 @6-7",
    ),
    (
        ("causal", "causal"),
        "write-co-init-read",
        [0, 1],
        "1 write[x] 1 @0-1\n1 read[x] -> null @2-3",
    ),
    (("causal", "causal"), "thin-air-read", [1], "1 write[x] 1 @0-1\n2 read[x] -> 2 @2-3"),
    (
        ("long-fork", "snapshot-isolation"),
        "long-fork",
        [0, 1, 2, 3],
        (
            '1 write[g] ["a",1] @0-1\n2 write[g] ["b",1] @0-1\n'
            '3 read[g] -> [["a",1],["b",null]] @2-3\n4 read[g] -> [["a",null],["b",1]] @2-3'
        ),
    ),
    (
        ("causal-reverse", "strict-serializable"),
        "causal-reverse",
        [0, 1, 2],
        '1 write[g] ["a",1] @0-1\n2 write[g] ["b",1] @2-3\n3 read[g] -> [["b",1]] @0-9',
    ),
    (
        ("reconciliation", "converged"),
        "divergence",
        [3, 4],
        (
            '1 write 7 @0-1\n1 dump -> {"x":7} @2-3\n2 dump -> {"x":8} @2-3\n'
            '1 dump -> {"x":7} @4-5\n2 dump -> {"x":8} @4-5'
        ),
    ),
    (
        ("final-state", "invariant"),
        "invariant-violated",
        [2],
        '1 write 7 @0-1\n1 dump -> {"x":7} @2-3\n1 dump -> {"x":7} @4-5',
    ),
    (
        ("watch", "watch"),
        "missed-event",
        [0, 1],
        '1 write[x] 7 -> {"revision":3} @0-1\n2 watch {"from":1} -> {"events":[],"to":5} @2-3',
    ),
    (
        ("watch", "watch"),
        "duplicated-event",
        [1],
        (
            '1 write[x] 7 -> {"revision":3} @0-1\n2 watch {"from":1} -> {"events":[{"revision":3,'
            '"key":"x","value":7},{"revision":3,"key":"x","value":7}],"to":5} @2-3'
        ),
    ),
    (
        ("watch", "watch"),
        "unordered-event",
        [2],
        (
            '1 write[x] 7 -> {"revision":3} @0-1\n1 write[x] 8 -> {"revision":4} @0-1\n'
            '2 watch {"from":1} -> {"events":[{"revision":4,"key":"x","value":8},{"revision":3,'
            '"key":"x","value":7}],"to":5} @2-3'
        ),
    ),
    (
        ("watch", "watch"),
        "resumed-too-early",
        [1],
        (
            '1 write[x] 7 -> {"revision":3} @0-1\n2 watch {"from":4} -> {"events":[{"revision":3,'
            '"key":"x","value":7}],"to":5} @2-3'
        ),
    ),
    (
        ("watch", "watch"),
        "phantom-event",
        [1],
        (
            '1 write[x] 7 -> {"revision":3} @0-1\n2 watch {"from":1} -> {"events":[{"revision":3,'
            '"key":"x","value":7},{"revision":4,"key":"x","value":9}],"to":5} @2-3'
        ),
    ),
    (
        KAFKA,
        "lost-write",
        [0, 1],
        '1 send[p] 7 -> {"offset":3} @0-1\n2 poll[p] {"from":0} -> {"records":[],"to":5} @2-3',
    ),
    (
        KAFKA,
        "poll-skip",
        [1, 2],
        (
            '1 send[p] 7 -> ? @0-1\n2 poll[p] {"from":0} -> {"records":[[3,7]],"to":5} @2-3\n'
            '3 poll[p] {"from":0} -> {"records":[],"to":5} @4-5'
        ),
    ),
    (
        KAFKA,
        "inconsistent-offsets",
        [0, 1],
        '1 send[p] 7 -> {"offset":3} @0-1\n1 send[p] 8 -> {"offset":3} @2-3',
    ),
    (
        KAFKA,
        "duplicate",
        [0, 1],
        '1 send[p] 7 -> {"offset":3} @0-1\n2 poll[p] {"from":0} -> {"records":[[3,7],[4,7]]} @2-3',
    ),
    (
        KAFKA,
        "nonmonotonic-send",
        [0, 1],
        '1 send[p] 7 -> {"offset":3} @0-1\n2 send[p] 8 -> {"offset":2} @2-3',
    ),
    (
        KAFKA,
        "stale",
        [0, 1],
        '1 send[p] 7 -> {"offset":3} @0-1\n2 poll[p] {"from":0} -> {"records":[],"to":2} @2-3',
    ),
]


@pytest.mark.parametrize(
    ("who", "kind", "witness", "text"),
    CASES,
    ids=[f"{c[0][0]}-{c[1]}-{i}" for i, c in enumerate(CASES)],
)
def test_the_anomaly_and_its_witness(who: Any, kind: str, witness: list[int], text: str) -> None:
    options: dict[str, Any] = {"bank_accounts": 2, "bank_balance": 10, "invariants": "sum=10"}
    result = check(who[0], who[1], text, **options)
    assert result.valid is False, result
    assert kind in result.anomaly_types
    first = result.anomalies[kind][0]
    lines = text.strip().splitlines()
    assert sorted(int(i) for i in first.ops) == witness, first
    assert len(first.witness) <= 8
    assert first.explanation
    assert result.ops.total == len(lines)
    assert result.reason
