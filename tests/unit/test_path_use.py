"""Which paths of a fault must show: those that the system uses, and at least one is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from made_audit import but, with_facts
from third_party import context

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.run_record import RunSpec
from dstest.judge.audit import measure, red_flags
from dstest.runner.plugins import resolve
from nemeses.base import path_fault
from nemeses.base.driver import Observed, with_signals
from nemeses.base.paths import Path, _injector, landed_on_used_paths, use_of, used_paths
from nemeses.network import latency, partition
from nemeses.network.loss import _injector as lost
from nemeses.network.new_connections import signals_of
from nemeses.tools.netqueue import QueueSnapshot, Sender

CUTS: list[Path] = [("n1", "n2"), ("n2", "n1"), ("n1", "n3")]
NAMES = [f"{a}->{b}" for a, b in CUTS]
ONE_WAY = {"n1->n2": 30, "n2->n1": 20, "n1->n3": 0}


def facts(links: list[Path] | None, packets: dict[str, int]) -> dict[str, Any]:
    ctx = context(SimpleNamespace(links=lambda: links, members=("n1", "n2", "n3")))
    return use_of(ctx, {path: packets[name] for path, name in zip(CUTS, NAMES, strict=True)})


def made(links: list[Path] | None, packets: dict[str, int]) -> LandingRecord:
    more = {"clients": False, "share": 0.3, "delay_ms": 100.0, "jitter_ms": 0.0}
    before = dict.fromkeys(NAMES, (1, 1, 3, 3))
    return LandingRecord(
        fault_id="f1", nemesis="partition", targets=["n1"], scheduled_at=0, epoch="f1",
        facts={**facts(links, packets), **more, "probe_before": before},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("links", "packets", "idle"),
    [
        (None, ONE_WAY, []),
        (None, dict.fromkeys(NAMES, 0), []),
        ([("n1", "n2"), ("n1", "n3")], ONE_WAY, []),
        ([("n1", "n2")], ONE_WAY, ["n1->n3"]),
        ([], ONE_WAY, ["n1->n3"]),
        ([], dict.fromkeys(NAMES, 0), NAMES),
    ],
)
def test_idle_is_what_is_neither_listed_nor_seen(
    links: list[Path] | None, packets: dict[str, int], idle: list[str]
) -> None:
    found = made(links, packets)
    assert found.facts["idle_paths"] == idle
    assert used_paths(found) == [name for name in NAMES if name not in idle]


def test_paths_that_carry_nothing_are_said_before_the_first_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those between followers, where the system lets all members talk to each other."""

    async def counted(_: Any) -> dict[Path, int]:
        return dict(zip(CUTS, ONE_WAY.values(), strict=True))

    def foreseen(links: list[Path] | None) -> str:
        made = SimpleNamespace(links=lambda: links, members=("n1", "n2", "n3"))
        return asyncio.run(partition.NEMESIS.foresee(context(made)))

    monkeypatch.setattr(path_fault, "accounts", counted)
    said = foreseen(None)
    assert said.startswith("n1->n3 carried nothing so far, and a partition of such a path")
    assert "`links()`" in said
    assert "n1->n3" in foreseen([("n1", "n3")])
    assert foreseen([("n1", "n2"), ("n2", "n1")]) == ""


YES, NO = Signal(signal="", during={"n1": 1}, moved=True), Signal(signal="", moved=False)


@pytest.mark.parametrize(
    ("links", "packets", "landed"),
    [
        (None, dict.fromkeys(NAMES, 5), "yes"),
        (None, ONE_WAY, "ambiguous"),
        ([], ONE_WAY, "yes"),
        ([("n1", "n3")], ONE_WAY, "ambiguous"),
        ([], dict.fromkeys(NAMES, 0), "ambiguous"),
        (None, dict.fromkeys(NAMES, 0), "ambiguous"),
    ],
)
def test_a_used_path_was_busy_before_and_one_is_used(
    links: list[Path] | None, packets: dict[str, int], landed: str
) -> None:
    seen = Observed(injector=YES, victim=YES, control=NO)
    assert landed_on_used_paths(with_signals(made(links, packets), seen)) == landed


