"""Raft as toykv does it: explored, and held against what its servers have written down."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest
from raft_by_hand import counted

from dstest.sim.simulate import sim_spec_of, simulate
from dstest.sim.world import Profile, kinds_of
from dstest.spec.compose import load, of_logs
from dstest.spec.conform import conform_log
from dstest.spec.conformance import ConformResult
from dstest.spec.explore import explore, walk
from dstest.spec.mapping import Event
from dstest.spec.merge import merge
from dstest.spec.model import Model

pytestmark = pytest.mark.slow

FILE = "protocol.jsonl"


@pytest.mark.timeout(600)  # on a busy host
@pytest.mark.parametrize(
    ("servers", "terms", "length", "states", "steps"),
    [
        (1, 1, 2, 39, 204),
        pytest.param(4, 1, 1, 1314, 16412, marks=pytest.mark.long),
        (2, 1, 2, 286, 2664),
        (3, 1, 1, 329, 3225),
        (2, 2, 1, 333, 2176),
        (1, 2, 2, 485, 2665),
        pytest.param(2, 2, 2, 28381, 289570, marks=pytest.mark.long),
    ],
)
def test_all_states_and_another_count_of_them(
    servers: int, terms: int, length: int, states: int, steps: int, record_property: Any
) -> None:
    names = tuple(range(1, servers + 1))
    model = load("raft", [f"servers={names}", f"terms={terms}", f"length={length}"])
    said = explore(model)
    assert (said.outcome, said.states, said.steps) == ("holds", states, steps)
    assert counted(servers, terms, length) == (states, steps)
    bounds = f"{servers} servers, {terms} terms, {length} entries"
    record_property("shown", f"{bounds}: {states} states, {steps} steps, also counted by hand")


@pytest.mark.parametrize(
    ("servers", "terms", "length", "action"),
    [
        (1, 1, 1, "lead"),
        (2, 1, 2, "commit"),
        pytest.param(2, 2, 1, "lead", marks=pytest.mark.long),
        pytest.param(4, 1, 1, "lead", marks=pytest.mark.long),
    ],
)
def test_bounds_in_which_nobody_comes_to_lead_or_commit_do_not_hold(
    servers: int, terms: int, length: int, action: str
) -> None:
    names = tuple(range(1, servers + 1))
    model = load("raft", [f"servers={names}", f"terms={terms}", f"length={length}"])
    assert explore(model).outcome == "holds"
    never = tuple(
        msgspec.structs.replace(one, choices=lambda s: ()) if one.name == action else one
        for one in model.actions
    )
    said = explore(msgspec.structs.replace(model, actions=never))
    assert [one.id for one in said.violations] == ["RF9"]


WITHOUT = (
    ("vote", "sub:election.one vote", "RF2"),
    ("vote", "sub:log.not behind", "RF5"),
    ("lead", "sub:election.granted", "RF1"),
    ("lead", "sub:log.most voters", "RF1"),
    ("commit", "sub:log.most voters", "RF5"),
    ("commit", "sub:log.of its term", "RF5"),
    ("accept", "sub:log.as sent", "RF4"),
    ("accept", "sub:log.only what differs goes", "RF7"),
    ("ack", "sub:log.as sent", "RF5"),
    ("learn", "sub:log.as sent", "RF7"),
    ("learn_term", "sub:election.newer", "RF3"),
)
"""An action, a rule of it, and what is violated without that."""

WEIGHTS = {"start": 0.3, "learn_term": 0.5, "resign": 0.2, "apply": 0.3, "campaign": 0.5}


def bypassed(model: Model, action: str, guard: str) -> Model:
    """The model without one rule."""
    assert any(guard == one.label for one in model.action(action).guards)
    actions = tuple(
        msgspec.structs.replace(one, guards=tuple(g for g in one.guards if g.label != guard))
        if one.name == action
        else one
        for one in model.actions
    )
    return msgspec.structs.replace(model, actions=actions)


def three() -> Model:
    return load("raft", ["servers=(1, 2, 3)", "terms=3", "length=3"])


@pytest.mark.parametrize(("action", "guard", "invariant"), WITHOUT)
@pytest.mark.sampled(4)
def test_a_rule_that_is_bypassed_breaks_what_raft_promises(
    action: str, guard: str, invariant: str
) -> None:
    model = bypassed(three(), action, guard)
    said = walk(model, seed=1, walks=60, max_steps=60, weights=WEIGHTS)
    assert [one.id for one in said.violations] == [invariant]


def test_walks_of_three_servers_and_three_terms_hold() -> None:
    said = walk(three(), seed=1, walks=30, max_steps=60, weights=WEIGHTS)
    assert (said.violations, said.never_taken) == ([], [])


@cache
def events(bug: str, workload: str, faults: str, seed: int, time_s: float) -> tuple[Event, ...]:
    """What the servers of a simulation have written, merged."""
    wanted = sim_spec_of(
        "toykv",
        workload,
        [f"bug={bug}"],
        hosts=5 if bug == "split-brain-write" else 3,
        time_s=time_s,
        profile=Profile(kinds=kinds_of(faults)),
    )
    done = simulate(wanted, seed)
    assert done.landed or faults == "none"
    made = merge({name: files[FILE].encode() for name, files in done.notes.items()})
    assert (made.left_out, made.damaged) == ({}, {})
    return tuple(made.events)


def conformed(rows: tuple[Event, ...] | list[Event], model: Model | None = None) -> ConformResult:
    return conform_log(model or of_logs(load("raft")), rows)


@pytest.mark.parametrize("faults", ["partition", "kill", "pause", "power", "partition,kill,pause"])
@pytest.mark.sampled(2)
def test_what_has_no_bug_is_accepted(faults: str) -> None:
    rows = events("none", "register", faults, 1, 8.0)
    said = conformed(rows)
    assert (said.verdict, said.consumed) == ("accept", len(rows))
    assert said.swap is not None
    assert len(rows) > 300


PLANTED = (
    ("acknowledged-before-replicated", "set", "partition", "sub:log.most voters", "commit"),
    ("split-brain-write", "register", "partition", "sub:log.most voters", "commit"),
    ("membership-double-entry", "set", "kill", "sub:log.most voters", "commit"),
    ("lost-update-on-heal", "set", "partition,kill,pause", "sub:log.not behind", "vote"),
    ("unsynced-loss", "set", "power", "sub:log.promise kept", "start"),
    ("replica-divergence", "bank-replicas", "kill,partition", "sub:log.same answers", "apply"),
    ("duplicate-on-retry-after-restart", "ledger", "kill", "sub:log.same answers", "apply"),
)
"""Bug, workload, faults, the rule that is broken, and by which line."""


@pytest.mark.parametrize(("bug", "workload", "faults", "rule", "kind"), PLANTED)
@pytest.mark.sampled(4)
def test_a_planted_bug_is_rejected_by_its_rule(
    bug: str, workload: str, faults: str, rule: str, kind: str, record_property: Any
) -> None:
    for seed in range(1, 16):
        rows = events(bug, workload, faults, seed, 15.0)
        said = conformed(rows)
        if said.verdict == "accept":
            continue
        assert (said.verdict, {one.by for one in said.refusals}) == ("reject", {rule})
        assert said.index is not None and rows[said.index].kind == kind
        record_property("shown", f"{bug}: {kind} is refused by {rule.removeprefix('sub:')}")
        return
    pytest.fail("accepted in each of 15 seeds")


UNSEEN = (
    ("stale-follower-read", "register", "partition"),
    ("sequence-reuse", "unique-ids", "kill"),
    ("lease-overlap-under-pause", "lease", "pause"),
    ("dirty-read", "bank", "none"),
    ("reorder-in-queue", "queue", "kill"),
)
"""Bugs in what a server answers, or in what it proposes: no step of election and log is wrong."""


@pytest.mark.parametrize(("bug", "workload", "faults"), UNSEEN)
@pytest.mark.sampled(1)
def test_a_bug_of_what_is_answered_is_not_seen(bug: str, workload: str, faults: str) -> None:
    assert conformed(events(bug, workload, faults, 1, 6.0)).verdict == "accept"


def plain() -> list[Event]:
    return list(events("none", "register", "kill", 1, 8.0))


def test_a_swapped_pair_is_rejected_at_its_index() -> None:
    """A leader's append and the first line that comes from it, wherever they stand."""
    rows = plain()
    appends = [n for n, one in enumerate(rows) if one.kind == "append"]
    for at in appends[:: len(appends) // 5]:
        index = rows[at].fields["index"]
        other = next(
            n
            for n in range(at + 1, len(rows))
            if rows[n].kind == "accept" and rows[n].fields["first"] == index
        )
        changed = [*rows]
        changed[at], changed[other] = rows[other], rows[at]
        said = conformed(changed)
        assert (said.verdict, said.index) == ("reject", at)


def starts(rows: list[Event]) -> list[int]:
    return [n for n, one in enumerate(rows) if one.kind == "start" and n > 10]


def test_a_last_line_that_a_crash_took_is_forgiven() -> None:
    """Each kind of step that nobody else has seen: then only the start tells of it."""
    for kind in ("accept", "vote", "term", "append"):
        rows = plain()
        again, last = crashed_after(rows, kind)
        del rows[last]
        said = conformed(rows[: again + 400])
        assert said.verdict in ("accept", "vacuous"), (kind, said.record, said.refusals)


def crashed_after(rows: list[Event], kind: str) -> tuple[int, int]:
    """A log in which a server dies with a step of this kind as its last, which has reached nobody:
    its start, and that step."""
    at = next(
        n
        for n, one in enumerate(rows)
        if one.kind == kind and not (kind == "term" and rows[n + 1].kind == "resign")
    )
    server = rows[at].fields["server"]
    del rows[at + 1 :]
    mine = [one for one in rows if one.fields["server"] == server]
    term, vote, log = 0, None, dict[int, Any]()
    for one in mine:
        f = one.fields
        if one.kind == "term":
            term, vote = f["term"], None
        elif one.kind == "campaign":
            term, vote = f["term"], server
        elif one.kind == "vote":
            vote = f["candidate"]
        elif one.kind in ("start", "accept"):
            log |= dict(enumerate(f["rows"], f["first"]))
        elif one.kind == "append":
            log[f["index"]] = f["row"]
    back = {"at": "x:1", "server": server, "term": term, "vote": vote, "first": 1}
    rows.append(Event("start", {**back, "rows": list(log.values())}))
    return len(rows) - 1, at


def edited(given: list[Event], at: int, **fields: Any) -> list[Event]:
    changed = Event(given[at].kind, {**given[at].fields, **fields})
    return [*given[:at], changed, *given[at + 1 :]]


def nth(rows: list[Event], kind: str, after: int = 0) -> int:
    return next(n for n, one in enumerate(rows) if n > after and one.kind == kind)


def lost_promise(rows: list[Event]) -> tuple[list[Event], int]:
    at = starts(rows)[0]
    return edited(rows, at, first=1, rows=rows[0].fields["rows"]), at


def early_commit(rows: list[Event]) -> tuple[list[Event], int]:
    at = nth(rows, "commit", 200)
    before = nth(rows, "append", at - 200)
    index = rows[before].fields["index"]
    return [*rows[: before + 1], edited(rows, at, index=index)[at], *rows[before + 1 :]], before + 1


def other_mark(rows: list[Event]) -> tuple[list[Event], int]:
    at = nth(rows, "accept", 200)
    term, _, *more = rows[at].fields["rows"][0]
    return edited(rows, at, rows=[[term, "0", *more], *rows[at].fields["rows"][1:]]), at


def not_asked(rows: list[Event]) -> tuple[list[Event], int]:
    at = nth(rows, "vote")
    return edited(rows, at, last=[0, 2]), at


def few_votes(rows: list[Event]) -> tuple[list[Event], int]:
    at = nth(rows, "lead")
    return edited(rows, at, votes=[rows[at].fields["server"]]), at


def other_answer(rows: list[Event]) -> tuple[list[Event], int]:
    at = [n for n, one in enumerate(rows) if one.kind == "apply"][10]
    return edited(rows, at, sums=[0 for _ in rows[at].fields["sums"]]), at


CANARIES: tuple[tuple[str, str, Callable[[list[Event]], tuple[list[Event], int]]], ...] = (
    ("start", "sub:log.promise kept", lost_promise),
    ("commit", "sub:log.most voters", early_commit),
    ("accept", "sub:log.as sent", other_mark),
    ("vote", "sub:log.asked", not_asked),
    ("lead", "sub:log.most voters", few_votes),
    ("apply", "sub:log.same answers", other_answer),
)


@pytest.mark.parametrize(("action", "rule", "spoil"), CANARIES)
def test_a_rule_that_is_bypassed_is_told_by_its_canary(
    action: str, rule: str, spoil: Callable[[list[Event]], tuple[list[Event], int]]
) -> None:
    """A log with one thing wrong is rejected there, by the rule; and not by a model without it."""
    rows, at = spoil(plain())
    said = conformed(rows)
    assert (said.verdict, said.index) == ("reject", at)
    assert {one.by for one in said.refusals} == {rule}
    without = conformed(rows, bypassed(of_logs(load("raft")), action, rule))
    assert without.index != at or {one.by for one in without.refusals} != {rule}


def test_nothing_could_be_rejected_without_rules() -> None:
    model = of_logs(load("raft"))
    bare = tuple(msgspec.structs.replace(one, guards=()) for one in model.actions)
    said = conformed(plain(), msgspec.structs.replace(model, actions=bare, invariants=()))
    assert said.verdict == "vacuous"
