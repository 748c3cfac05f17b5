"""Checkers of whole histories: what is clean, vacuous, undecided, excluded."""

from __future__ import annotations

from typing import Any

import pytest
from notation import check, op

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow

SET = ("set-full", "linearizable")
QUEUE = ("total-queue", "exactly-once")
DEAD = ("dead-letters", "at-least-once")
LOCK = ("exclusion", "lease")
REFUSED = "3 acquire[l] -> false @2-3\n"
"""As process 1 gets it; without such an acquire the checker says unknown."""
SEEN = "8 enqueue 1 @0-1\n8 dequeue -> 1 @2-3\n"
"""Without it, most of what was acknowledged would be missing."""
KAFKA = ("kafka", "linearizable")
BANK = ("bank", "strict-serializable")


RACED = '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> false @5-7'

CLEAN: list[tuple[tuple[str, str], str]] = [
    (SET, "1 add 7 -> ? @0-5\n1 add 8 @0-1\n2 read -> [8] @10-15"),
    (SET, "1 add 7 @0-5\n1 add 8 @0-1\n2 read -> [8] @5-15"),
    (("set", "eventual"), "1 add 7 @0-5\n2 read -> [] @1-6\n2 read -> [7] @10-15"),
    (("no-lost-ack", "durable"), "1 add 7 -> ? @0-5\n1 add 8 @0-1\n2 read -> [8] @10-15"),
    (QUEUE, "1 enqueue 7 @0-5\n2 dequeue -> 7 @6-8\n2 dequeue @9-10"),
    (("total-queue", "at-least-once"), "1 enqueue 7 @0-5\n2 drain -> [7, 7] @9-10"),
    (LOCK, '1 acquire[l] {"ttl_ns":5} -> true @0-3\n2 acquire[l] {"ttl_ns":5} -> true @4-5'),
    (QUEUE, SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ? @4-20\n2 dequeue @10-11"),
    # Who failed had the element in hand while the queue was seen empty; another one got it then.
    (
        QUEUE,
        SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ! @4-8\n2 dequeue @16-17\n4 dequeue -> ? @40-41",
    ),
    (QUEUE, SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ! @4-18\n2 dequeue @16-17"),
    (
        QUEUE,
        SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ? @4-8\n2 dequeue @16-17\n4 dequeue -> ? @40-41",
    ),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n2 reject -> 8 @6-8\n3 reject -> ! @4-8\n"
            "2 dequeue @9-10\n2 collect -> 8 @11-12\n2 collect @13-14\n3 collect -> ? @20-21"
        ),
    ),
    (
        # The letter was on its way when somebody looked first.
        DEAD,
        (
            f"{SEEN}1 enqueue 7 @0-5\n2 reject -> 7 @1-2\n3 collect -> ? @3-16\n2 dequeue @9-10\n"
            "2 collect @11-12\n2 collect @20-21"
        ),
    ),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue -> 7 @6-8\n"
            "2 dequeue @9-10\n2 collect -> 7 @11-12\n2 collect -> 7 @13-14\n2 collect @15-16"
        ),
    ),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n3 reject -> ? @4-9\n2 reject -> 8 @6-8\n"
            "2 dequeue @9-10\n2 collect -> 7 @9-11\n2 collect @12-13"
        ),
    ),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue -> 7 @9-10\n2 dequeue @11-12\n"
            "2 collect @13-14"
        ),
    ),
    (
        ("exclusion", "lock"),
        (
            f"1 acquire[l] -> true @0-3\n{REFUSED}1 release[l] -> ! @4-5\n"
            "1 acquire[l] -> true @6-7\n1 release[l] @8-9\n2 acquire[l] -> true @10-11"
        ),
    ),
    *(
        (
            ("exclusion", "lock"),
            (
                f"1 acquire[l] -> true @0-3\n{REFUSED}1 {kind}[l] -> !{error} @4-9\n"
                "2 acquire[l] -> true @5-6"
            ),
        )
        for kind in ("release", "renew")
        for error in (
            "not-held",
            ":not-held",
            "not-held: its lease is gone",
            '["not-held", "gone"]',
        )
    ),
    # It had to wait; it was refused as another one was let in.
    (
        LOCK,
        "1 acquire[l] -> true @0-3\n1 release[l] @20-21\n2 acquire[l] -> true @5-22",
    ),
    (LOCK, "1 acquire[l] -> true @0-9\n2 acquire[l] -> false @1-8"),
    *(
        (LOCK, f"1 acquire[l] -> true @0-3\n{REFUSED}{end}\n2 acquire[l] -> true @5-6")
        for end in ("1 release[l] -> ? @4-9", "1 release[l] @4-9")
    ),
    (
        ("long-fork", "snapshot-isolation"),
        (
            '1 write[g] ["a",1] @0-1\n2 write[g] ["b",1] @0-9\n'
            '3 read[g] -> [["a",1],["b",1]] @2-3\n4 read[g] -> [["a",1],["b",null]] @2-3'
        ),
    ),
    (("no-lost-ack", "durable"), "1 append 7 @0-1\n1 append 7 @2-3\n2 read -> [7, 7] @4-5"),
    (("no-lost-ack", "durable"), "1 add 7 @0-1\n1 add 7 @2-3\n2 read -> [7] @4-5"),
    (("counter-bounds", "counter-bounds"), "1 inc 2 -> ? @0-1\n2 read -> 0 @2-3\n2 read -> 2 @4-5"),
    (
        KAFKA,
        (
            '1 send[p] 7 -> {"offset":3} @0-1\n1 send[p] 8 -> {"offset":4} @2-3\n'
            '2 poll[p] {"from":0} -> {"records":[[3,7]],"to":3,"more":true} @4-5\n'
            '2 poll[p] {"from":4} -> {"records":[[4,8]],"to":9} @6-7'
        ),
    ),
    (("counter-bounds", "counter-bounds"), "1 inc -2 @0-1\n2 read -> -2 @2-3"),
    (
        ("atomic-view", "monotonic-atomic-view"),
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,0],["r",1,1]] @6-7',
    ),
    (
        ("atomic-view", "snapshot-isolation"),
        (
            '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,0],["r",1,0]] @6-7\n'
            '2 look[g] -> [["r",0,1],["r",1,1]] @8-9'
        ),
    ),
    (
        ("atomic-view", "strict-serializable"),
        (
            "1 bump[g] [0,1] -> ? @0-5\n3 bump[g] [0,1] -> [2,2] @6-7\n"
            '2 look[g] -> [["r",0,2],["r",1,2]] @6-7'
        ),
    ),
    (
        ("g2", "serializable"),
        '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> false @5-7',
    ),
    (("g2", "serializable"), f'{RACED}\n3 read -> {{"pairs":[],"more":false}} @9-10'),
    (
        ("atomic-view", "snapshot-isolation"),
        '1 bump[g] [0,1] -> [1,1] @0-8\n2 look[g] -> [["r",0,1],["r",1,1]] @6-7',
    ),
    (
        ("atomic-view", "snapshot-isolation"),
        '1 bump[g] [0,1] -> ? @6-8\n2 look[g] -> [["r",0,1],["r",1,1]] @6-7',
    ),
]


