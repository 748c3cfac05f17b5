"""`store-outage`: what counts as a member that does not reach its store, and what does not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import Process
from nemeses.base.driver import Healing, Reverted, landing, with_facts, with_signals
from nemeses.network.store_outage import NEMESIS, read_on, signals_of
from nemeses.observe.processes import replacements
from nemeses.tools.nft import store_rules

S = 10**9
NOW_NS = 100 * S


def record(**facts: Any) -> LandingRecord:
    known: dict[str, Any] = {"seen_before": {"n1": 7, "n2": 7, "n3": 7}, "never_seen": []}
    return LandingRecord(
        fault_id="f1",
        nemesis="store-outage",
        targets=["n1"],
        scheduled_at=0,
        epoch="f1",
        facts={**known, **facts},
    )


SEEN = {"n1": (8, NOW_NS - 6 * S), "n2": (15, NOW_NS - S), "n3": (14, NOW_NS - 2 * S)}


def outcome(found: LandingRecord | None = None, **given: Any) -> tuple[str, str]:
    """Whether it has landed, and the sentences of the three signals."""
    what: dict[str, Any] = {
        "counted": {"n1": 5},
        "seen": SEEN,
        "errors": {"n1": 2},
        "mute": [],
        "hit": [],
    }
    begun = found or record()
    seen = signals_of(begun, **{**what, "unled": [], **given}, now_ns=NOW_NS, found={})
    after = with_signals(begun, seen)
    return landing(after), "; ".join(
        (seen.injector.detail, seen.victim.detail, seen.control.detail)
    )


def test_it_has_landed_when_all_of_it_shows() -> None:
    assert outcome()[0] == "yes"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"counted": {"n1": 0}}, "n1 has not tried yet"),
        ({"counted": {}}, "n1 has not tried yet"),
        ({"errors": {"n1": 0}}, "n1 has logged no error of it"),
        ({"seen": {**SEEN, "n1": (15, NOW_NS - S)}}, "n1 may have reached it 1.0 s ago"),
        ({"seen": {**SEEN, "n3": (7, NOW_NS - 11 * S)}}, "n3 does not reach its store either"),
        ({"hit": ["n2 has another process"]}, "n2 has another process"),
        ({"seen": {**SEEN, "n3": (7, NOW_NS - S)}}, "n3 does not reach its store either"),
        ({"seen": {**SEEN, "n3": (None, NOW_NS - S)}}, "n3 does not reach its store either"),
        ({"mute": ["n2"]}, "n2 does not reach its store either"),
        ({"mute": ["n1"]}, "n1 does not say when it reached it"),
        ({"unled": ["nobody else leads"]}, "nobody else leads"),
        ({"found": record(never_seen=["n1"])}, "n1 did not reach its store before"),
    ],
)
def test_what_is_missing_keeps_it_from_that(given: dict[str, Any], why: str) -> None:
    found, said = outcome(**given)
    assert found != "yes"
    assert why in said


def test_only_a_greater_number_is_news() -> None:
    first = read_on({}, {"n1": 7, "n2": None}, 1)
    assert first == {"n1": (7, 1), "n2": (None, 1)}
    assert read_on(first, {"n1": 8, "n2": 3}, 2) == {"n1": (8, 2), "n2": (3, 1)}
    for old in (7, 0, None):
        assert read_on(first, {"n1": old, "n2": None}, 3) == first
    as_kept = {name: list(row) for name, row in first.items()}
    assert read_on(as_kept, {"n1": 8, "n2": None}, 4) == {"n1": (8, 4), "n2": (None, 1)}


class Stores:
    """What members say of their store."""

    def __init__(self, **said: int | None) -> None:
        self.said = said

    async def store_seen(self) -> dict[str, int | None]:
        return dict(self.said)


def healed(said: int | None, at_heal: int | None, counted: int = 5) -> list[str]:
    """What is missing for a heal of n1, of which nobody has taken a look."""
    ctx: Any = SimpleNamespace(need=lambda _: Stores(n1=said))
    after = Reverted(first={"n1": 5}, second={"n1": counted})
    healing = Healing(counts_before={}, counts_after={}, reverted=after)
    return list(asyncio.run(NEMESIS.missing(ctx, record(seen_at_heal={"n1": at_heal}), healing)))


@pytest.mark.parametrize(
    ("said", "at_heal", "whole"),
    [
        (9, 8, True),
        (8, 8, False),
        (9, None, True),
        (7, None, False),
        (None, 8, False),
        (0, 8, False),
    ],
)
def test_it_has_healed_when_a_member_has_reached_its_store_since(
    said: int | None, at_heal: int | None, whole: bool
) -> None:
    assert healed(said, at_heal) == ([] if whole else ["n1 has not reached its store yet"])
    assert "a counter still moved after the rules were taken out" in healed(said, at_heal, 6)


def test_who_has_reached_it_in_the_window_was_not_kept_from_it() -> None:
    earlier = with_facts(record(), {"seen": {"n1": [8, 1]}, "mute": []})
    reached = with_facts(record(), {"seen": {"n1": [9, 5]}, "mute": []})
    assert not NEMESIS.stands(earlier, reached).doubts, "it has not landed yet"
    stood = msgspec.structs.replace(earlier, landed_at=3)
    assert NEMESIS.stands(stood, reached).doubts == ["n1 reached the store inside the window"]
    assert not NEMESIS.stands(stood, stood).doubts
    mute = with_facts(stood, {"mute": ["n1"]})
    assert NEMESIS.stands(stood, mute).doubts == ["n1 does not say when it reached its store"]


@pytest.mark.parametrize(("action", "verdict"), [("drop", "drop"), ("reject", "reject with tcp")])
def test_its_rules_are_about_one_user_and_one_port(action: Any, verdict: str) -> None:
    text = store_rules("n1", "postgres", 2379, action)
    rules = [line for line in text.splitlines() if "skuid" in line]
    assert len(rules) == 2
    assert all("meta skuid postgres tcp dport 2379" in rule for rule in rules)
    assert f"counter name cut_n1 {verdict}" in rules[0]
    assert rules[1].endswith("tcp flags & rst != rst reject with tcp reset")


def test_who_was_replaced_is_told_by_any_of_its_services() -> None:
    rows: list[Any] = [["etcd", 10, 1, True], ["patroni", 20, 2, True], ["patroni", 21, 3, False]]
    found = record(processes={"n1": rows, "n2": rows})
    same = [Process(*row) for row in rows]
    other = [Process("etcd", 10, 1), Process("patroni", 30, 9)]
    assert replacements(found, {"n1": same, "n2": same[:2]}, ["n1", "n2"]) == []
    assert replacements(found, {"n1": same, "n2": other}, ["n1", "n2"]) == ["n2"]
    assert replacements(found, {"n1": same[:1]}, ["n1", "n2"]) == ["n1", "n2"]
    one = record(processes={"n1": rows[:1]})
    assert replacements(one, {"n1": other}, ["n1"]) == [], "the fault is about one service"
