"""Each checker rejects the broken copies that the canary makes of true histories.

At least 95 % of them per checker over many seeds; the copies are violations for certain, so in fact
all. A seeded violation in a long history is found too, under its name and with a short witness.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest
from canary_tried import canary

from checkers.sessions import GUARANTEES
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import History
from dstest.history.generator.true_histories import KINDS, history
from dstest.judge.mutants.families import MUTATORS, canaries, family_of
from dstest.judge.mutants.shapes import Part

pytestmark = pytest.mark.slow

SEEDS = 10
KILLED_MIN = 0.95
WITNESS_MAX = 8


def judged(name: str, made: History) -> CheckResult:
    kind = KINDS[name]
    result: CheckResult = registry.load("checkers", kind.checker).check(
        made, kind.model, Budget(time_s=600.0)
    )
    return result


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(10)
def test_mutants_of_true_histories_are_rejected(name: str) -> None:
    kind = KINDS[name]
    make = partial(MUTATORS[kind.checker].make, model=kind.model)
    made: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    count = 400 if name == "fairness" else 80

    def check(broken: History) -> CheckResult:
        result = judged(name, broken)
        for group in result.anomalies.values():
            assert all(len(anomaly.witness) <= WITNESS_MAX for anomaly in group), result
        return result

    for seed in range(SEEDS):
        for row in canary(history(name, seed, count), check, seed, 12, make)[2]:
            made[row["kind"]] += 1
            killed[row["kind"]] += row["valid"] is False
    kinds = MUTATORS[kind.checker].of(kind.model)
    assert set(made) == set(kinds), "a kind of mutant was never made"
    assert sum(killed.values()) >= KILLED_MIN * sum(made.values()), (made, killed)
    for mutant, n in made.items():
        assert killed[mutant] >= KILLED_MIN * n, (mutant, made, killed)


WEAKER = {
    **{f"session without {name}": name for name in GUARANTEES},
    "serializable": "serializable",
    "kafka": "kafka",
    "snapshot-isolation": "snapshot-isolation",
    "monotonic-atomic-view": "monotonic-atomic-view",
    "at-least-once": "at-least-once",
    "unique": "unique",
    "isolated-late": "isolated-late",
}
"""Weaker judge -> what it must not see: the guarantee that it lacks, or the model it judges by."""


@pytest.mark.parametrize(
    "name", [n for n, kind in KINDS.items() if MUTATORS[kind.checker].tells.get(kind.model)]
)
def test_the_telling_mutants_are_allowed_by_the_weaker_judge(name: str) -> None:
    kind = KINDS[name]
    checker = registry.load("checkers", kind.checker)
    told: Counter[str] = Counter()
    for seed in range(SEEDS):
        made = history(name, seed, 80)
        family = family_of(checker, kind.model, made)
        for mutant in family.make(made, seed, 12):
            for weaker, kinds in family.tells.items():
                if mutant.kind not in kinds:
                    continue
                told[weaker] += 1
                assert checker.check(mutant.history, kind.model, Budget()).valid is False
                lesser = [WEAKER[weaker]]
                if weaker.startswith("session without "):
                    lesser = [g for g in GUARANTEES if g != WEAKER[weaker]]
                for model in lesser:
                    found = checker.check(mutant.history, model, Budget())
                    assert found.valid is not False, (mutant[:2], model, found.anomaly_types)
    assert set(told) == set(MUTATORS[kind.checker].tells[kind.model])


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_left_untold(name: str) -> None:
    kind = KINDS[name]
    checker = registry.load("checkers", kind.checker)
    made = history(name, 3, 400)
    found = canaries(checker, kind.model, made, 3, lambda h: judged(name, h))
    assert found.undistinguished == []
    assert {row["valid"] for row in found.details} == {False}
    assert all(row["caught"] and row["sure"] for row in found.details)


LONG_OPS = 1_000_000

CLIENTS: dict[str, dict[str, Any]] = {
    # Every watcher is told all events, and each poller the whole log.
    "watch": {"processes": 4},
    "kafka": {"processes": 4},
    # A process ends with its unknown operation, and clocks have an entry for each process.
    "causal": {"unknown": 0.0},
}
"""How a kind's clients differ from twenty with two in a hundred outcomes unknown."""


def _long(name: str) -> History:
    return history(name, 7, LONG_OPS, **{"processes": 20, **CLIENTS.get(name, {})})


