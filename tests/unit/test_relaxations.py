"""What is in order by the weaker model that a system documents is no violation of the system's."""

from __future__ import annotations

from io import BytesIO

import pytest
from made_audit import but
from made_report import evidence

from checkers.txn.plugin import LIST_APPEND
from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.evidence import BlameProbe
from dstest.core.history import History
from dstest.core.protocols import Relaxation, SystemTraits
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.jsonl import read_stream
from dstest.judge.blame import PROBES, RELAXED, blame
from dstest.runner.blame_probes import _FirstViolation, _relaxed

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
    said = _relaxed(found, facts, SystemTraits(relaxations=(SNAPSHOT,)))
    assert said.fired is fired
    assert ("its manual" in said.said) == fired


def test_what_is_weaker_than_even_that_is_a_violation() -> None:
    spec = Spec(txns=80, concurrency=4, seed=3, inject={"G1c": 1})
    history = read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))
    facts = but(history=history, options={"isolation": "repeatable-read"})
    found = _FirstViolation(LIST_APPEND, "serializable", None, [])
    assert _relaxed(found, facts, SystemTraits(relaxations=(SNAPSHOT,))).fired is False


@pytest.mark.parametrize(
    ("reads", "fired", "said"),
    [
        ("local", None, "the checker does not judge sequential, which is documented"),
        ("sync", False, "the system documents none for this run"),
        ("confirmed", False, "the system documents none for this run"),
    ],
)
def test_old_reads_of_zookeeper_stay_a_violation(reads: str, fired: bool | None, said: str) -> None:
    """Nothing here judges sequential consistency of registers: whether it explains what was seen is
    not known, which takes nothing from the blame."""
    zookeeper = SystemTraits.of(registry.load("systems", "zookeeper"))
    found = _FirstViolation(registry.load("checkers", "linearizable"), "register", None, [])
    probe = _relaxed(found, but(options={"reads": reads}), zookeeper)
    assert (probe.fired, probe.said) == (fired, said)
    rest = {name: BlameProbe(fired=False, said="-") for name, row in PROBES.items() if row.for_sut}
    assert blame(evidence(violation=True), {**rest, RELAXED: probe}) == "SUT"


def test_what_systems_document_goes_with_options_of_theirs() -> None:
    for name in registry.names("systems", ours=True):
        system = registry.load("systems", name)
        for row in SystemTraits.of(system).relaxations:
            assert row.source
            assert not row.option or row.value in system.options[row.option].choices
