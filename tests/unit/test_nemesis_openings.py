"""What counts as connections that cannot be opened, and the rules that see to it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from third_party import context

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo, NodeInfo
from dstest.core.protocols import Timing
from nemeses.base.driver import with_signals
from nemeses.base.path_fault import landing_s
from nemeses.base.paths import Reached, landed_on_used_paths
from nemeses.network.new_connections import NEMESIS
from nemeses.network.new_connections import signals_of as signals
from nemeses.tools import nft

PATHS = ("n1->n2", "n2->n1", "n1->n3")
WHOLE = (1, 1, 3, 3)


def record(**facts: Any) -> LandingRecord:
    base = {
        "cuts": ["n1->n2"],
        "probe_before": dict.fromkeys(PATHS, WHOLE),
        "baseline_packets": {"n1->n2": 9},
    }
    return LandingRecord(
        fault_id="f1",
        nemesis="new-connections",
        targets=["n2"],
        scheduled_at=0,
        epoch="f1",
        facts={**base, **facts},
    )


CUT = {"n1->n2": (0, 0, 3, 3), "n2->n1": WHOLE, "n1->n3": WHOLE}
COUNTED = {"n1->n2": 4, "reset_n1->n2": 7}


def judged(given: LandingRecord, counted: dict[str, int], reach: Reached) -> LandingRecord:
    found = with_signals(given, signals(given, counted, reach))
    return msgspec.structs.replace(found, landed=landed_on_used_paths(found))


def test_it_landed() -> None:
    found = judged(record(), COUNTED, CUT)
    assert found.landed == "yes"
    assert found.facts["stood"] == {"reset": {"n1->n2": 7}, "kept": {"n1->n2": 0}}


@pytest.mark.parametrize(
    ("counted", "reach", "facts", "landed", "said"),
    [
        ({"reset_n1->n2": 7}, {}, {}, "ambiguous", "nobody has tried yet on n1->n2"),
        ({}, {"n1->n2": WHOLE}, {}, "no", "n1->n2 can be opened"),
        (COUNTED, {"n1->n2": (0, 1, 3, 3)}, {}, "ambiguous", "n1->n2 can be opened"),
        (COUNTED, {"n1->n2": (0, 0, 0, 3)}, {}, "ambiguous", "datagrams are lost: n1->n2"),
        (COUNTED, {"n1->n3": (1, 0, 3, 3)}, {}, "ambiguous", "cannot be opened either: n1->n3"),
        (
            COUNTED,
            {},
            {"probe_before": {**dict.fromkeys(PATHS, WHOLE), "n1->n2": (0, 1, 3, 3)}},
            "ambiguous",
            "could not be opened before",
        ),
        (COUNTED, {}, {"baseline_packets": {"n1->n2": 0}}, "ambiguous", ""),
    ],
)
def test_it_did_not(
    counted: dict[str, int],
    reach: dict[str, tuple[int, ...]],
    facts: dict[str, Any],
    landed: str,
    said: str,
) -> None:
    found = judged(record(**facts), counted, {**CUT, **reach})
    assert found.landed == landed
    signals = (found.injector, found.victim, found.control)
    assert any(said in signal.detail for signal in signals if signal)


def test_a_path_of_one_family() -> None:
    before = dict.fromkeys(PATHS, (1, -1, 3, -1))
    reach = {**before, "n1->n2": (0, -1, 3, -1)}
    assert judged(record(probe_before=before), COUNTED, reach).landed == "yes"
    assert list(NEMESIS.impaired_paths(record(), reach)) == ["n1->n2"]


def test_the_plan_says_whether_standing_ones_are_reset() -> None:
    options = {key: option.default for key, option in NEMESIS.options.items()}
    for reset in (True, False):
        values = {**options, "reset": reset}
        plans = NEMESIS.plan(random.Random(1), ["n1", "n2", "n3"], 60.0, values)
        assert {plan.facts["reset"] for plan in plans} == {reset}
        assert {plan.nemesis for plan in plans} == {"new-connections"}


def test_the_rules_stop_openings_and_reset_what_stands() -> None:
    nodes = [NodeInfo(name="n1", address="10.0.0.1", address6="fd00::1")]
    lab = LabInfo(lab_id="x", kind="lxc", nodes=nodes, control="10.0.0.254")
    text = nft.opening_rules(nodes, lab, "drop", reset=True)
    lines = [line.strip() for line in text.splitlines()]
    order = [
        "ip saddr 10.0.0.254 tcp dport 22 accept",
        "ip saddr 10.0.0.1 tcp dport >= 32768 return",
        "ip saddr 10.0.0.1 tcp flags & rst == rst return",
        "ip saddr 10.0.0.1 tcp flags & (fin | syn | rst | ack) == syn counter name cut_n1 drop",
        "ip saddr 10.0.0.1 meta l4proto tcp counter name reset_n1 reject with tcp reset",
    ]
    assert [lines.index(line) for line in order] == sorted(lines.index(line) for line in order)
    assert any(line.startswith("ip6 saddr fd00::1 tcp flags") for line in lines)
    calm = nft.opening_rules(nodes, lab, "reject", reset=False)
    assert "reset_n1" not in calm
    assert "ip saddr 10.0.0.1 meta l4proto tcp counter name kept_n1\n" in calm
    assert "counter name cut_n1 reject with tcp reset" in calm


def test_a_path_that_is_seldom_used_is_waited_for() -> None:
    for keepalive_s, wanted_s in ((2.0, 5.0), (8.0, 16.0)):
        ctx: Any = context(SimpleNamespace(timing=Timing(keepalive_s=keepalive_s)))
        assert landing_s(ctx) == wanted_s
