"""The rows, lints and rules that a run of our own register cannot turn, turned by plug-ins.

The recorded run is judged again as if its checker or its workload were somebody else's: a checker
of another kind, one that gives up or leaves things out, a workload with other claims and fields.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from real_run import change_events, change_facts, change_record, record_of, unpack
from test_real_run import FAULT, MODEL, NARROW, ORACLE, SMOKE, SURFACE, S, judged, lints, shorts

from dstest.core import registry
from dstest.core.check import Budget, CheckResult, Fields, KeyCount, OpCount
from dstest.core.evidence import Evidence
from dstest.core.history import History
from dstest.core.protocols import Checker
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.judge.audit_rows import ok
from dstest.judge.facts import budgets
from dstest.judge.session import ArmEvidence, judge_session

pytestmark = pytest.mark.slow

Answer = Callable[[CheckResult], CheckResult]


class OtherChecker(Checker):
    """`linearizable` under another kind, with another answer for the history as it is.

    Broken copies get the honest answer, so that only what is asked for is broken.
    """

    def __init__(self, real: Any, kind: str, answer: Answer | None, ops: int) -> None:
        self.name, self.kind, self.models = real.name, kind, real.models
        self._real, self._answer, self._ops = real, answer, ops

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        result = self._real.check(history, model, budget)
        mine = result.valid is True and len(history.ops) == self._ops
        return self._answer(result) if mine and self._answer else result


class OtherWorkload:
    """`register` with other attributes."""

    def __init__(self, real: Any, **changes: Any) -> None:
        self._real = real
        self.__dict__.update(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


Plug = Callable[[RunDir, pytest.MonkeyPatch], None]


def plugged(group: str, name: str, make: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    real = registry.load
    found = make(real(group, name))
    patch.setattr(registry, "load", lambda g, n: found if (g, n) == (group, name) else real(g, n))


def checker(kind: str = "history", answer: Answer | None = None) -> Plug:
    def plug(run: RunDir, patch: pytest.MonkeyPatch) -> None:
        ops = sum(row["invoked"] for row in run.read_json("run.json")["traffic"].values())
        plugged(
            "checkers", "linearizable", lambda real: OtherChecker(real, kind, answer, ops), patch
        )

    return plug


def workload(options: dict[str, Any] | None = None, **changes: Any) -> Plug:
    def plug(run: RunDir, patch: pytest.MonkeyPatch) -> None:
        plugged("workloads", "register", lambda real: OtherWorkload(real, **changes), patch)
        if "claims" in changes:
            change_facts(run, claims=sorted(changes["claims"]))
        if options:
            spec = run.read_json("run.json")["spec"]
            changed = {**spec, "options": {**spec["options"], **options}}
            change_facts(run, spec=changed)

    return plug


def recorded(change: Callable[[list[Any]], Any]) -> Plug:
    return lambda run, _: change_events(run, change)


def result(**changes: Any) -> Answer:
    return lambda given: msgspec.structs.replace(given, **changes)


def boundary(surfaces: dict[str, set[str]], refused: set[str]) -> Plug:
    fields = Fields(
        surfaces={name: frozenset(types) for name, types in surfaces.items()},
        negative_controls=frozenset(refused),
    )
    types = frozenset({"read", "write", "cas"})
    return workload(claims=frozenset({"safety", "boundary"}), fields=fields, op_types=types)


def leader(**facts: Any) -> Plug:
    """The fault was aimed at the leader, and only the final state was judged."""

    def plug(run: RunDir, patch: pytest.MonkeyPatch) -> None:
        checker("final-state")(run, patch)
        change_record(run, facts={"shape": "leader", **facts})

    return plug


def unread(run: RunDir) -> set[int]:
    """Numbers of the writes whose value no read has shown."""
    writes: dict[tuple[Any, Any], int] = {}
    keys: dict[int, Any] = {}
    shown: set[tuple[Any, Any]] = set()

    def look(event: list[Any]) -> Any:
        if event[0] == "i":
            keys[event[1]] = event[5]
            if event[4] == "write":
                writes[event[5], event[6]] = event[1]
        if event[0] == "o":
            shown.add((keys[event[1]], event[3]))
        return event

    change_events(run, look)
    return {number for said, number in writes.items() if said not in shown}


def quiet_node(run: RunDir, _: pytest.MonkeyPatch) -> None:
    """During the fault hardly anybody asks n3 for anything."""
    record = record_of(run)
    free, gone = unread(run), set()

    def drop(event: list[Any]) -> Any:
        within = event[0] == "i" and record["injected_at"] - S < event[3] < record["healed_at"]
        if within and event[7] == "n3" and (event[4] == "read" or event[1] in free):
            gone.add(event[1])
        return None if event[0] in "iofu" and event[1] in gone else event

    change_events(run, drop)


def refusing(run: RunDir, _: pytest.MonkeyPatch) -> None:
    """Five writes that nobody read become compare-and-sets that were refused."""
    made = set(sorted(unread(run))[:5])

    def change(event: list[Any]) -> Any:
        if event[0] == "i" and event[1] in made:
            return [*event[:4], "cas", event[5], [-1, -2], *event[7:]]
        if event[0] in "ofu" and event[1] in made:
            return ["f", event[1], event[2], "refused", event[4], event[5]]
        return event

    change_events(run, change)


def shorter(run: RunDir, _: pytest.MonkeyPatch) -> None:
    """The load ended after 17 seconds."""
    gone: set[int] = set()

    def drop(event: list[Any]) -> Any:
        if event[0] == "i" and event[3] > 17 * S:
            gone.add(event[1])
        return None if event[0] in "iofu" and event[1] in gone else event

    change_events(run, drop)
    change_facts(run, load_end_ns=17 * S)


def both(*plugs: Plug) -> Plug:
    def plug(run: RunDir, patch: pytest.MonkeyPatch) -> None:
        for one in plugs:
            one(run, patch)

    return plug


ALL = {"read": {"read"}, "write": {"write"}, "again": {"read"}}
Case = tuple[Plug, set[str], set[str], State, str]
"""What is plugged in, the rows and lints that must turn, the verdict, its rule."""

CASES: dict[str, Case] = {
    "as it is": (checker(), set(), set(), SMOKE, "V12b"),
    "WO1": (checker("final-state"), {"WO1", "WO5"}, set(), SURFACE, "V12"),
    "WO2": (checker("logs"), {"WO1", "WO2", "WO5"}, set(), SURFACE, "V12"),
    "WO3": (checker("health"), {"WO1", "WO3", "WO5"}, set(), SURFACE, "V12"),
    "WO4": (leader(), {"WO1", "WO4", "WO5"}, set(), SURFACE, "V12"),
    "WO5": (checker("no-error"), {"WO1", "WO5"}, set(), SURFACE, "V12"),
    "RF1 type": (boundary(ALL, {"cas"}), {"RF1", "WO13"}, set(), ORACLE, "V10"),
    "WO12 and WO13": (
        both(refusing, boundary({"read": {"read"}, "scan": {"scan"}}, {"scan"})),
        {"WO12", "WO13"},
        set(),
        MODEL,
        "V12",
    ),
    "WO13": (both(refusing, boundary(ALL, {"scan"})), {"WO13"}, set(), MODEL, "V12"),
    "WO13 not refused": (
        both(refusing, boundary(ALL, {"read"})),
        {"WO12", "WO13"},
        set(),
        MODEL,
        "V12",
    ),
    "boundary": (
        both(refusing, boundary(ALL, {"cas"})),
        set(),
        set(),
        SMOKE,
        "V12b",
    ),
    "WO14": (
        workload(claims=frozenset({"safety", "fairness"})),
        {"WO14"},
        set(),
        MODEL,
        "V12",
    ),
    "H11": (workload(op_types=frozenset({"read"})), set(), {"H11"}, ORACLE, "V08"),
    "H12 no version": (workload(fields=Fields(family="session")), set(), {"H12"}, ORACLE, "V08"),
    "H12 no delta": (workload(fields=Fields(family="counter")), set(), {"H12"}, ORACLE, "V08"),
    "H12 no offset": (workload(fields=Fields(family="log")), set(), {"H12"}, ORACLE, "V08"),
    "H12 clock": (
        workload({"ttl_s": 1e-9}, fields=Fields(family="lease", ttl_option="ttl_s")),
        set(),
        {"H12"},
        ORACLE,
        "V08",
    ),
    "H13": (
        workload(fields=Fields(idempotency_field="id")),
        set(),
        {"H13"},
        ORACLE,
        "V08",
    ),
    "H17": (
        checker(answer=result(ops=OpCount(total=2591, consumed=2000))),
        set(),
        {"H17"},
        MODEL,
        "V09",
    ),
    "V13": (shorter, {"RF6"}, set(), MODEL, "V13"),
    "H18": (quiet_node, {"RF3", "RF6"}, {"H18"}, FAULT, "V06"),
    "V07": (
        checker(answer=result(valid="unknown", ops=OpCount())),
        {"RF2", "WO1", "WO5"},
        {"H17"},
        SURFACE,
        "V07",
    ),
    "V08": (checker(answer=result(valid="unknown", reason="gave up")), set(), set(), ORACLE, "V08"),
    "V09": (
        checker(answer=result(keys=KeyCount(total=9, decided=8, undecided=["k"]))),
        {"RF2"},
        set(),
        MODEL,
        "V09",
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return unpack(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_what_a_plug_in_turns(name: str, run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    plug, rows, wrong, state, rule = CASES[name]
    plug(run, monkeypatch)
    verdict = judged(run)
    assert (verdict.verdict, verdict.rule) == (state, rule), verdict.reason
    assert shorts(verdict.evidence) == NARROW | rows
    assert lints(verdict.evidence) | set(verdict.evidence.history_lint.warning) == wrong


def test_arms_that_were_run_under_other_conditions_are_not_counted_together(run: RunDir) -> None:
    """RF9, and a session's best: V15 needs arms that are alike."""
    one = judged(run).evidence
    enough = {"duration_s": 305.0, "faults": 12.0, "ops": 30_000.0, "nodes": 5.0}
    good = msgspec.structs.replace(
        one,
        weak_audit={**one.weak_audit, "WO6": ok("long enough"), "WO7": ok("one way as well")},
        budget=budgets({**one.budget.measured, **enough}, nemesis=True),
    )
    like = dict.fromkeys(
        ("dstest", "python", "kernel", "cpus", "system_version", "options", "plugin_files"), 1
    )

    def arms(evidence: Evidence, **other: int) -> list[ArmEvidence]:
        return [
            ArmEvidence(
                id=f"n{nodes}-s{seed}",
                seed=seed,
                nodes=nodes,
                alone=SMOKE,
                evidence=evidence,
                conditions={**like, **(other if seed == 3 else {})},
            )
            for nodes, seed in ((5, 1), (5, 2), (5, 3), (3, 1))
        ]

    best = judge_session(arms(good), "hardening")
    assert {a.rule for a in best.arms} == {"V15"} and best.state is State.PASS_HARDENING
    short = msgspec.structs.replace(good, budget=one.budget)
    assert {a.rule for a in judge_session(arms(short), "smoke").arms} == {"V14"}
    unlike = judge_session(arms(good, kernel=2), "hardening")
    assert unlike.state is ORACLE and "RF9" in unlike.arms[0].reason
