"""Workloads of single objects: streams by seed, what processes do next, the final phase."""

from __future__ import annotations

from typing import Any

import pytest

from dstest.core import registry
from dstest.core.protocols import Answer, Finishing, OpDraft, Reactive
from workloads.queue import GIVEN_BACK_S

NAMES = [
    *(
        "append-log",
        "bank",
        "bank-replicas",
        "boundary",
        "causal",
        "counter",
        "lease",
        "ledger",
        "lock",
        "long-fork",
    ),
    *(
        "critical-section",
        "queue",
        "revisions",
        "session",
        "set",
        "tenants",
        "unique-ids",
        "watch",
        "work-queue",
    ),
]


def made(name: str, seed: int = 3, worker: int = 1, **given: Any) -> Any:
    workload = registry.load("workloads", name)
    options = {key: option.default for key, option in workload.options.items()}
    return workload.generator(seed, worker, 10, options | given)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_stream_of_known_operations(name: str) -> None:
    workload = registry.load("workloads", name)
    one, two, other = made(name), made(name), made(name, worker=2)
    drafts = [one.next() for _ in range(2000)]
    assert drafts == [two.next() for _ in range(2000)]
    assert {draft.op_type for draft in drafts} <= workload.op_types
    assert set(workload.minimum) <= workload.op_types
    keys = {draft.key for draft in drafts} - {None}
    assert keys.isdisjoint({other.next().key for _ in range(500)}), "a key belongs to one worker"
    system = registry.load("systems", "etcd")
    assert workload.capability in system.capabilities
    for checker in workload.checkers:
        assert registry.load("checkers", checker).name == checker


def test_who_holds_a_lock_releases_it() -> None:
    generator = made("lock")
    assert isinstance(generator, Reactive)
    first = generator.next_for(0, None)
    assert first.op_type == "acquire"
    got = generator.next_for(0, Answer(first, "ok", {"token": 5}))
    assert (got.op_type, got.key) == ("release", first.key)
    assert generator.next_for(0, Answer(first, "ok", False)).op_type == "acquire"
    assert generator.next_for(0, Answer(first, "unknown")).op_type == "acquire"
    assert generator.next_for(0, Answer(got, "ok")).op_type == "acquire"


def test_who_is_in_a_critical_section_is_busy_for_a_while_and_releases_then() -> None:
    generator = made("critical-section")
    assert isinstance(generator, Reactive)
    first = generator.next_for(0, None)
    assert (first.op_type, first.after_ns) == ("acquire", 0)
    held = [generator.next_for(0, Answer(first, "ok", {"token": 5})) for _ in range(200)]
    assert {(draft.op_type, draft.key) for draft in held} == {("release", first.key)}
    busy_ms = [draft.after_ns / 1e6 for draft in held]
    assert 0 <= min(busy_ms) < 100
    assert 900 < max(busy_ms) < 1000


def test_a_watcher_goes_on_where_it_stopped() -> None:
    generator = made("watch")
    first = generator.next_for(0, None)
    assert (first.op_type, first.input) == ("watch", {"from": 1})
    second = generator.next_for(0, Answer(first, "ok", {"events": [], "to": 41}))
    assert second.input == {"from": 42}
    assert generator.next_for(0, Answer(second, "unknown")).input == {"from": 42}
    assert generator.final(0, None).input == {"from": 1, "until_now": True}
    final = generator.final(2, None)
    assert final.input == {"from": 42, "until_now": True}
    assert generator.final(2, Answer(final, "unknown")) == final
    assert generator.final(2, Answer(final, "ok", {"events": [], "to": 50})) is None


def test_queues_are_drained_at_the_end() -> None:
    generator = made("queue")
    assert isinstance(generator, Finishing)
    last, seen = None, []
    while (draft := generator.final(0, last)) is not None:
        seen.append(draft)
        last = Answer(draft, "ok", 7 if len(seen) == 1 else None)
    assert len(seen) == 5
    assert len({draft.key for draft in seen}) == 4


