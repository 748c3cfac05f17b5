"""The kernel's netem: what is laid, what its counters mean, what is told apart from another."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dstest.core.node import FEATURES, NodeInfo
from nemeses.network.corrupt import NEMESIS as CORRUPT
from nemeses.network.duplicate import NEMESIS as DUPLICATE
from nemeses.network.latency import NEMESIS as LATENCY
from nemeses.network.queued import QueueFault, _differ
from nemeses.network.reorder import NEMESIS as REORDER
from nemeses.tools import netem

TWO = [
    NodeInfo(name="n2", address="10.77.7.2", address6="fd77:7::2"),
    NodeInfo(name="n3", address="10.77.7.3"),
]


def a_record(**facts: Any) -> Any:
    return SimpleNamespace(facts=facts)


@pytest.mark.parametrize(
    ("nemesis", "facts", "words"),
    [
        (LATENCY, {"delay_ms": 100.0, "jitter_ms": 10.0}, "delay 100ms 10ms rate 10000000000bit"),
        (LATENCY, {"delay_ms": 50.0, "jitter_ms": 0.0}, "delay 50ms rate 10000000000bit"),
        (DUPLICATE, {"share": 0.3}, "duplicate 30%"),
        (REORDER, {"share": 0.25, "hold_ms": 50.0}, "delay 50ms reorder 75%"),
    ],
)
def test_words(nemesis: Any, facts: dict[str, Any], words: str) -> None:
    assert netem.words_of(nemesis.netem_words(a_record(**facts))) == words


def test_what_netem_does_otherwise_is_left_to_our_queue() -> None:
    assert type(CORRUPT).netem_words is QueueFault.netem_words


def test_each_sender_has_a_queue_for_its_traffic_and_one_for_probes() -> None:
    lines = netem.rules("eth0", TWO, "delay 1ms").splitlines()
    assert sum(" root netem " in line for line in lines) == 4
    to_us = [line for line in lines if "redirect" in line]
    assert len(to_us) == 3 * 3  # two addresses of one, one of the other
    assert all("dst_port 7071" in x or "src_port 7071" in x for x in to_us if "ip_proto" in x)
    # Filters without one of ours among them are somebody else's.
    assert max(map(lines.index, to_us)) < min(i for i, x in enumerate(lines) if "icmpv6" in x)


def filters(*packets: int) -> list[dict[str, Any]]:
    """As `tc -s -j filter` lists them: per address probes, then the rest."""
    rows: list[dict[str, Any]] = [{"protocol": "ip", "pref": 6}]
    keys = [
        {"src_ip": "10.77.7.2", "ip_proto": "udp", "dst_port": 7071},
        {"src_ip": "10.77.7.2"},
        {"src_ip": "fd77:7::2"},
    ]
    to = [f"{netem.DEVICE}1", f"{netem.DEVICE}0", f"{netem.DEVICE}0"]
    for key, device, count in zip(keys, to, packets, strict=True):
        action = {"kind": "mirred", "to_dev": device, "stats": {"packets": count}}
        rows.append({"options": {"keys": key, "actions": [action]}})
    return [*rows, {"options": {"keys": {}, "actions": [{"kind": "gact"}]}}]


def queues(packets: int, qlen: int = 0) -> list[dict[str, Any]]:
    options = {"duplicate": {"duplicate": 0.3}}
    mine = {"kind": "netem", "dev": f"{netem.DEVICE}0", "options": options}
    return [{**mine, "packets": packets, "qlen": qlen}, {"kind": "fq_codel", "dev": "eth0"}]


def test_counters() -> None:
    found = netem.parse(queues(128, qlen=4), filters(5, 40, 40), filters(7, 60, 60))
    assert found.filters == 3
    four, six = found.senders["10.77.7.2"], found.senders["fd77:7::2"]
    # 100 came while it was looked, 80 before and 120 after: 132 left or wait, 32 of them twice.
    assert (four.seen, four.probes, four.delayed, four.twice) == (60, 7, 128, 32)
    assert (six.seen, six.delayed, six.twice) == (60, 0, 0)
    assert found.words["10.77.7.2"] == {"duplicate": {"duplicate": 0.3}}


def test_a_queue_that_is_gone_shows() -> None:
    found = netem.parse([], filters(1, 2, 3), filters(1, 2, 3))
    assert found.words["10.77.7.2"] == {}
    assert netem.parse([], [], []).filters == 0


@pytest.mark.parametrize(
    ("there", "odd"),
    [
        ({"delay": {"delay": 0.1, "jitter": 0.01}}, ""),
        ({"delay": {"delay": 0.2, "jitter": 0.01}}, "delay.delay=0.2, not 0.1"),
        ({"delay": {"delay": 0.1}}, "delay.jitter=nothing, not 0.01"),
        ({}, "delay.delay=nothing"),
    ],
)
def test_a_queue_that_is_set_otherwise(there: dict[str, Any], odd: str) -> None:
    wanted = {"delay.delay": 0.1, "delay.jitter": 0.01}
    said = _differ(cast(Any, there), wanted)
    assert said == "" if not odd else odd in said


FAKE_TC = """\
#!/bin/sh
case "$*" in
"qdisc show dev "*) echo "qdisc ingress ffff: parent ffff:fff1" ;;
"filter show dev ours ingress") echo "mirred (Egress Redirect to device dstestf0)" ;;
"filter show dev theirs ingress") echo "police 0x1 rate 1Mbit" ;;
"filter show "*) ;;
"qdisc del "*) echo "$4" >>"$0.deleted" ;;
esac
"""


def test_only_an_ingress_of_ours_is_taken_away(tmp_path: Path) -> None:
    """One without filters may be somebody's who is about to fill it."""
    tool = tmp_path / "tc"
    tool.write_text(FAKE_TC)
    tool.chmod(0o755)
    hooked = tmp_path / "hooked"
    for folder in ("net/ours", "net/theirs", "net/empty", "net/half"):
        (tmp_path / folder).mkdir(parents=True)
    hooked.mkdir()
    (hooked / "half").touch()
    text = netem.OFF.replace("/sys/class/net", f"{tmp_path}/net").replace(netem.HOOKED, str(hooked))
    subprocess.run(["sh", "-c", text], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (tmp_path / "tc.deleted").read_text().split() == ["half", "ours"]
    assert not hooked.exists()


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ("qdisc noqueue 0: root", 0),
        ("qdisc clsact ffff: parent ffff:fff1", 1),
        ("qdisc ingress ffff: parent ffff:fff1", 1),
        ("qdisc fq_codel 0: root", 0),
    ],
)
def test_a_device_whose_ingress_is_taken_is_not_offered(
    tmp_path: Path, shown: str, status: int
) -> None:
    for name, says in {"tc": shown, "ip": "192.0.2.1 via 10.0.0.1 dev eth7 src 10.0.0.2"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n[ $# = 4 ] && [ $4 != eth7 ] || echo '{says}'\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    argv = ["sh", "-c", netem._FREE, "192.0.2.1"]
    assert subprocess.run(argv, env=env, check=False).returncode == status


def test_a_trial_leaves_nothing_whatever_ends_it() -> None:
    """It is made in a network that ends with the trial."""
    assert "unshare --net" in FEATURES["netem"].look
    assert "trap" not in FEATURES["netem"].look
