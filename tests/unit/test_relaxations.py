"""What is in order by the weaker model that a system documents is no violation of the system's."""

from __future__ import annotations

from io import BytesIO

import pytest
from made_audit import but
from made_plugins import declaring
from made_report import evidence
from msgspec.structs import replace

from checkers.txn.plugin import LIST_APPEND
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.evidence import BlameProbe, Symptom
from dstest.core.history import History
from dstest.core.protocols import Relaxation, System
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.jsonl import read_stream
from dstest.judge.blame import PROBES, RELAXED, blame
from dstest.judge.relaxations import weaker_promises
from dstest.judge.symptom import classify
from dstest.runner import blame_probes
from dstest.runner.blame_probes import _NO_MODEL, _FirstViolation, _relaxed

SNAPSHOT = Relaxation(
    model="snapshot-isolation", source="its manual", option="isolation", value="repeatable-read"
)


def skewed(level: str) -> History:
    """Two transactions that each read what the other one writes."""
    spec = Spec(txns=80, concurrency=4, level=level, seed=3, inject={"G2-item": 1})
    return read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))


@pytest.mark.parametrize(
    ("isolation", "fired"), [("repeatable-read", True), ("serializable", False)]
)
def test_a_documented_relaxation(isolation: str, fired: bool) -> None:
    history = skewed("snapshot-isolation")
    assert LIST_APPEND.check(history, "serializable", Budget()).valid is False
    found = _FirstViolation(LIST_APPEND, "serializable", None, [])
    facts = but(history=history, options={"isolation": isolation})
    said = _relaxed(found, facts, declaring(System, relaxations=(SNAPSHOT,)))
    assert said.fired is fired
    assert ("its manual" in said.said) == fired


def test_what_is_weaker_than_even_that_is_a_violation() -> None:
    spec = Spec(txns=80, concurrency=4, seed=3, inject={"G1c": 1})
    history = read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))
    facts = but(history=history, options={"isolation": "repeatable-read"})
    found = _FirstViolation(LIST_APPEND, "serializable", None, [])
    assert _relaxed(found, facts, declaring(System, relaxations=(SNAPSHOT,))).fired is False


@pytest.mark.parametrize(
    ("reads", "fired", "said"),
    [
        ("local", None, "the checker does not judge sequential, which is documented"),
        ("sync", False, _NO_MODEL),
        ("confirmed", False, _NO_MODEL),
    ],
)
def test_old_reads_of_zookeeper_stay_a_violation(reads: str, fired: bool | None, said: str) -> None:
    """Nothing here judges sequential consistency of registers: whether it explains what was seen is
    not known, which takes nothing from the blame."""
    zookeeper = registry.load("systems", "zookeeper")
    found = _FirstViolation(registry.load("checkers", "linearizable"), "register", None, [])
    probe = _relaxed(found, but(options={"reads": reads}), zookeeper)
    assert (probe.fired, probe.said) == (fired, said)
    rest = {name: BlameProbe(fired=False, said="-") for name, row in PROBES.items() if row.for_sut}
    assert blame(evidence(violation=True), {**rest, RELAXED: probe}) == "SUT"


def test_what_systems_document_goes_with_options_of_theirs() -> None:
    for name in registry.names("systems", ours=True):
        system = registry.load("systems", name)
        for row in system.relaxations:
            assert row.source
            assert not row.option or row.value in system.options[row.option].choices


SEQUENTIAL = Relaxation(model="sequential", source="its manual", option="reads", value="local")


@pytest.mark.parametrize(
    ("held_to", "row", "counts"),
    [
        ("register", SEQUENTIAL, True),
        ("linearizable", SEQUENTIAL, True),
        ("causal", SEQUENTIAL, False),
        ("sequential", SEQUENTIAL, False),
        ("serializable", SNAPSHOT, True),
        ("strict-serializable", SNAPSHOT, True),
        ("read-committed", SNAPSHOT, False),
    ],
)
def test_only_what_is_weaker_than_what_was_asked_is_a_relaxation(
    held_to: str, row: Relaxation, counts: bool
) -> None:
    found = weaker_promises((row,), {row.option: row.value}, held_to)
    assert found == ([row] if counts else [])
    assert weaker_promises((row,), {row.option: "other"}, held_to) == []


def test_a_judge_that_cannot_say_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> CheckResult:
        return CheckResult(checker="list-append", valid="unknown", reason="no time")

    monkeypatch.setattr(blame_probes, "ask_checker", unknown)
    found = _FirstViolation(LIST_APPEND, "strict-serializable", None, [])
    facts = but(history=skewed("snapshot-isolation"), options={"isolation": "repeatable-read"})
    probe = _relaxed(found, facts, declaring(System, relaxations=(SNAPSHOT,)))
    assert probe.fired is None and "could not be decided" in probe.said


def test_what_another_checker_found_is_not_excused_with_it() -> None:
    found = _FirstViolation(LIST_APPEND, "strict-serializable", None, [])
    lost = CheckResult(checker="no-lost-ack", valid=False)
    facts = but(
        history=skewed("snapshot-isolation"),
        options={"isolation": "repeatable-read"},
        results={"no-lost-ack": lost},
    )
    probe = _relaxed(found, facts, declaring(System, relaxations=(SNAPSHOT,)))
    assert probe.fired is None and "no-lost-ack" in probe.said


@pytest.mark.parametrize(
    ("fired", "severity"),
    [(True, "documented"), (None, "unclassified: with these settings sequential is promised")],
)
def test_how_bad_it_is_where_less_is_promised(fired: bool | None, severity: str) -> None:
    made = evidence(violation=True)
    symptom = Symptom(checker="linearizable", claims=["safety"], documented=["sequential"])
    probes = {RELAXED: BlameProbe(fired=fired, said="-")}
    bug = classify(replace(made, symptom=symptom, probes=probes))
    assert bug is not None and bug.severity.startswith(severity)
    rest = {name: BlameProbe(fired=False, said="-") for name, row in PROBES.items() if row.for_sut}
    said = blame(replace(made, symptom=symptom), {**rest, **probes})
    assert said == ("settings" if fired else f"unknown - pending: independent checker, {RELAXED}")