EXPECTED: dict[tuple[str, str], set[str]] = {
    ("set-full", "lost"): {"lost"},
    ("set-full", "stale"): {"stale"},
    ("set-full", "phantom"): {"phantom"},
    ("set-full", "dropped-write"): {"phantom"},
    ("set-full", "duplicate"): {"duplicated"},
    ("set", "lost"): {"lost"},
    ("no-lost-ack", "lost"): {"lost"},
    ("total-queue", "lost"): {"lost"},
    ("total-queue", "repeated"): {"lost"},
    ("dead-letters", "lost"): {"lost"},
    ("dead-letters", "repeated"): {"lost"},
    ("dead-letters", "dropped-reject"): {"unrejected"},
    ("dead-letters", "dropped-write"): {"unexpected"},
    ("dead-letters", "phantom"): {"unexpected"},
    ("total-queue", "duplicate"): {"duplicated"},
    ("total-queue", "phantom"): {"unexpected"},
    ("fifo", "swapped"): {"reordered"},
    ("prefix", "reordered"): {"incompatible-order"},
    ("boundary", "leak"): {"leak"},
    ("boundary", "wrong-key"): {"wrong-key"},
    ("boundary", "phantom"): {"phantom-key"},
    ("boundary", "counted-more"): {"count-off"},
    ("boundary", "stale"): {"stale"},
    ("counter", "stale"): {"lost-increment"},
    ("counter", "phantom"): {"phantom-increment"},
    ("pn-counter", "stale"): {"lost-increment"},
    ("pn-counter", "phantom"): {"phantom-increment"},
    ("lock", "overlap"): {"overlapping-holds"},
    ("lease", "overlap"): {"overlapping-holds"},
    ("lease", "swapped"): {"fencing-token-regressed"},
    ("bank", "wrong-total"): {"wrong-total"},
    ("atomic-view", "skewed"): {"non-repeatable-read"},
    ("atomic-view", "regressed"): {"nonmonotonic-view"},
    ("atomic-view", "phantom"): {"phantom"},
    ("atomic-view", "stale"): {"stale"},
    ("atomic-view", "duplicate"): {"lost-update"},
    ("read-committed-view", "regressed"): {"nonmonotonic-view"},
    ("g2", "duplicate"): {"G2"},
    ("closed-predicate", "phantom"): {"garbage-read"},
    ("closed-predicate", "mismatched"): {"predicate-mismatch"},
    ("closed-predicate", "skewed"): {"G2"},
    ("closed-predicate", "fractured"): {"G-single"},
    ("bank", "nil"): {"nil-balance"},
    ("long-fork", "fork"): {"long-fork"},
    ("causal-reverse", "reversed"): {"causal-reverse"},
    ("unique-ids", "duplicate"): {"duplicated"},
    ("session", "stale"): {"nonmonotonic-read", "own-write-missed"},
    ("session", "swapped"): {"nonmonotonic-write"},
    ("causal", "stale"): {"write-co-init-read"},
    ("causal", "phantom"): {"thin-air-read"},
    ("watch", "lost"): {"missed-event"},
    ("watch", "duplicate"): {"duplicated-event"},
    ("watch", "reordered"): {"unordered-event"},
    ("kafka", "lost"): {"lost-write", "poll-skip"},
    ("kafka", "reordered"): {"nonmonotonic-poll"},
    ("exactly-once", "duplicate"): {"duplicated"},
    ("exactly-once", "lost"): {"lost"},
    ("reconciliation", "diverged"): {"divergence"},
    ("final-state", "lost"): {"invariant-violated"},
    ("fairness", "slow"): {"unfair-latency"},
}


def _seeded(name: str, kind: str, made: History) -> History | None:
    """The history with one mutant of this kind among all its operations."""
    of = KINDS[name]
    makers: Any = MUTATORS[of.checker].of(of.model)
    keys = list(dict.fromkeys(op.key for op in made.ops))
    dice = random.Random(3)
    for key in dice.sample(keys, len(keys))[:20]:
        mine = [op for op in made.ops if op.key == key]
        whole = MUTATORS[of.checker].whole
        ops = made.ops if whole else mine
        found = makers[kind](Part(ops, made.header.options), dice)
        if found is not None:
            rest = [] if whole else [op for op in made.ops if op.key != key]
            all_ops = sorted([*rest, *found[1]], key=lambda op: op.invoke_ts)
            return msgspec.structs.replace(made, ops=all_ops)
    return None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
def test_long_histories(name: str) -> None:
    """A clean one passes; with one seeded violation the right anomaly is named, and briefly."""
    made = _long(name)
    clean = judged(name, made)
    assert clean.valid is True, clean.reason
    found = []
    for (which, kind), names in EXPECTED.items():
        if which != name:
            continue
        broken = _seeded(name, kind, made)
        assert broken is not None, kind
        result = judged(name, broken)
        assert result.valid is False, kind
        assert set(result.anomaly_types) & names, (kind, result.anomaly_types)
        shown = [a for n in names for a in result.anomalies.get(n, ())]
        smallest = min(len(a.witness) for a in shown)
        assert smallest <= WITNESS_MAX
        found.append(f"{kind}: witness of {smallest}")
    ops = f"{len(made.ops):,} operations"
    sys.stdout.write(f"{name}: {ops} valid in {clean.seconds.check:.1f} s; {', '.join(found)}\n")
