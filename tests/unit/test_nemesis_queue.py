"""Faults made in a queue: what is told to the nodes, and which figures prove what."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.node import NodeInfo
from nemeses.base.driver import Observed, with_signals
from nemeses.base.paths import landed_on_used_paths
from nemeses.network import corrupt, duplicate, latency, reorder
from nemeses.network.latency import slow_pairs, waits
from nemeses.network.queued import QueueFault, sent_once
from nemeses.tools import netqueue
from nemeses.tools.netqueue import QueueSnapshot, Sender

NODES = ["n1", "n2", "n3"]
INFO = NodeInfo(name="n1", address="10.0.0.1", address6="fd00::1")
FAULTS: list[QueueFault] = [latency.NEMESIS, duplicate.NEMESIS, reorder.NEMESIS, corrupt.NEMESIS]
LISTING = """\
Chain dstest_fault (1 references)
    pkts      bytes target     prot opt in     out     source               destination
     200    16800 NFQUEUE    0    --  !lo    *       10.0.0.1             0.0.0.0/0            NFQUEUE num 77 bypass
       7      700 RETURN     58   --  *      *       ::/0                 ::/0                 ipv6-icmptype 135
      12     1680 NFQUEUE    0    --  !lo    *       fd00::1              ::/0                 NFQUEUE num 77 bypass