TWICE = '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> true @0-5\n3 read -> '


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ('{"pairs":[["p",[1,2]]]} @9-10', "; read (op 2) found their rows"),
        ('{"pairs":[["q",[1,2]]]} @9-10', "; read (op 2) at n3 did not find all of their rows"),
        ('{"pairs":[["q",[1,2]]],"more":true} @9-10', ""),
        ('{"pairs":[]} @4-10', ""),
        ("[7] @9-10", ""),
        ("? @9-10", ""),
    ],
)
def test_where_two_inserts_were_acknowledged_a_later_read_tells_of_their_rows(
    told: str, said: str
) -> None:
    result = check("g2", "serializable", TWICE + told)
    (found,) = result.anomalies["G2"]
    assert found.explanation.startswith("inserts (ops 0, 1) were acknowledged, each having seen")
    assert found.explanation.endswith(f"the later one sees the earlier one's{said}")
    others = [other.key for other in result.anomalies.get("phantom", [])]
    assert others == ["q", "q"] * ("q" in told)


@pytest.mark.parametrize(
    "told",
    [
        "7",
        "[]",
        "{}",
        '{"pairs":7}',
        '{"pairs":[],"more":true}',
        '{"pairs":[],"more":1}',
        '{"pairs":[],"left_out":[["p",[1,2]]]}',
        '{"pairs":[["p",[1]]]}',
        '{"pairs":[["p",[1,1]]]}',
        '{"pairs":[["p","12"]]}',
        '{"pairs":[["p",{"1":1,"2":2}]]}',
        '{"pairs":[["p",[1,true]]]}',
        '{"pairs":[["p",[1.0,2]]]}',
        '{"pairs":[[["p"],[1,2]]]}',
    ],
)
def test_a_read_of_pairs_that_cannot_be_read_leaves_the_verdict_open(told: str) -> None:
    result = check("g2", "serializable", f"{RACED}\n3 read -> {told} @9-10")
    assert (result.valid, result.keys.undecided) == ("unknown", [None])


