"""Every mutant is a violation for certain: a search through all orders finds none that explains it.

The judge here is a brute-force search written from the definition of linearizability alone.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from canary_tried import KINDS, REGISTERS, canary

from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome


def linearizable(ops: list[Op]) -> bool:
    """Is there an order of `ops` (one key) that respects time and explains every output?"""
    ops = [
        op
        for op in ops
        if op.outcome is not Outcome.FAIL
        and not (op.outcome is Outcome.UNKNOWN and op.op_type == "read")
    ]
    must = frozenset(i for i, op in enumerate(ops) if op.outcome is Outcome.OK)
    dead: set[tuple[frozenset[int], object]] = set()

    def search(done: frozenset[int], value: object) -> bool:
        if must <= done:
            return True
        if (done, value) in dead:
            return False
        ends = [ops[i].complete_ts for i in must - done]
        limit = min(e for e in ends if e is not None)
        for i, op in enumerate(ops):
            if i in done or op.invoke_ts > limit:
                continue
            if op.op_type == "read" and op.output == value and search(done | {i}, value):
                return True
            if op.op_type == "write" and search(done | {i}, op.input):
                return True
            if op.op_type == "cas" and op.input[0] == value and search(done | {i}, op.input[1]):
                return True
        dead.add((done, value))
        return False

    return search(frozenset(), None)


def check(history: History) -> CheckResult:
    return CheckResult(checker="brute-force", valid=linearizable(history.ops))


def simulate(seed: int, *, unique: bool, cas: bool, count: int = 24, processes: int = 3) -> History:
    """A true register under concurrent clients: each operation takes effect at one instant."""
    dice = random.Random(seed)
    ops: list[Op] = []
    free = dict.fromkeys(range(processes), 0)
    drafts = []
    for i in range(count):
        process = min(free, key=lambda p: free[p])
        start = free[process] + dice.randint(1, 6)
        effect = start + dice.randint(1, 6)
        end = effect + dice.randint(1, 6)
        free[process] = end
        drafts.append((effect, start, end, i, process))
    value: int | None = None
    for effect, start, end, i, process in sorted(drafts):
        del effect
        kind = dice.choice(["read", "read", "write", "cas" if cas else "write"])
        unknown = dice.random() < 0.08
        fresh = i + 1 if unique else dice.randrange(3)
        argument: object = None
        output: object = None
        error = None
        if kind == "read":
            output = value
        elif kind == "write":
            argument, value = fresh, fresh
        else:
            expected = value if dice.random() < 0.6 else 0
            argument = [expected, fresh]
            if expected == value:
                value = fresh
            else:
                error = "cas mismatch"
        if unknown:
            output, error = None, "timeout"
        ops.append(
            Op(
                op_id=i,
                process_id=process + 100 * i,
                invoke_ts=start,
                complete_ts=None if unknown else end,
                op_type=kind,
                key="k",
                input=argument,
                output=output,
                error=error,
                timeout_marker=unknown,
            )
        )
    return History(header=Header(), ops=sorted(ops, key=lambda op: op.invoke_ts))


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("cas", [True, False])
def test_every_mutant_of_a_true_history_is_a_violation(unique: bool, cas: bool) -> None:
    made: Counter[str] = Counter()
    for seed in range(60):
        history = simulate(seed, unique=unique, cas=cas)
        assert check(history).valid is True
        killed, total, details = canary(history, check, seed)
        assert killed == total, [row for row in details if row["valid"] is not False]
        made.update(row["kind"] for row in details)
    assert made["phantom-value"] == 60
    if unique:
        assert set(made) == set(KINDS)


@pytest.mark.parametrize("unique", [True, False])
def test_our_checker_rejects_every_mutant_of_a_long_history(unique: bool) -> None:
    linearizable_checker = pytest.importorskip("checkers.linearizable").CHECKER

    def ours(history: History) -> CheckResult:
        found: CheckResult = linearizable_checker.check(history, "register", Budget())
        return found

    for seed in range(10):
        history = simulate(seed, unique=unique, cas=False, count=400, processes=6)
        assert ours(history).valid is True
        killed, total, details = canary(history, ours, seed)
        assert killed == total, details
        assert total >= 1


def test_a_checker_that_ignores_time_misses_some_mutants() -> None:
    """Sequential consistency of one process each is weaker: stale reads slip through."""

    def timeless(history: History) -> CheckResult:
        written = {op.input for op in history.ops if op.op_type == "write"} | {None}
        fine = all(op.output in written for op in history.ops if op.op_type == "read")
        return CheckResult(checker="timeless", valid=fine)

    survivors: Counter[str] = Counter()
    for seed in range(20):
        for mutant in REGISTERS.make(simulate(seed, unique=True, cas=False), seed):
            if timeless(mutant.history).valid:
                survivors[mutant.kind] += 1
    assert set(survivors) == {"stale-read", "swapped-reads"}