def test_what_failed_takers_held_is_waited_for_once() -> None:
    generator = made("work-queue")
    waits = []
    for node in (0, 1):
        last = None
        while (draft := generator.final(node, last)) is not None:
            waits.append(draft.after_ns)
            last = Answer(draft, "unknown" if len(waits) == 1 else "ok")
    assert waits == [int(GIVEN_BACK_S * 1e9)] + [0] * 8


def test_letters_on_their_way_are_waited_for_once_before_they_are_collected() -> None:
    generator = made("dead-letters")
    waits = []
    for node in (0, 1):
        last = None
        while (draft := generator.final(node, last)) is not None:
            waits.append((draft.op_type, draft.after_ns))
            last = Answer(draft, "unknown" if len(waits) == 5 else "ok")
    assert [kind for kind, _ in waits] == [
        *(["dequeue"] * 4 + ["collect"] * 5),
        *(["dequeue"] * 4 + ["collect"] * 4),
    ]
    assert [at for at, (_, ns) in enumerate(waits) if ns] == [4]
    # RabbitMQ sends again what nobody confirmed within 5 s.
    assert waits[4][1] > 5e9


def test_final_reads_are_asked_again_until_they_succeed() -> None:
    generator = made("bank-replicas")
    draft = generator.final(0, None)
    assert draft == OpDraft("read", None)
    assert generator.final(0, Answer(draft, "unknown")) == draft
    assert generator.final(0, Answer(draft, "fail")) == draft
    dump = generator.final(0, Answer(draft, "ok", {}))
    assert dump == OpDraft("dump", None)
    assert generator.final(0, Answer(dump, "fail")) == dump
    assert generator.final(0, Answer(dump, "ok", {})) == dump
    assert generator.final(0, Answer(dump, "ok", {})) is None
    assert generator.final(1, None) == draft


def test_a_payment_is_tried_again_until_it_ends_well_and_sometimes_after() -> None:
    generator = made("ledger")
    first = generator.next_for(0, None)
    assert generator.next_for(0, Answer(first, "unknown")) == first
    assert generator.next_for(0, Answer(first, "fail")) == first
    drafts = [generator.next_for(0, Answer(first, "ok")) for _ in range(2000)]
    ids = [draft.input["id"] for draft in drafts]
    assert 0.15 < 1 - len(set(ids)) / len(ids) < 0.25
    assert len({(draft.key, draft.input["id"]) for draft in drafts}) == len(set(ids))
    assert {generator.final(0, None).op_type, generator.final(3, None).op_type} == {"audit"}


def test_a_log_is_polled_to_its_end_page_after_page() -> None:
    generator = made("append-log")
    draft = generator.final(0, None)
    full = {"records": [[n, n] for n in range(500)], "to": 499}
    again = generator.final(0, Answer(draft, "ok", full))
    assert (again.key, again.input["from"]) == (draft.key, 500)
    after = generator.final(0, Answer(again, "ok", {"records": [], "to": 600}))
    assert after is None or after.key != draft.key


@pytest.mark.parametrize("arrival_s", [0.0, 2.5, 60.0])
def test_the_first_of_the_last_collects_waits_as_long_as_the_run_says(arrival_s: float) -> None:
    generator = made("dead-letters", keys=2, arrival_s=arrival_s)
    drafts, last = [], None
    while (draft := generator.final(0, last)) is not None:
        drafts.append(draft)
        last = Answer(draft, "ok", None)
    collects = [draft for draft in drafts if draft.op_type == "collect"]
    assert [draft.after_ns for draft in collects] == [int(arrival_s * 1e9), 0]
    assert generator.final(1, None).after_ns == 0


@pytest.mark.parametrize("name", ["queue", "work-queue", "dead-letters"])
def test_queues_of_thousands_are_emptied_at_the_end(name: str) -> None:
    assert registry.load("workloads", name).final_s >= 120


def test_a_key_lives_for_one_operation_and_history_ends_with_a_deletion() -> None:
    generator = made("revisions", compact_every=4)
    drafts = [generator.next().input for _ in range(8)]
    assert drafts[:4] == [
        {"put": "1-1"},
        {"delete": "1-1"},
        {"put": "1-2"},
        {"delete": "1-2", "compact": True},
    ]
    assert [draft.get("compact", False) for draft in drafts[4:]] == [False, False, False, True]