"""  # noqa: E501
CUTS = ["n1->n2", "n3->n2"]


def record(**facts: Any) -> LandingRecord:
    return LandingRecord(
        fault_id="f1",
        nemesis="x",
        targets=["n2"],
        scheduled_at=0,
        epoch="f1",
        facts={"cuts": CUTS, "baseline_packets": dict.fromkeys(CUTS, 9), **facts},
    )


def test_the_rules_cover_both_families_and_spare_copies_and_neighbours() -> None:
    v4, v6 = netqueue.rules([INFO])
    queued = "-j NFQUEUE --queue-num 77 --queue-bypass"
    assert f"-A dstest_fault ! -i lo -s 10.0.0.1 {queued}" in v4.splitlines()
    lines = v6.splitlines()
    assert lines.index(
        "-A dstest_fault -p icmpv6 --icmpv6-type neighbour-solicitation -j RETURN"
    ) < lines.index(f"-A dstest_fault ! -i lo -s fd00::1 {queued}")
    for text in (v4, v6):
        assert text.splitlines()[-2:] == ["-I INPUT -j dstest_fault", "COMMIT"]
    only_v4 = netqueue.rules([NodeInfo(name="n1", address="10.0.0.1")])
    assert "NFQUEUE" not in only_v4[1]


def test_what_nodes_answer_is_read() -> None:
    assert netqueue.parse_counters(LISTING) == {"10.0.0.1": 200, "fd00::1": 12}
    status = (
        "pid=5 queue=77 held_now=3\n"
        "10.0.0.1 seen=9 delayed=4 waited_us=400 held=0 overtaken=0 twice=0 corrupted=0 probes=6\n"
    )
    assert netqueue.parse_status(status) == {
        "10.0.0.1": Sender(seen=9, delayed=4, waited_us=400, probes=6)
    }
    assert netqueue.parse_status("") == {}


@pytest.mark.parametrize("nemesis", FAULTS, ids=lambda n: n.name)
def test_plans_are_seeded_and_complete(nemesis: QueueFault) -> None:
    options = {key: option.default for key, option in nemesis.options.items()}
    plans = nemesis.plan(random.Random(1), NODES, 60.0, options)
    assert plans == nemesis.plan(random.Random(1), NODES, 60.0, options)
    told = [nemesis.settings(record(**plan.facts)) for plan in plans]
    assert all(told[0] == row and any(row.values()) for row in told)
    with pytest.raises(ConfigError):
        nemesis.plan(random.Random(1), NODES[:2], 60.0, options)


@pytest.mark.parametrize(
    ("nemesis", "option", "value"),
    [
        (latency.NEMESIS, "delay_ms", 5.0),
        (latency.NEMESIS, "delay_ms", 5000.0),
        (latency.NEMESIS, "jitter_ms", 200.0),
        (duplicate.NEMESIS, "duplicate_percent", 0.0),
        (duplicate.NEMESIS, "duplicate_percent", 101.0),
        (reorder.NEMESIS, "reorder_percent", 90.0),
        (reorder.NEMESIS, "reorder_ms", 1000.0),
        (corrupt.NEMESIS, "corrupt_percent", 60.0),
    ],
)
def test_what_cannot_be_asked_for(nemesis: QueueFault, option: str, value: float) -> None:
    options = {key: o.default for key, o in nemesis.options.items()}
    with pytest.raises(ConfigError):
        nemesis.plan(random.Random(1), NODES, 60.0, {**options, option: value})


@pytest.mark.parametrize(
    ("mean_ms", "right"), [(100, True), (130, True), (80, False), (400, False), (1, False)]
)
def test_packets_must_wait_as_long_as_asked(mean_ms: int, right: bool) -> None:
    row = Sender(seen=50, delayed=50, waited_us=50 * mean_ms * 1000)
    assert (waits("n1->n2", row, 100.0, 10.0) is None) is right


def test_pairs_are_slow_in_both_families_or_in_doubt() -> None:
    before = {"a->b": [100, 100], "b->a": [100, -1], "a->c": [100, 100], "c->a": [100, 100]}
    now = {"a->b": [90_000, 90_000], "b->a": [300, -1], "a->c": [90_000, 100], "c->a": [0, 100]}
    limits = dict.fromkeys(before, 70_000.0)
    assert slow_pairs(before, now, before, limits) == (["a->b"], ["b->a"], ["c->a"])


def rtt(cut_us: int, other_us: int = 200) -> dict[str, tuple[int, int]]:
    """Round trips where both paths into n2 are hit."""
    pairs = [f"{a}->{b}" for a in NODES for b in NODES if a != b]
    return {p: (cut_us, cut_us) if "n2" in p else (other_us, other_us) for p in pairs}


@pytest.mark.parametrize(
    ("now", "victim", "control"),
    [
        (rtt(100_000), True, False),
        (rtt(60_000), False, False),
        (rtt(300), False, False),
        (rtt(100_000, 30_000), True, True),
        ({**rtt(100_000), "n1->n2": (100_000, 300)}, False, False),
        ({**rtt(100_000), "n1->n2": (0, 0)}, False, False),
        ({**rtt(100_000), "n1->n3": (0, 0)}, True, True),
    ],
    ids=["slower", "too little", "not", "others too", "one family", "cut off", "other cut off"],
)
def test_latency_shows_in_round_trips(now: Any, victim: bool, control: bool) -> None:
    made = record(delay_ms=100.0, jitter_ms=0.0, probe_before=rtt(250))
    assert latency.NEMESIS.victim(made, now, {}).moved is victim
    assert latency.NEMESIS.control(made, now).moved is control
    whole = list(latency.NEMESIS.impaired_paths(made, now)) == []
    assert whole is (now == rtt(300))


def test_both_directions_take_twice_as_long() -> None:
    made = record(delay_ms=100.0, jitter_ms=0.0, probe_before=rtt(250))
    made.facts["cuts"] = ["n1->n2", "n2->n1", "n3->n2", "n2->n3"]
    assert not latency.NEMESIS.victim(made, rtt(110_000), {}).moved
    assert latency.NEMESIS.victim(made, rtt(200_000), {}).moved


def burst(cut: tuple[int, ...], other: tuple[int, ...] = (200, 200, 0, 200)) -> dict[str, Any]:
    pairs = [f"{a}->{b}" for a in NODES for b in NODES if a != b]
    return {p: cut if p in CUTS else other for p in pairs}


@pytest.mark.parametrize(
    ("nemesis", "now", "moved", "victim", "control"),
    [
        (duplicate.NEMESIS, burst((260, 200, 0, 200)), 5, True, False),
        (duplicate.NEMESIS, burst((260, 200, 0, 200)), 0, False, False),
        (duplicate.NEMESIS, burst((200, 200, 0, 200)), 5, False, False),
        (duplicate.NEMESIS, burst((400, 200, 0, 200)), 5, False, False),
        (duplicate.NEMESIS, burst((130, 100, 0, 200)), 5, False, False),
        (duplicate.NEMESIS, burst((260, 200, 0, 200), (210, 200, 0, 200)), 5, True, True),
        (reorder.NEMESIS, burst((200, 200, 50, 200)), 5, True, False),
        (reorder.NEMESIS, burst((200, 200, 50, 200)), 0, False, False),
        (reorder.NEMESIS, burst((200, 200, 0, 200)), 5, False, False),
        (reorder.NEMESIS, burst((200, 200, 5, 200)), 5, False, False),
        (reorder.NEMESIS, burst((200, 200, 50, 200), (200, 200, 50, 200)), 5, True, True),
        (corrupt.NEMESIS, burst((140, 140, 0, 200)), 5, True, False),
        (corrupt.NEMESIS, burst((140, 140, 0, 200)), 0, False, False),
        (corrupt.NEMESIS, burst((200, 200, 0, 200)), 5, False, False),
        (corrupt.NEMESIS, burst((40, 40, 0, 200)), 5, False, False),
        (corrupt.NEMESIS, burst((140, 140, 0, 200), (140, 140, 0, 200)), 5, True, True),
    ],
)
def test_bursts(nemesis: QueueFault, now: Any, moved: int, victim: bool, control: bool) -> None:
    share = 0.25 if nemesis is reorder.NEMESIS else 0.3
    made = record(share=share, probe_before=burst((200, 200, 0, 200)))
    kernel = dict.fromkeys(
        ("twice_known_to_tcp", "out_of_order_in_tcp", "tcp_checksum_errors"), moved
    )
    signal = nemesis.victim(made, now, {**kernel, "twice_ahead_in_tcp": 0})
    assert signal.moved is victim, signal.detail
    assert nemesis.control(made, now).moved is control


def test_a_whole_path() -> None:
    assert sent_once((200, 200, 0, 200))
    assert sent_once((195, 195, 3, 200))
    for bad in [(150, 150, 0, 200), (201, 200, 0, 200), (200, 200, 30, 200), (0, 0, 0, 200)]:
        assert not sent_once(bad)


def sight(counted: int, *, served: bool = True, **figures: int) -> QueueSnapshot:
    return QueueSnapshot(
        hooked=2,
        counted={"10.0.0.1": counted},
        served=served,
        pids=[5] if served else [],
        senders={"10.0.0.1": Sender(**figures)} if figures else {},
    )


@pytest.mark.parametrize(
    ("seen", "told", "why"),
    [
        (sight(100, seen=100, delayed=99, waited_us=9_900_000), True, "packets delayed"),
        (sight(100, served=False), False, "nobody serves"),
        (sight(100), False, "the program saw 0"),
        (sight(100, seen=60, delayed=60, waited_us=6_000_000), False, "the program saw 60"),
        (sight(0, seen=0), False, "no packet delayed yet"),
        (sight(100, seen=100, delayed=99, waited_us=99_000), False, "waits 1.0 ms"),
    ],
)
def test_the_injector_is_the_program_not_the_rule(
    seen: QueueSnapshot, told: bool, why: str
) -> None:
    made = record(cuts=CUTS[:1], delay_ms=100.0, jitter_ms=0.0)
    done = {"n1->n2": seen.senders.get("10.0.0.1", Sender())}
    signal = latency.NEMESIS.injector(made, {"n2": seen}, done)
    assert signal.moved is told
    assert why in signal.detail


def landed(made: LandingRecord, injector: Signal, victim: Signal, control: Signal) -> str:
    seen = Observed(injector=injector, victim=victim, control=control)
    return landed_on_used_paths(with_signals(made, seen))


def test_both_sides_and_paths_in_use() -> None:
    made = record(delay_ms=100.0, jitter_ms=0.0, probe_before=rtt(250))
    yes = latency.NEMESIS.victim(made, rtt(100_000), {})
    no = latency.NEMESIS.victim(made, rtt(300), {})
    assert landed(made, yes, yes, no) == "yes"
    assert landed(made, yes, no, no) == "ambiguous"
    assert landed(made, no, yes, no) == "ambiguous"
    assert landed(made, no, no, no) == "no"
    assert landed(made, yes, yes, yes) == "ambiguous"
    made.facts["baseline_packets"]["n1->n2"] = 0
    assert landed(made, yes, yes, no) == "ambiguous"
