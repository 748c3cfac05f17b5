"""Our own code with one piece switched off: of the checkers the same run catches it, of the judge
these tests do.

A clean run, recorded and judged by the functions of a real run, is a pass with everything in place,
and none with a piece of its checkers gone. The judge is given the run with one thing broken
(`judge_tried`): whole, it notices all of them; with a piece gone it does not.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_tried import Tried, tried
from made_runs import recorded
from passing_runs import RUNS

from checkers import _findings, dead_letters, total_queue
from checkers.linearizable import CHECKER as LINEARIZABLE
from checkers.txn import _native, api, exact, order_search, plugin, weak_models
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount
from dstest.core.evidence import Budgets, Lint
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.verdict import Verdict
from dstest.history import segment
from dstest.history.layout import RunDir
from dstest.judge import audit
from dstest.judge import decide as rules
from dstest.judge.audit_rows import ok
from dstest.judge.decide import decide as rules_decide
from dstest.judge.lints import lint as real_lint
from dstest.runner import judgement

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def spread(ops: list[Op]) -> list[Op]:
    """Every operation at the same time as every other, each by a process of its own."""
    last = max(op.complete_ts or op.invoke_ts for op in ops) + 1
    return [
        msgspec.structs.replace(
            op, process_id=i, invoke_ts=0, complete_ts=None if op.complete_ts is None else last
        )
        for i, op in enumerate(ops)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def copied(kept: Path, into: Path) -> RunDir:
    """A copy of the recorded run of this name, which is made where it is not there yet."""
    name = kept.name
    if not kept.exists():
        how = RUNS[name]()
        recorded(kept, how.pop("ops"), how.pop("workload", name), **how)
    shutil.copytree(kept, into / name, dirs_exist_ok=True)
    return RunDir(into / name)


@pytest.fixture
def judged(store: Path, monkeypatch: Patch, tmp_path: Path) -> Callable[..., Verdict]:
    """Judges a copy of a recorded run; drawing its report is left out."""
    monkeypatch.setattr(judgement, "_report", lambda *a: None)

    def judge(name: str, model: str | None = None) -> Verdict:
        run = copied(store / name, tmp_path)
        if model is not None:
            run.write_json("run.json", {**run.read_json("run.json"), "model": model})
        verdict, failure = judgement.judge(run)
        assert failure is None
        return verdict

    return judge


def without_anomalies(*types: str) -> Callable[[Patch], None]:
    """The transaction checkers without these classes, on their own and in time."""

    def switch(monkeypatch: Patch) -> None:
        real = _native.analyse

        def analyse(*args: Any, **how: Any) -> Any:
            found = real(*args, **how)
            return dataclasses.replace(
                found,
                findings=[f for f in found.findings if f.type not in types],
                cycles=[c for c in found.cycles if not c.type.startswith(types)],
                counts={k: 0 if k in types else n for k, n in found.counts.items()},
            )

        monkeypatch.setattr(_native, "analyse", analyse)

    return switch


def no_order(monkeypatch: Patch) -> None:
    monkeypatch.setattr(api, "_between", lambda wanted: 0)


def inferring(switch: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """The same where nothing is decided besides, which would find it all the same."""

    def both(monkeypatch: Patch) -> None:
        monkeypatch.setattr(api, "look", lambda *args: exact.Exact())
        monkeypatch.setattr(api, "look_at_lists", lambda *args: exact.Exact())
        switch(monkeypatch)

    return both


def all_proved(monkeypatch: Patch) -> None:
    """Whatever transactions on lists read, some order is said to explain it."""
    real = _native.analyse

    def analyse(*args: Any, **how: Any) -> Any:
        found = real(*args, **how)
        none = dict.fromkeys(found.counts, 0)
        return dataclasses.replace(found, findings=[], cycles=[], counts=none, proved=True)

    monkeypatch.setattr(_native, "analyse", analyse)


def all_hold(module: Any) -> Callable[[Patch], None]:
    """An exact checker finds that every model holds."""

    def switch(monkeypatch: Patch) -> None:
        real = module.decide

        def decide(*args: Any) -> Any:
            found = real(*args)
            return dataclasses.replace(found, decisions=dict.fromkeys(found.decisions, "valid"))

        monkeypatch.setattr(module, "decide", decide)

    return switch


def judging(lesser: str) -> Callable[[Patch], None]:
    """The transaction checkers judge a weaker model than asked for."""

    def switch(monkeypatch: Patch) -> None:
        real = plugin.TxnChecker.check

        def check(self: Any, history: History, model: str, budget: Budget) -> CheckResult:
            return real(self, history, lesser, budget)

        monkeypatch.setattr(plugin.TxnChecker, "check", check)

    return switch


def accepting(monkeypatch: Patch) -> None:
    def check(self: Any, history: History, model: str, budget: Budget) -> CheckResult:
        n = sum(1 for op in history.ops if op.error is None or op.timeout_marker)
        return CheckResult(
            checker="linearizable", valid=True, model=model,
            ops=OpCount(total=n, consumed=n), keys=KeyCount(total=1, decided=1),
        )  # fmt: skip

    monkeypatch.setattr(type(LINEARIZABLE), "check", check)


def timeless(monkeypatch: Patch) -> None:
    real = type(LINEARIZABLE).check

    def check(self: Any, history: History, model: str, budget: Budget) -> CheckResult:
        flat = msgspec.structs.replace(history, ops=spread(history.ops))
        return real(self, flat, model, budget)

    monkeypatch.setattr(type(LINEARIZABLE), "check", check)


def without(*types: str) -> Callable[[Patch], None]:
    """The checkers of whole histories say nothing of these anomalies, of none where none is
    named."""

    def switch(monkeypatch: Patch) -> None:
        real = _findings.Findings.anomaly

        def anomaly(self: Any, kind: str, *args: Any, **how: Any) -> None:
            if types and kind not in types:
                real(self, kind, *args, **how)

        monkeypatch.setattr(_findings.Findings, "anomaly", anomaly)

    return switch


def weaker_model(lesser: str) -> Callable[[Patch], None]:
    """A checker of whole histories judges a weaker model than asked for."""

    def switch(monkeypatch: Patch) -> None:
        real = _findings.Findings.__init__

        def init(self: Any, history: History, model: str, budget: Budget) -> None:
            real(self, history, lesser, budget)

        monkeypatch.setattr(_findings.Findings, "__init__", init)

    return switch


def put(target: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda monkeypatch: monkeypatch.setattr(target, name, value)


def once_owed(module: Any) -> Callable[[Patch], None]:
    """An element is owed once, however often it was acknowledged."""

    def missing(t: Any, takers: Any) -> list[int]:
        got = {at for op, at in t.out if op.op_type in takers}
        return [at for at in t.acked if at not in got]

    return put(module, "copies_missing", missing)


def no_damage(monkeypatch: Patch) -> None:
    """Folding skips what it cannot read, without a word."""
    real = segment.fold

    def fold(path: Path) -> Any:
        found = real(path)
        return found._replace(counters={**found.counters, "damaged_lines": 0})

    monkeypatch.setattr(judgement, "fold", fold)


def no_rule(state: str) -> Callable[[Patch], None]:
    """The decision table without the rules that give this state."""

    def switch(monkeypatch: Patch) -> None:
        kept = tuple(rule for rule in rules.RULES if rule.state.value != state)
        real = rules_decide
        monkeypatch.setattr(
            judgement, "decide", lambda e, checkers=None: real(e, checkers, rules=kept)
        )

    return switch


def fine(row: Any) -> Any:
    return lambda *args: row


def blind_to(name: str) -> Callable[[Patch], None]:
    """One red flag never shows."""
    return put(audit, name, fine(ok("all is well")))


def unseen(name: str) -> Callable[[Patch], None]:
    """One lint is never reported."""

    def switch(monkeypatch: Patch) -> None:
        def lint(*args: Any) -> Lint:
            found = real_lint(*args)
            return Lint(
                weak=found.weak,
                corrupt={k: v for k, v in found.corrupt.items() if k != name},
                warning=found.warning,
            )

        monkeypatch.setattr(judgement, "lint", lint)

    return switch


NOTHING = judgement.Reconciled([], [])
EVERY = Budgets(declared={}, met="smoke", measured={})

SWITCHES: dict[str, tuple[str, str | None, Callable[[Patch], None]]] = {
    "cycle search": ("list-append", None, inferring(without_anomalies("G0", "G1c", "G-", "G2"))),
    "cycle search, registers": (
        "rw-register", None, inferring(without_anomalies("G1c", "G-", "G2")),
    ),
    "cycle search, read-committed": (
        "list-append", "read-committed", inferring(without_anomalies("G1c")),
    ),
    "G0": ("list-append", None, inferring(without_anomalies("G0"))),
    "G0, read-uncommitted": ("list-append", "read-uncommitted", inferring(without_anomalies("G0"))),
    "G1a": ("rw-register", None, inferring(without_anomalies("G1a"))),
    "G1a, lists": ("list-append", None, inferring(without_anomalies("G1a", "dirty-update"))),
    "G1b": ("rw-register", None, inferring(without_anomalies("G1b"))),
    "G1b, lists": ("list-append", "read-committed", inferring(without_anomalies("G1b"))),
    "G1c": ("list-append", None, inferring(without_anomalies("G1c"))),
    "G-single": ("list-append", None, inferring(without_anomalies("G-single"))),
    "G-nonadjacent": ("list-append", None, inferring(without_anomalies("G-nonadjacent"))),
    "G2": ("list-append", None, inferring(without_anomalies("G2"))),
    "lost update": (
        "list-append", "snapshot-isolation", inferring(without_anomalies("lost-update")),
    ),
    "internal": ("list-append", None, inferring(without_anomalies("internal"))),
    "internal, registers": ("rw-register", None, inferring(without_anomalies("internal"))),
    "garbage read": ("rw-register", None, inferring(without_anomalies("garbage-read"))),
    "duplicates": ("list-append", None, inferring(without_anomalies("duplicate-elements"))),
    "incompatible order": (
        "list-append", "read-committed", inferring(without_anomalies("incompatible-order", "G1a")),
    ),
    "proof of lists": ("list-append", None, all_proved),
    "realtime edges": ("list-append", None, inferring(no_order)),
    "realtime edges, registers": ("rw-register", None, inferring(no_order)),
    "orders": ("rw-register", None, all_hold(order_search)),
    "orders, serializable": ("rw-register", "serializable", all_hold(order_search)),
    "what is seen": ("rw-register", "causal-cerone", all_hold(weak_models)),
    "process edges": ("list-append", "strong-session-serializable", inferring(no_order)),
    "judging strong-session-serializable": (
        "list-append", None, judging("strong-session-serializable"),
    ),
    "judging strong-snapshot-isolation": (
        "list-append", None, judging("strong-snapshot-isolation"),
    ),
    "judging serializable": ("rw-register", None, judging("serializable")),
    "judging snapshot-isolation": ("list-append", "serializable", judging("snapshot-isolation")),
    "judging repeatable-read": ("rw-register", "serializable", judging("repeatable-read")),
    "judging prefix": ("list-append", "snapshot-isolation", judging("prefix")),
    "judging read-committed": ("list-append", None, judging("read-committed")),
    "judging read-uncommitted": ("rw-register", "read-committed", judging("read-uncommitted")),
    "linearizability accepts everything": ("register", None, accepting),
    "linearizability ignores real time": ("register", None, timeless),
    "sessions: monotonic reads": ("session", None, without("nonmonotonic-read")),
    "sessions: own writes": ("session", None, without("own-write-missed")),
    "sessions: monotonic writes": ("session", None, without("nonmonotonic-write")),
    "sessions: writes follow reads": ("session", None, without("write-before-read")),
    "set-full: lost and stale": ("set-full", None, without("lost", "stale")),
    "set-full: phantoms": ("set-full", None, without("phantom")),
    "set: lost": ("set", None, without("lost")),
    "no-lost-ack: lost": ("no-lost-ack", None, without("lost")),
    "bank: totals": ("bank", None, without("wrong-total")),
    "bank judging serializable": ("bank", None, weaker_model("serializable")),
    "total-queue: lost": ("total-queue", None, without("lost")),
    "total-queue judging at-least-once": ("total-queue", None, weaker_model("at-least-once")),
    "dead-letters: lost": ("dead-letters", None, without("lost")),
    "dead-letters counting no copies": ("dead-letters", None, once_owed(dead_letters)),
    "total-queue counting no copies": ("total-queue", None, once_owed(total_queue)),
    "dead-letters: unrejected": ("dead-letters", None, without("unrejected")),
    "order": ("fifo", None, without("reordered")),
    "counter": ("counter", None, without("lost-increment", "nonmonotonic")),
    "exclusion": ("lock", None, without("overlapping-holds")),
    "g2": ("g2", None, without("G2")),
    "closed-predicate": ("closed-predicate", None, without("garbage-read")),
    "closed-predicate judging serializable": (
        "closed-predicate",
        None,
        weaker_model("serializable"),
    ),
    "atomic-view": ("atomic-view", None, without("nonmonotonic-view")),
    "atomic-view judging snapshots": ("atomic-view", None, weaker_model("snapshot-isolation")),
    "unique-ids: duplicates": ("unique-ids", None, without("duplicated")),
    "unique-ids judging unique": ("unique-ids", None, weaker_model("unique")),
    "causal": ("causal", None, without()),
    "kafka judging kafka": ("kafka", None, weaker_model("kafka")),
    "exactly-once: duplicates": ("exactly-once", None, without("duplicated")),
}  # fmt: skip
"""What is gone -> (run, demanded model, how)."""

OF_THE_JUDGE: dict[str, Callable[[Patch], None]] = {
    "lints": put(judgement, "lint", lambda *a: Lint()),
    "lint H02": unseen("H02"),
    "lint H06": unseen("H06"),
    "lint H09": unseen("H09"),
    "lint H14": unseen("H14"),
    "reconciliation": put(judgement, "reconcile", lambda *a: NOTHING),
    "folding damage": no_damage,
    "landing proof": blind_to("_landed"),
    "rechecks of faults": blind_to("_stood"),
    "clocks": blind_to("_clock_of_faults"),
    "alarms": blind_to("alarms"),
    "recovery": blind_to("recovered_row"),
    "budget": put(audit, "measure", lambda facts: EVERY),
    "rules of violations": no_rule("FAIL-nondeterministic"),
    "rules of unproven faults": no_rule("INCONCLUSIVE-fault-not-proven"),
    "rules of weak oracles": no_rule("INCONCLUSIVE-oracle-too-weak"),
}
"""What is gone -> how."""


def cases() -> Iterator[Any]:
    for name, (run, model, switch) in SWITCHES.items():
        yield pytest.param(run, model, switch, id=name)


@pytest.mark.parametrize(
    ("run", "model"), sorted({(run, model) for run, model, _ in SWITCHES.values()}, key=str)
)
def test_with_everything_in_place_the_run_passes(
    run: str, model: str | None, judged: Callable[..., Verdict]
) -> None:
    verdict = judged(run, model)
    assert verdict.verdict.passed, (verdict.reason, verdict.evidence.redflags["RF2"])


@pytest.mark.parametrize(("run", "model", "switch"), list(cases()))
def test_what_is_switched_off_is_caught(
    run: str,
    model: str | None,
    switch: Callable[[Patch], None],
    judged: Callable[..., Verdict],
    monkeypatch: Patch,
) -> None:
    switch(monkeypatch)
    verdict = judged(run, model)
    assert not verdict.verdict.passed
    assert verdict.evidence.redflags["RF2"].status == "short", verdict.reason


@pytest.fixture(scope="module")
def whole(store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Tried]]:
    """What the judge said of the runs that it was tried on, with everything in place."""
    names = ("register", "list-append", "set")
    return {name: tried(copied(store / name, tmp_path_factory.mktemp("whole"))) for name in names}


def test_the_whole_judge_notices_everything(whole: dict[str, list[Tried]]) -> None:
    for name, rows in whole.items():
        assert [row for row in rows if not row.noticed] == [], name
        parts = {row.part for row in rows}
        assert parts == {"fold", "reconcile", "lints", "audit", "budget", "decide"}, name
        assert len(rows) >= 25, name


@pytest.mark.parametrize("name", OF_THE_JUDGE)
def test_a_judge_with_a_piece_gone_is_caught(
    name: str, store: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    OF_THE_JUDGE[name](monkeypatch)
    rows = tried(copied(store / "register", tmp_path))
    assert [row for row in rows if not row.noticed]


def test_there_are_switches_enough() -> None:
    assert len(SWITCHES) + len(OF_THE_JUDGE) >= 80