def injectors(given: LandingRecord, counted: dict[str, int]) -> dict[str, bool]:
    """Does each kind of injector take these packets per path for a fault that was there?"""
    reach = dict.fromkeys(NAMES, (0, 0, 3, 3))
    seen = {f"seen_{name}": 3 * n for name, n in counted.items()}
    seen |= {name: int(0.9 * n) for name, n in counted.items()}
    done = {name: Sender(seen=n, delayed=n, waited_us=100_000 * n) for name, n in counted.items()}
    sight = QueueSnapshot(
        pids=[1], served=True, hooked=2, counted={"a": 1}, senders={"a": Sender(seen=1)}
    )
    injector = signals_of(given, counted, reach).injector
    return {
        "partition": _injector(given, counted).moved,
        "loss": lost(given, seen).moved,
        "new-connections": injector.moved,
        "latency": latency.NEMESIS.injector(given, {"n2": sight}, done).moved,
    }


ALL = dict.fromkeys(NAMES, 400)


@pytest.mark.parametrize(
    ("links", "packets", "counted", "moved"),
    [
        (None, dict.fromkeys(NAMES, 5), ALL, True),
        (None, dict.fromkeys(NAMES, 5), {**ALL, "n1->n3": 0}, False),
        ([], ONE_WAY, ALL, True),
        ([], ONE_WAY, {**ALL, "n1->n3": 0}, True),
        ([], ONE_WAY, {**ALL, "n2->n1": 0}, False),
        ([("n1", "n3")], ONE_WAY, {**ALL, "n1->n3": 0}, False),
        ([], dict.fromkeys(NAMES, 0), ALL, False),
        ([], dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0), False),
    ],
)
def test_every_used_path_must_count(
    links: list[Path] | None, packets: dict[str, int], counted: dict[str, int], moved: bool
) -> None:
    found = injectors(made(links, packets), counted)
    assert found == dict.fromkeys(found, moved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"links": []}, ""),
        ({"links": [], "idle_paths": ["n1->n3"]}, ""),
        (
            {"links": []} | {"baseline_packets": {**ONE_WAY, "n1->n2": 0}},
            "were idle before it, as n1->n",
        ),
        (
            {"links": None, "baseline_packets": dict.fromkeys(NAMES, 0)},
            "none of the 2 paths to be cut carried any traffic before it: do members",
        ),
        ({"links": None, "idle_paths": ["n1->n3"]}, "not one of the paths that may be idle"),
        ({"links": ["n1->n3"], "idle_paths": ["n1->n3"]}, "may be idle"),
        ({"links": [], "idle_paths": ["n1->n3", "n1->n2"]}, "n1->n2 is not one of"),
        ({"links": [], "idle_paths": ["n4->n3"]}, "n4->n3 is not one of"),
        (
            {"links": [], "idle_paths": NAMES, "baseline_packets": dict.fromkeys(NAMES, 0)},
            "none of its paths carried any traffic",
        ),
    ],
)
def test_the_audit_holds_the_record_to_it(changes: dict[str, Any], said: str) -> None:
    base: dict[str, Any] = {"cuts": NAMES, "baseline_packets": ONE_WAY}
    if not changes.get("idle_paths"):
        base = {"cuts": NAMES[:2], "baseline_packets": ONE_WAY}
    facts = but(records=with_facts(3, **{**base, **changes}))
    found = red_flags(facts, measure(facts))["RF4"]
    assert (found.status == "ok") is (not said), found
    assert said in found.evidence


def test_members_that_know_nothing_of_each_other_cannot_be_parted() -> None:
    with pytest.raises(
        ConfigError, match=r"memcached cannot have .* lacks Linked \(links\): members that "
    ):
        resolve(RunSpec(system="memcached", nemesis="partition", time_limit_s=30.0), [])
