"""Who leads, and what proves that it changed: with epochs, without them, in several groups."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.evidence import LeadDetails
from dstest.core.protocols import Leadership, LeaderView, Member, Timing
from nemeses.base.leadership import (
    Lead,
    agreement,
    lead,
    lead_of,
    lead_when_known,
    moved_to,
    new_lead,
    no_failover,
)

pytestmark = pytest.mark.slow

NODES = ["n1", "n2", "n3", "n4", "n5"]


def views(
    leaders: dict[str, str | None], epoch: int | None = None, **rest: Any
) -> list[LeaderView]:
    """What each member says."""
    return [
        LeaderView(member=m, leader=leader, epoch=epoch, **rest) for m, leader in leaders.items()
    ]


def all_say(leader: str | None, *members: str, epoch: int | None = None) -> list[LeaderView]:
    return views(dict.fromkeys(members or NODES, leader), epoch)


def test_most_members_at_the_highest_epoch_say_who_leads() -> None:
    found = [*all_say("n1", "n1", "n2", "n3", epoch=4), *all_say("n5", "n4", "n5", epoch=7)]
    assert lead_of(found, "") == Lead("n5", 7)
    assert lead_of([*found, *all_say("n4", "n3", epoch=7)], "") == Lead("n5", 7)
    candidate = [*all_say("n1", "n1", "n2", epoch=4), *all_say(None, "n3", epoch=5)]
    assert lead_of(candidate, "") == Lead(None, 5)
    assert lead_of(all_say(None), "") == Lead(None, None)
    assert lead_of([], "") == Lead()


def test_where_two_claim_to_lead_nobody_does() -> None:
    both = [*views({"n1": "n1", "n2": "n2"}), *all_say("n1", "n3", "n4")]
    assert lead_of(both, "") == Lead()
    stale = [*views({"n1": "n1"}, 4), *views({"n2": "n2", "n3": "n2"}, 5)]
    assert lead_of(stale, "") == Lead("n2", 5), "an older epoch is no claim"
    assert moved_to(Lead(), both, NODES, ["n1"]) is None, "nobody was known to lead before"


def test_an_epoch_that_rises_is_an_election_and_one_that_does_not_is_none() -> None:
    before = Lead("n1", 4)
    assert moved_to(before, all_say("n2", epoch=5), NODES, ["n1"]) == Lead("n2", 5)
    assert moved_to(before, all_say("n2", epoch=4), NODES, ["n1"]) is None
    assert moved_to(before, all_say(None), NODES, ["n1"]) is None
    assert moved_to(before, all_say("n1", epoch=6), NODES, ["n1"]) is None, "it was hit"
    assert moved_to(before, all_say("n1", epoch=6), NODES, []) == Lead("n1", 6), "led again"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([("n2", "n1", 5), ("n3", None, 6), ("n4", "n1", 5), ("n5", "n1", 5)], None),
        ([("n1", None, 6), ("n2", "n1", 5), ("n3", "n1", 5)], None),
        ([("n1", "n2", 6), ("n2", None, 5), ("n3", "n1", 5)], None),
        ([("n1", "n1", 9), ("n2", "n3", 6), ("n3", "n3", 6)], Lead("n3", 6)),
        ([("n2", "n3", 6), ("n4", "n1", 5), ("n5", "n1", 5)], None),
        ([("n3", "n3", 6), ("n4", "n1", 5), ("n5", "n1", 5)], Lead("n3", 6)),
        ([("n2", "n3", 6), ("n4", "n3", 6), ("n5", "n3", 6)], Lead("n3", 6)),
        ([("n2", "n3", 6), ("n3", "n3", 6), ("n4", None, 7)], None),
    ],
    ids=[
        "a candidate, and the dead leader named at the old epoch", "the cut-off leader campaigns",
        "only the cut-off one says so", "the cut-off one is ahead", "one follower alone names it",
        "it claims to lead", "most name it", "a newer election goes on",
    ],
)  # fmt: skip
def test_leader_and_epoch_come_from_the_same_views(
    said: list[tuple[str, str | None, int]], found: Lead | None
) -> None:
    told = [LeaderView(member=m, leader=leader, epoch=epoch) for m, leader, epoch in said]
    assert moved_to(Lead("n1", 5), told, NODES, ["n1"]) == found


@pytest.mark.parametrize(
    ("said", "away", "found"),
    [
        ({"n2": "n2", "n3": "n1", "n4": "n1", "n5": "n1"}, ["n1"], "n2"),
        ({"n2": "n3", "n3": None, "n4": "n3", "n5": "n3"}, ["n1"], "n3"),
        ({"n2": "n3", "n3": None, "n4": "n3", "n5": "n1"}, ["n1"], None),
        ({"n1": "n2"}, ["n1"], None),
        ({"n2": "n1", "n3": "n1", "n4": "n1", "n5": "n1"}, ["n1"], None),
        ({"n3": "n2", "n4": "n2", "n5": "n2"}, ["n1", "n2"], None),
        ({"n3": "n4", "n4": None, "n5": "n4"}, ["n1", "n2"], "n4"),
    ],
    ids=[
        "one claims", "most name it", "half name it", "only the cut-off one says so", "as before",
        "one that was hit is named", "a majority of those left",
    ],
)  # fmt: skip
def test_without_epochs_another_has_to_lead(
    said: dict[str, str | None], away: list[str], found: str | None
) -> None:
    got = moved_to(Lead("n1", None), views(said), NODES, away)
    assert (got and got.leader) == found


def test_groups_do_not_speak_for_one_another() -> None:
    a = views(dict.fromkeys(NODES, "n1"), 4, group="a")
    b = views(dict.fromkeys(NODES, "n2"), 9, group="b")
    assert lead_of([*a, *b], "a") == Lead("n1", 4, "a")
    assert moved_to(Lead("n1", 4, "a"), [*a, *b], NODES, ["n1"]) is None
    later = views(dict.fromkeys(NODES, "n3"), 5, group="a")
    assert moved_to(Lead("n1", 4, "a"), [*later, *b], NODES, ["n1"]) == Lead("n3", 5, "a")


def test_all_follow_one_leader() -> None:
    assert agreement(all_say("n1", epoch=3), NODES) == []
    assert agreement(all_say("n1", "n1", "n2", "n3", "n4", epoch=3), NODES) == [
        "no view of the leader from n5"
    ]
    split = [*all_say("n1", "n1", "n2", epoch=3), *all_say("n1", "n3", "n4", "n5", epoch=4)]
    assert "disagree" in agreement(split, NODES)[0]
    assert "disagree" in agreement([*all_say("n1", *NODES[:4]), *all_say(None, "n5")], NODES)[0]
    assert agreement(all_say("n1", "n2", "n3"), ["n2", "n3"]) == [
        "nobody takes itself for the leader"
    ]


def test_followers_that_name_nobody() -> None:
    follow = [LeaderView(member=n, leader=None, tells=False) for n in NODES[1:]]
    leads = LeaderView(member="n1", leader="n1")
    assert agreement([leads, *follow], NODES) == []
    silent = LeaderView(member="n1", leader=None, tells=False)
    assert agreement([silent, *follow], NODES) == ["nobody leads"]
    twice = [leads, LeaderView(member="n2", leader="n2"), *follow[1:]]
    assert "disagree" in agreement(twice, NODES)[0]


class Led:
    """A deployment whose views a test sets."""

    timing = Timing(failover_s=0.5)

    def __init__(self, *rows: list[LeaderView]) -> None:
        self.rows = list(rows)
        self.members = {n: Member(n, (), votes=n != "n5") for n in NODES}

    async def leaders(self) -> list[LeaderView]:
        return self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]


def context(led: Led | None) -> Any:
    ticks = iter(range(0, 10**12, 10**8))
    return SimpleNamespace(
        nodes=dict.fromkeys(NODES),
        deployment=led,
        clock=SimpleNamespace(now_ns=lambda: next(ticks)),
        offered=lambda capability: led if capability is Leadership else None,
        need=lambda capability: led,
    )


def _rotating(*names: str) -> list[list[LeaderView]]:
    return [all_say(names[n % len(names)]) for n in range(99)]


def test_an_election_is_waited_out() -> None:
    ctx = context(Led(all_say(None), all_say(None), all_say("n2", epoch=2)))
    assert asyncio.run(lead_when_known(ctx)) == Lead("n2", 2)
    assert asyncio.run(lead_when_known(context(Led(*_rotating("n1", "n2"))))).leader is None
    rising = [all_say("n1", epoch=n) for n in range(99)]
    assert asyncio.run(lead_when_known(context(Led(*rising)))).leader is None
    assert asyncio.run(lead_when_known(context(Led(all_say(None))))) == Lead(None, None)
    assert asyncio.run(lead_when_known(context(Led(all_say(None))), wanted=False)) == Lead()


def test_a_system_without_leaders_has_none() -> None:
    assert asyncio.run(lead(context(None))) == Lead()


def test_of_several_groups_the_seed_draws_one() -> None:
    rows = [*views({"n1": "n1"}, group="a"), *views({"n1": "n2"}, group="b")]
    found = {seed: asyncio.run(lead(context(Led(rows)), seed=seed)).group for seed in range(4)}
    assert found == {0: "a", 1: "b", 2: "a", 3: "b"}


def test_what_the_record_says() -> None:
    ctx = context(Led(all_say("n3", epoch=8)))
    before = LeadDetails(leader_before="n1", term_before=7)
    assert asyncio.run(new_lead(ctx, before, ["n1"])) == {"new_term": 8, "new_leader": "n3"}
    assert asyncio.run(new_lead(context(Led(all_say("n1", epoch=7))), before, ["n1"])) == {}
    assert no_failover(before) == "no new term after 7"
    assert no_failover(LeadDetails(leader_before="n1")) == "nobody else leads than n1"


def test_who_does_not_vote_makes_no_majority() -> None:
    """Four vote, one of them is away: two of three have to name the new one."""
    before = LeadDetails(leader_before="n1")
    two = context(Led(views({"n2": "n4", "n3": "n4", "n4": None, "n5": None})))
    assert asyncio.run(new_lead(two, before, ["n1"])) == {"new_term": None, "new_leader": "n4"}