TWO_OF_Q = '1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> true @0-5'
DOUBLE = (
    '1 insert[q] ["a",3] -> ? @0-5\n2 insert[q] ["b",4] -> ? @0-5\n'
    '3 read -> {"pairs":[["q",[3,4]]]} @9-10\n'
)


@pytest.mark.parametrize(
    "beside",
    [
        "3 read @11-12",
        '3 read -> {"pairs":[["r",[5]]]} @11-12',
        '3 read -> {"pairs":[["r",[5,"x"]]]} @8-12',
        '3 read -> {"pairs":[[["r"],[5,6]]]} @8-12',
    ],
)
def test_no_read_hides_what_another_one_has_found(beside: str) -> None:
    result = check("g2", "serializable", f"{RACED}\n{DOUBLE}{beside}")
    assert result.valid is False
    assert [found.key for found in result.anomalies["G2"]] == ["q"]


@pytest.mark.parametrize(
    ("inserts", "kinds"),
    [
        ('1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> ? @0-5', {"G2"}),
        ('1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> ! @0-5', {"G1a"}),
        ('1 insert[q] ["a",3] -> true @0-5\n2 insert[r] ["b",4] -> ? @0-5', {"phantom"}),
        ('1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> false @0-5', {"phantom"}),
        ('1 insert[q] ["a",3] -> true @0-5\n2 insert[q] ["b",4] -> ? @15-20', {"phantom"}),
        (f'{TWO_OF_Q}\n4 insert[q] ["b",5] -> "yes" @6-7', {"G2"}),
    ],
)
def test_rows_that_stand_are_named_for_who_may_have_put_them(inserts: str, kinds: set[str]) -> None:
    read = '3 read -> {"pairs":[["q",[3,4]]]} @9-10'
    result = check("g2", "serializable", f"{RACED}\n{inserts}\n{read}")
    assert {*result.anomalies} == kinds


def test_rows_of_a_key_that_is_undecided_prove_nothing() -> None:
    text = (
        f'{RACED}\n1 insert[q] ["a",3] -> true @0-5\n2 force[q] ["b",4] -> true @0-5\n'
        '3 read -> {"pairs":[["q",[3,4]]]} @9-10'
    )
    assert check("g2", "serializable", text).valid == "unknown"


def test_at_most_two_reads_are_quoted() -> None:
    reads = "\n".join(f'3 read -> {{"pairs":[]}} @{n}-{n}' for n in range(9, 50))
    (found,) = check("g2", "serializable", f"{TWICE}? @5-6\n{reads}").anomalies["G2"]
    assert found.explanation.count("did not find") == 2


