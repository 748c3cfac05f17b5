"""Faults that reach into the system, without a cluster: plans, and what counts as landed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from third_party import context

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from nemeses.member import backup, bitflip, compaction, config, credentials, membership, versions
from nemeses.member.membership import incomplete
from nemeses.observe.processes import ProcessSnapshot

NODES = ["n1", "n2", "n3", "n4", "n5"]
EACH = (
    compaction.NEMESIS, membership.NEMESIS, config.NEMESIS, bitflip.NEMESIS, credentials.NEMESIS,
    backup.NEMESIS, versions.MIXED, versions.UPGRADE,
)  # fmt: skip


def record(nemesis: str, targets: list[str], **facts: Any) -> LandingRecord:
    return LandingRecord(
        fault_id="f1", nemesis=nemesis, targets=targets, scheduled_at=0, epoch="f1", facts=facts
    )


def options(nemesis: Any, **given: Any) -> dict[str, Any]:
    own = {key: option.default for key, option in nemesis.options.items()}
    return {**own, "auth": True, "targets": "", **given}


@pytest.mark.parametrize("nemesis", EACH, ids=lambda nemesis: nemesis.name)
def test_plans_come_from_the_seed(nemesis: Any) -> None:
    given = options(nemesis, other_build=str(Path(__file__)))
    plans = nemesis.plan(random.Random(3), NODES, 100.0, given)
    assert plans == nemesis.plan(random.Random(3), NODES, 100.0, given)
    assert len(plans) == (1 if nemesis.name == "upgrade" else 9)
    scopes = {plan.facts["scope"] for plan in plans}
    assert scopes <= {"one", "all", "minority", "primaries"}


def test_options_of_another_nemesis_do_not_change_the_scope() -> None:
    given = {**options(compaction.NEMESIS), "scope": "random", "targets": "n2"}
    plans = compaction.NEMESIS.plan(random.Random(3), NODES, 60.0, given)
    assert {plan.facts["scope"] for plan in plans} == {"all"}


def test_what_cannot_be_is_refused_before_a_node_exists() -> None:
    with pytest.raises(ConfigError, match="tokens"):
        credentials.NEMESIS.plan(
            random.Random(1), NODES, 60.0, options(credentials.NEMESIS) | {"auth": False}
        )
    for path in ("", "/no/such/build"):
        with pytest.raises(ConfigError, match="second build"):
            versions.MIXED.plan(
                random.Random(1), NODES, 60.0, options(versions.MIXED, other_build=path)
            )


BEFORE = {key: {"runs": 1, "dropped": 5, "revision": 9} for key in NODES}
AFTER = {key: {"runs": 2, "dropped": 25, "revision": 90} for key in NODES}


@pytest.mark.parametrize(
    ("now", "reads", "served", "moved"),
    [
        (AFTER, "compacted", 7, True),
        (AFTER, "served", 7, False),
        (AFTER, "compacted", 0, False),
        (BEFORE, "compacted", 7, False),
        ({**AFTER, "n3": None}, "compacted", 7, False),
    ],
    ids=["all", "still served", "nobody read", "nothing dropped", "one is mute"],
)
def test_what_counts_as_compaction(now: Any, reads: str, served: int, moved: bool) -> None:
    facts = {
        "compactions_before": BEFORE,
        "old_reads_before": dict.fromkeys(NODES, "served"),
        "served_meanwhile": dict.fromkeys(NODES, served) if served else {},
    }
    assert compaction._victim(facts, now, dict.fromkeys(NODES, reads)).moved is moved


def test_a_compaction_of_what_was_not_served_before_does_not_count() -> None:
    facts = {
        "compactions_before": BEFORE,
        "old_reads_before": {**dict.fromkeys(NODES, "served"), "n2": "compacted"},
        "served_meanwhile": dict.fromkeys(NODES, 7),
    }
    assert not compaction._victim(facts, AFTER, dict.fromkeys(NODES, "compacted")).moved


FIVE = {str(i): [f"n{i}", False] for i in range(1, 6)}
FOUR = {i: row for i, row in FIVE.items() if i != "2"}
GONE = ProcessSnapshot(lost=(100,))
RUNS = ProcessSnapshot(left=(100,), listening=frozenset({100}))


@pytest.mark.parametrize(
    ("listed", "sight", "moved"),
    [
        (dict.fromkeys(["n1", "n3", "n4", "n5"], FOUR), GONE, True),
        (dict.fromkeys(["n1", "n3", "n4", "n5"], FOUR), RUNS, False),
        ({**dict.fromkeys(["n1", "n3", "n4"], FOUR), "n5": FIVE}, GONE, False),
        ({**dict.fromkeys(["n1", "n3", "n4"], FOUR), "n5": None}, GONE, False),
    ],
    ids=["removed", "still serves", "one lists it", "one is mute"],
)
def test_what_counts_as_removed(listed: Any, sight: ProcessSnapshot, moved: bool) -> None:
    hit = record(
        "membership",
        ["n2"],
        pids={"n2": [100, 7]},
        processes={"n2": [["etcd", 100, 7, True]]},
        listening_before={"n2": [100]},
        members_before=dict.fromkeys(NODES, FIVE),
        members={"n2": None, **listed},
    )
    assert membership.removed_signal(hit, {"n2": (sight, sight)}).moved is moved


def test_what_a_whole_cluster_lists() -> None:
    assert incomplete({"n1": FIVE}, NODES) == []
    assert incomplete({"n1": None}, NODES)
    assert incomplete({"n1": FOUR}, NODES)
    assert incomplete({"n1": {**FOUR, "6": ["", False]}}, NODES)
    assert "learner" in incomplete({"n1": {**FOUR, "6": ["n2", True]}}, NODES)[0]


@pytest.mark.parametrize(
    ("was", "now", "moved"),
    [
        ("", "refused: too many operations in txn request", True),
        ("", "", False),
        ("refused: too many", "refused: too many", False),
        ("", "no answer: Deadline Exceeded", False),
    ],
    ids=["refuses", "takes it", "refused before", "is mute"],
)
def test_what_counts_as_other_settings(was: str, now: str, moved: bool) -> None:
    takes = dict.fromkeys(NODES, "")
    hit = record(
        "config", ["n2"], refusals_before={**takes, "n2": was}, refusals={**takes, "n2": now}
    )
    assert config._victim(hit, "a request").moved is moved


def flipped(now: str, what: str = "log") -> dict[str, Any]:
    row = {"offset": 8, "old": "61", "new": "60", "now": now}
    return {"n2": {"what": what, "path": "/data/0.wal", "bytes": [row]}}


def test_what_counts_as_flipped() -> None:
    assert bitflip._injector(flipped("60")).moved
    assert not bitflip._injector(flipped("61")).moved
    assert not bitflip._injector({"n2": {}}).moved
    assert bitflip._injector(flipped("62", "store")).moved, "the server may move what it keeps"


@pytest.mark.parametrize(
    ("counts", "looks"),
    [([5, 5, 6, 7, 8], 4), ([5, None, 9], 3), ([5] * 9, 9)],
    ids=["second commit", "mute", "never"],
)
def test_a_value_is_in_the_file_after_the_second_commit(
    monkeypatch: pytest.MonkeyPatch, counts: list[int | None], looks: int
) -> None:
    left, asked = list(counts), []

    async def commits() -> dict[str, int | None]:
        asked.append(left[0])
        return {"n1": 0, "n2": left.pop(0)}

    clock = SimpleNamespace(now_ns=lambda: len(asked) * 10**9 * 3 // 9)
    ctx = context(SimpleNamespace(store_commits=commits), clock=clock)
    monkeypatch.setattr(bitflip, "STORED_S", 2.5)
    asyncio.run(bitflip._in_the_file(ctx, ["n2"]))
    assert len(asked) == looks


CUT = {
    "what": "tail", "path": "/data/0.wal", "size": 9000, "end": 800, "at": 500, "last": 90,
    "kept": 40, "sha256": "aa", "cut_off_sha256": "bb", "size_now": 500, "end_now": 490,
    "last_now": 40, "sha256_now": "cc", "member": "17",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "applied", "starts", "injector", "victim"),
    [
        ({}, 88, [40, 95], True, True),
        ({"at": 800, "kept": 90}, 88, [90], False, False),
        ({"at": 780, "kept": 90}, 88, [90], False, False),
        ({"sha256_now": "aa"}, 88, [40], False, True),
        (None, 88, [91], False, False),
        (None, 88, [40], False, False),
        ({}, 88, [], True, False),
        ({}, None, [40], True, False),
        ({}, 30, [40], True, False),
    ],
    ids=[
        "cut", "zeros", "no entry", "as before", "only restarted", "no state", "mute",
        "unknown before", "not behind",
    ],
)  # fmt: skip
def test_what_counts_as_a_cut_log(
    change: Any, applied: int | None, starts: list[int], injector: bool, victim: bool
) -> None:
    states = {"n2": {} if change is None else {**CUT, **change}}
    lines: dict[str, list[str]] = {key: [] for key in NODES}
    hit = record(
        "bit-flip", ["n2"], applied_before={"n2": applied}, starts={"n2": starts},
        corruption_lines=lines,
    )  # fmt: skip
    assert bitflip.tail_injector(hit, states).moved is injector
    assert bitflip.tail_victim(hit, states).moved is victim


def test_what_a_member_has_back_that_forgot() -> None:
    back = {**CUT, "put_back": True, "sha256_now": "aa"}
    assert bitflip.not_back("n2", back, {}) == []
    assert bitflip.not_back("n2", {**back, "sha256_now": "cc"}, {})
    new: Any = {"n1": FIVE}
    other = {**CUT, "put_back": False}
    assert bitflip.not_back("n2", other, new) == []
    assert bitflip.not_back("n2", other, {"n1": {**FIVE, "11": ["n2", False]}})


def test_the_logs_of_two_members_are_not_cut_at_once() -> None:
    given = {**options(bitflip.NEMESIS, what="tail"), "targets": "n1,n2"}
    with pytest.raises(ConfigError, match="several"):
        bitflip.NEMESIS.plan(random.Random(1), NODES, 60.0, given)
    with pytest.raises(ConfigError, match="several"):
        bitflip.NEMESIS.plan(random.Random(1), NODES[:2], 60.0, {**given, "targets": ""})
    assert bitflip.NEMESIS.plan(random.Random(1), NODES, 60.0, {**given, "targets": "n1"})
    assert bitflip.NEMESIS.plan(random.Random(1), NODES, 60.0, {**given, "what": "log"})


RESTORED = {"copies": {"n2": "aa"}, "stores": {"n2": ("bb", "aa")}, "applied_before": {"n2": 90}}


@pytest.mark.parametrize(
    ("change", "starts", "injector", "victim"),
    [
        ({}, [40], True, True),
        ({"stores": {"n2": ("aa", "aa")}}, [40], False, True),
        ({"stores": {"n2": ("bb", "bb")}}, [40], False, True),
        ({"stores": {}}, [40], False, True),
        ({}, [90], True, False),
        ({}, [], True, False),
    ],
    ids=["went back", "same before", "another store", "nothing", "not behind", "mute"],
)
def test_what_counts_as_a_restore(
    change: Any, starts: list[int], injector: bool, victim: bool
) -> None:
    hit = record(
        "backup", ["n2"], scope="one", restore={**RESTORED, **change}, starts={"n2": starts}
    )
    assert backup._injector(hit).moved is injector
    assert backup._victim(hit).moved is victim


def test_a_rollback_of_all_shows_in_the_revision() -> None:
    for revision, moved in ((50, True), (70, False)):
        found = {**RESTORED, "revisions_before": {"n2": 70}, "revisions": {"n2": revision}}
        hit = record("backup", ["n2"], scope="all", restore=found, starts={"n2": [40]})
        assert backup._victim(hit).moved is moved


def test_an_upgrade_goes_member_by_member() -> None:
    steps = [
        {"node": "n1", "versions": {"n1": "2", "n2": "1"}},
        {"node": "n2", "versions": {"n1": "2", "n2": "2"}},
    ]
    assert versions.one_by_one(record("upgrade", ["n1", "n2"], other="2", steps=steps)) == []
    at_once = [steps[1], steps[1]]
    assert versions.one_by_one(record("upgrade", ["n1", "n2"], other="2", steps=at_once))
