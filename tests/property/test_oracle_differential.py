"""Every checker of whole histories against slow judges, on small histories, true and broken.

`EXACT` checkers must agree with a restatement of their definition. `SOUND` ones must never call a
history wrong that some order of its operations explains.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import slow_oracles as slow

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.history.generator.true_histories import KINDS, history

pytestmark = pytest.mark.slow

EXACT: dict[str, Callable[[list[Op]], bool | None]] = {
    "set-full": lambda ops: slow.linearizable(ops, slow.set_step, frozenset()),
    "prefix": lambda ops: all(
        slow.linearizable([o for o in ops if o.key == key], slow.log_step, ())
        for key in {o.key for o in ops}
    ),
    "set": lambda ops: slow.final_state_holds_acks(ops, unique=True),
    "no-lost-ack": lambda ops: slow.final_state_holds_acks(ops, unique=False),
    "fifo": slow.fifo_pairs,
    "causal": slow.causal_bad_patterns,
    "session": lambda ops: all(
        slow.session_guarantees([o for o in ops if o.key == key]) for key in {o.key for o in ops}
    ),
    "lock": lambda ops: (
        not any(
            slow.holds_overlap([o for o in ops if o.key == key]) for key in {o.key for o in ops}
        )
    ),
    "lease": lambda ops: (
        not any(
            slow.holds_overlap([o for o in ops if o.key == key]) for key in {o.key for o in ops}
        )
    ),
    "kafka": lambda ops: all(
        slow.offsets_hold([o for o in ops if o.key == key]) for key in {o.key for o in ops}
    ),
}


def _per_key(step: Any, state: Any) -> Callable[[list[Op]], bool]:
    return lambda ops: all(
        slow.linearizable([o for o in ops if o.key == key], step, state)
        for key in {o.key for o in ops}
    )


SOUND: dict[str, Callable[[list[Op]], bool]] = {
    "total-queue": _per_key(slow.bag_step, ()),
    "dead-letters": _per_key(slow.dead_step, ((), ())),
    "fifo": _per_key(slow.queue_step, ()),
    "counter": _per_key(slow.counter_step, 0),
    "pn-counter": _per_key(slow.counter_step, 0),
    "lock": _per_key(slow.mutex_step, None),
    "session": _per_key(slow.version_step, (0, None)),
    "causal": lambda ops: slow.linearizable(ops, slow.register_step, ()),
}


def perturbed(made: History, dice: random.Random) -> History:
    """One or two small changes that may or may not break the history."""
    ops = list(made.ops)
    for _ in range(dice.randint(1, 2)):
        at = dice.randrange(len(ops))
        op = ops[at]
        way = dice.randrange(5)
        if way == 0:
            del ops[at]
        elif way == 1 and op.outcome is Outcome.OK and isinstance(op.output, list) and op.output:
            output = list(op.output)
            del output[dice.randrange(len(output))]
            ops[at] = msgspec.structs.replace(op, output=output)
        elif way in (1, 2) and op.outcome is Outcome.OK:
            same = [
                o
                for o in ops
                if o.op_type == op.op_type and o.key == op.key and o.outcome is Outcome.OK
            ]
            ops[at] = msgspec.structs.replace(op, output=dice.choice(same).output)
        elif way == 3 and op.complete_ts is not None:
            # A shorter operation: it must have taken effect sooner.
            done = dice.randint(op.invoke_ts + 1, op.complete_ts)
            ops[at] = msgspec.structs.replace(op, complete_ts=done)
        elif way == 4 and op.outcome is Outcome.OK:
            later = [o.invoke_ts for o in ops if o.process_id == op.process_id]
            if max(later) == op.invoke_ts:
                ops[at] = msgspec.structs.replace(
                    op, output=None, complete_ts=None, timeout_marker=True, error="timeout"
                )
    return msgspec.structs.replace(made, ops=ops)


def cases(name: str, seeds: int) -> Any:
    for seed in range(seeds):
        dice = random.Random(seed)
        made = history(name, seed, dice.randint(4, 11), processes=3, unknown=0.12, fail=0.08)
        broken = perturbed(made, dice)
        yield seed, _without_tokens(made)
        if broken.ops:
            yield seed, _without_tokens(broken)


def _without_tokens(made: History) -> History:
    """The slow judges of locks know nothing of fencing tokens."""
    ops = [
        msgspec.structs.replace(op, output=None)
        if op.op_type == "acquire" and op.output is not False
        else op
        for op in made.ops
    ]
    return msgspec.structs.replace(made, ops=ops)


def verdict(name: str, made: History) -> Any:
    kind = KINDS[name]
    return registry.load("checkers", kind.checker).check(made, kind.model, Budget())


@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_the_definition(name: str) -> None:
    seen: Counter[Any] = Counter()
    for seed, made in cases(name, 150):
        result, expected = verdict(name, made), EXACT[name](made.ops)
        seen[result.valid, bool(expected)] += 1
        if result.valid == "unknown":
            assert expected is not False or "twice" in str(result.reason), (name, seed, result)
            continue
        assert result.valid is bool(expected), (name, seed, result.reason)
    assert seen[True, True] >= 30 and seen[False, False] >= 3, seen


@pytest.mark.parametrize("name", SOUND)
def test_never_rejects_what_an_order_explains(name: str) -> None:
    seen: Counter[Any] = Counter()
    for seed, made in cases(name, 150):
        result = verdict(name, made)
        explained = SOUND[name](made.ops)
        seen[result.valid, explained] += 1
        if explained:
            assert result.valid is not False, (name, seed, result.reason)
    assert seen[False, False] >= 3, seen


@pytest.mark.parametrize("name", KINDS)
def test_true_histories_pass(name: str) -> None:
    answers = Counter(verdict(name, history(name, seed, 300)).valid for seed in range(20))
    assert answers[False] == 0
    assert answers[True] >= 15, answers