def test_tested_are_inserts_of_which_two_could_have_succeeded() -> None:
    text = (
        '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> false @4-6\n'
        '3 insert[p] ["a",3] -> ? @5-9\n4 insert[p] ["b",4] -> false @6-20\n'
        '5 insert[p] ["a",5] -> false @7-21'
    )
    assert check("g2", "serializable", text).stats["tested"] == 2


def test_tested_are_looks_between_whose_reads_a_bump_may_have_come() -> None:
    text = (
        '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,1],["r",1,1]] @6-7\n'
        '2 look[g] -> [["r",0,1],["r",1,1]] @9-20\n1 bump[g] [0,1] -> [2,2] @10-15\n'
        '2 look[g] -> [["r",0,1],["r",1,1]] @22-23\n2 look[g] -> [["r",0,2],["r",1,2]] @24-25'
    )
    assert check("atomic-view", "snapshot-isolation", text).stats["tested"] == 2


@pytest.mark.parametrize(("who", "text"), CLEAN)
def test_clean(who: Any, text: str) -> None:
    result = check(who[0], who[1], text)
    assert result.valid is True, result.reason


VACUOUS: list[tuple[tuple[str, str], str]] = [
    (SET, "1 add 7 @0-5"),
    (SET, "1 read -> [] @0-5"),
    (("set", "eventual"), "1 add 7 @0-5\n2 read -> [7] @3-6"),
    (QUEUE, "1 enqueue 7 @0-5\n2 dequeue -> 7 @6-8\n1 enqueue 8 @9-10"),
    (QUEUE, "1 enqueue 7 @0-5\n2 drain -> ? @6-8\n3 dequeue @9-10"),
    # Most of what was acknowledged was never seen.
    (QUEUE, "1 enqueue 7 @0-5\n3 dequeue -> ? @4-20\n2 dequeue @10-11"),
    (QUEUE, "1 enqueue 7 @0-5\n3 dequeue -> ! @4-18\n2 dequeue @16-17"),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n2 reject -> 7 @1-2\n3 collect -> ? @3-16\n2 dequeue @9-10\n"
            "2 collect @20-21"
        ),
    ),
    # The last phase asks as often as it likes: what nobody got is not excused by who asked there.
    (QUEUE, SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ? @9-20\n2 dequeue @10-11"),
    (QUEUE, SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ! @6-18\n2 dequeue @16-17"),
    (
        QUEUE,
        (
            f"{SEEN}8 enqueue 2 @0-1\n8 dequeue -> 2 @3-4\n1 enqueue 7 @0-5\n1 enqueue 8 @0-5\n"
            "3 dequeue -> ? @4-9\n4 dequeue -> ? @9-20\n"
            "2 dequeue @10-11"
        ),
    ),
    (
        DEAD,
        (
            "1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue @9-10\n2 collect @11-12\n"
            "3 collect -> ? @15-16\n2 collect @20-21"
        ),
    ),
    (("unique-ids", "unique"), "1 generate -> 5 @0-1"),
    (
        ("g2", "serializable"),
        '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> false @6-7',
    ),
    # Two refused inserts at once, and no other one that could have made either succeed.
    (
        ("g2", "serializable"),
        (
            '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> false @10-20\n'
            '3 insert[p] ["a",3] -> false @11-21'
        ),
    ),
    (
        # The row was there before the unknown one began.
        ("g2", "serializable"),
        (
            '1 insert[p] ["a",1] -> true @0-5\n2 insert[p] ["b",2] -> ? @6-9\n'
            '3 insert[p] ["a",3] -> false @10-11'
        ),
    ),
    *(
        (("atomic-view", model), looks)
        for model in ("snapshot-isolation", "monotonic-atomic-view", "strict-serializable")
        for looks in (
            '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,1],["r",1,1]] @6-7',
            (
                '1 bump[g] [0,1] -> [1,1] @0-5\n2 look[g] -> [["r",0,1],["r",1,1]] @6-7\n'
                '3 look[g] -> [["r",0,1],["r",1,1]] @6-8\n1 bump[g] [0,1] -> [2,2] @10-15'
            ),
        )
    ),
    (
        ("atomic-view", "monotonic-atomic-view"),
        '1 look[g] -> [["r",0,0],["r",1,0]] @0-5\n2 bump[g] [0,1] -> [1,1] @6-7',
    ),
    (
        ("atomic-view", "monotonic-atomic-view"),
        '2 bump[g] [0,1] -> [1,1] @0-1\n1 look[g] -> [["r",0,0],["r",1,0]] @2-5',
    ),
    *(
        (("atomic-view", "strict-serializable"), f"1 bump[g] [0,1] -> [1,1] @0-5\n{wrong}")
        for wrong in (
            "2 bump[g] [0] -> [2] @6-7",
            "2 bump[g] [0,1] -> [2] @6-7",
            "2 bump[g] [0,1] -> [0,0] @6-7",
            '2 look[g] [["r",0,null],["r",1,null]] -> [["r",0,1],["r",0,1]] @6-7',
            '2 look[g] [["r",0,null],["r",1,null]] -> [["r",0,1],["touch",1,null]] @6-7',
            '2 look[g] -> [["read",0,0],["r",1,1],["r",0,1]] @6-7',
            '2 look[g] [["r",0,null],["r",1,null]] -> [] @6-7',
            '2 look[g] -> [["r",0,1],["r",7,1]] @6-7',
            '2 look[g] -> [["r",0,true],["r",1,1]] @6-7',
            '2 look[g] -> [["r",0,1],["r",1]] @1-7',
            '2 look[g] -> [["r",0,1],["r",1,1,2]] @1-7',
            '2 look[g] [["r",0],["r",1]] -> [["r",0,1],["r",1,1]] @1-7',
            "2 look[g] -> [7] @1-7",
        )
    ),
    (("g2", "serializable"), '1 insert[p] ["a",1] -> true @0-5'),
    (("atomic-view", "strict-serializable"), "1 bump[g] [0,1] -> [1,1] @0-5"),
    (
        ("atomic-view", "monotonic-atomic-view"),
        '1 bump[g] [0,1] -> [1,2] @0-5\n2 look[g] -> [["r",0,1],["r",1,2]] @6-7',
    ),
    (("counter-bounds", "counter-bounds"), "2 read -> 0 @2-3"),
    (BANK, '2 read -> {"0":10,"1":10} @2-3'),
    (LOCK, "1 acquire[l] -> true @0-3"),
    (LOCK, "1 acquire[l] -> true @0-3\n1 release[l] @4-5\n2 acquire[l] -> true @6-7"),
    (LOCK, "1 acquire[l] -> true @0-3\n2 acquire[l] -> !not-connected @4-5"),
    (LOCK, "1 acquire[l] -> true @0-3\n2 acquire[l] -> ? @4-5"),
    (LOCK, "1 acquire[l] -> true @0-3\n1 acquire[l] -> false @4-5"),
    # Each takes ten, whoever holds the lock: for one.
    (
        LOCK,
        (
            "1 acquire[l] -> true @0-10\n1 release[l] @11-12\n2 acquire[l] -> true @4-14\n"
            "2 release[l] @15-16\n3 acquire[l] -> true @8-18"
        ),
    ),
    (
        LOCK,
        (
            '1 acquire[l] {"ttl_ns":11} -> true @0-10\n2 acquire[l] {"ttl_ns":11} -> true @4-14\n'
            '3 acquire[l] {"ttl_ns":11} -> true @8-18'
        ),
    ),
    (("exactly-once", "ledger"), '1 pay[a] {"id":"p"} @0-1\n3 audit -> ["p"] @9-10'),
    (
        ("exactly-once", "ledger"),
        '1 pay[a] {"id":"p"} -> ! @0-1\n1 pay[a] {"id":"p"} @2-3\n3 audit -> ["p"] @9-10',
    ),
    *(
        (
            # The second insert may have taken effect or not: either is right.
            ("g2", model),
            f'0 insert[p] ["a",1] -> {took} @1-5\n1 insert[p] ["b",2] -> ? @2-9',
        )
        for model in ("serializable", "strict-serializable")
        for took in ("true", "false")
    ),
    # Only one write had begun when the reads ended.
    *(
        (
            ("long-fork", "snapshot-isolation"),
            (
                '0 write[g] ["a",1] @10-20\n1 read[g] -> [["a",1],["b",null]] @11-19\n'
                f'2 read[g] -> [["a",{seen}],["b",null]] @11-18\n0 write[g] ["b",1] @30-40'
            ),
        )
        for seen in ("1", "null")
    ),
    # Every read began after both writes had ended, and saw them.
    (
        ("long-fork", "snapshot-isolation"),
        (
            '1 write[g] ["a",1] @0-1\n2 write[g] ["b",1] @0-1\n'
            '3 read[g] -> [["a",1],["b",1]] @2-3\n4 read[g] -> [["a",1],["b",1]] @2-3'
        ),
    ),
    (("order", "prefix"), "1 append 7 @0-1\n1 append 7 @2-3\n2 read -> [7, 7] @4-5"),
    (("sessions", "session"), '1 read[x] -> {"version":2} @0-1'),
    (("causal", "causal"), "1 read[x] -> null @0-1"),
    (("reconciliation", "converged"), '1 dump -> {"x":7} @2-3\n1 dump -> {"x":7} @4-5'),
    (("reconciliation", "converged"), '1 dump -> {"x":7} @2-3\n2 dump -> {"x":7} @4-5'),
    (
        ("watch", "watch"),
        '1 write[x] 7 -> {"revision":3} @0-1\n2 watch {"from":4} -> {"events":[]} @2-3',
    ),
    (KAFKA, '1 send[p] 7 -> {"offset":3} @0-1'),
    (("fairness", "fair"), "1 read -> 1 @0-1"),
    (("slo", "slo"), "1 read -> 1 @0-1"),
]


@pytest.mark.parametrize(("who", "text"), VACUOUS)
def test_nothing_to_refute_is_unknown(who: Any, text: str) -> None:
    result = check(who[0], who[1], text, bank_accounts=2, bank_balance=10)
    assert result.valid == "unknown"
    assert result.reason


def test_what_takers_of_the_load_may_have_is_said_beside_the_verdict() -> None:
    text = SEEN + "1 enqueue 7 @0-5\n3 dequeue -> ? @4-20\n2 dequeue @10-11"
    letters = "\n1 enqueue 9 @0-1\n2 reject -> 9 @2-3\n2 collect -> 9 @21-22\n2 collect @23-24"
    for who, more in ((QUEUE, ""), (DEAD, letters)):
        result = check(who[0], who[1], text + more)
        assert result.valid is True
        assert str(result.reason).startswith("1 acknowledged elements that nobody got may be with")
    whole = check(*QUEUE, "1 enqueue 7 @0-5\n2 dequeue -> 7 @6-8\n2 dequeue @10-11")
    assert whole.reason is None


@pytest.mark.parametrize(
    ("last_ns", "arrival_s", "valid"),
    [(20, 0, False), (20, 1e-9, False), (20, 13e-9, "unknown"), (30, 13e-9, False)]
    + [(30, wrong, "unknown") for wrong in ("0", -1, float("nan"), float("inf"), None)],
)
def test_letters_have_as_long_to_arrive_as_the_run_says(
    last_ns: int, arrival_s: Any, valid: Any
) -> None:
    text = (
        "1 enqueue 7 @0-5\n2 reject -> 7 @6-8\n2 dequeue @9-10\n2 collect @11-12\n"
        f"2 collect @{last_ns}-{last_ns + 1}"
    )
    result = check("dead-letters", "at-least-once", text, arrival_s=arrival_s)
    assert result.valid is valid or result.valid == valid


def test_a_history_from_elsewhere_can_be_told_how_long_letters_take() -> None:
    option = registry.load("checkers", "dead-letters").options["arrival_s"]
    assert (option.default, option.least) == (None, 0)


def test_an_empty_history_is_unknown_for_every_checker() -> None:
    for name in registry.names("checkers"):
        checker = registry.load("checkers", name)
        result = checker.check(History(header=Header(), ops=[]), checker.models[0], Budget())
        assert result.valid == "unknown", name


def test_a_used_up_budget_is_unknown_and_names_the_keys() -> None:
    lines = "\n".join(
        f"1 add[s{i}] 7 @{i}-{i}\n2 read[s{i}] -> [7] @{i + 1}-{i + 2}" for i in range(5)
    )
    ops = [op(line, n) for n, line in enumerate(lines.splitlines())]
    ops.sort(key=lambda o: o.invoke_ts)
    result = registry.load("checkers", "set-full").check(
        History(header=Header(), ops=ops), "linearizable", Budget(time_s=0.0)
    )
    assert result.valid == "unknown"
    assert result.keys.decided == 0
    assert result.keys.undecided == [f"s{i}" for i in range(5)]
    assert "time budget" in result.reason


def test_an_operation_that_cannot_be_read_leaves_its_key_undecided() -> None:
    text = "1 add[a] 7 @0-1\n2 read[a] -> 7 @2-3\n1 add[b] 7 @4-5\n2 read[b] -> [7] @6-7"
    result = check(*SET, text)
    assert result.valid == "unknown"
    assert (result.keys.total, result.keys.decided, result.keys.undecided) == (2, 1, ["a"])
    assert result.ops.consumed == 2


def test_excluded_operations_have_reasons() -> None:
    text = "1 add 7 @0-1\n2 read -> ? @2-3\n1 add 8 -> ! @4-5\n3 read -> [7] @6-7\n4 hop @8-9"
    result = check(*SET, text)
    assert result.valid == "unknown"
    assert result.reason == "key null: hop: not an operation of set-full"
    assert result.ops.consumed == 0
    assert result.ops.excluded == {
        "fail": 1,
        "unknown-read": 1,
        "hop: not an operation of set-full": 1,
    }


def test_anomalies_are_split_by_fault_epoch() -> None:
    window = FaultWindow(epoch="f1", nemesis="partition", start_ns=8, healed_ns=20)
    ops = [op("1 add 7 @0-5", 0), op("2 read -> [] @10-15", 1)]
    stamped = Op(**{**{f: getattr(ops[1], f) for f in Op.__struct_fields__}, "fault_epoch": "f1"})
    history = History(header=Header(windows=[window]), ops=[ops[0], stamped])
    result = registry.load("checkers", "set-full").check(history, "linearizable", Budget())
    assert result.stats["anomalies_by_epoch"] == {"lost": {"f1": 1}}
    assert result.anomalies["lost"][0].epochs == ["f1"]


def test_a_history_full_of_anomalies_is_judged_as_fast_as_a_clean_one() -> None:
    ops = []
    for n in range(0, 40_000, 2):
        move = {"from": 0, "to": 1, "amount": 1}
        common: dict[str, Any] = {"process_id": 1, "key": None}
        ops.append(
            Op(op_id=n, op_type="transfer", input=move, output=True, invoke_ts=10 * n,
               complete_ts=10 * n + 5, **common)
        )  # fmt: skip
        ops.append(
            Op(op_id=n + 1, op_type="read", output={"0": 99, "1": 99}, invoke_ts=10 * n + 6,
               complete_ts=10 * n + 9, **common)
        )  # fmt: skip
    history = History(header=Header(options={"bank_accounts": 2, "bank_balance": 10}), ops=ops)
    result = registry.load("checkers", "bank").check(history, BANK[1], Budget())
    assert result.valid is False
    assert result.stats["anomalies"]["wrong-total"] == 20_000
    assert result.seconds.check < 10
