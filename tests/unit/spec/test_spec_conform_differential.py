"""Specifications against the checkers of linearizability and of transactions, which share no code
with them: the same histories, valid ones and such with a wrong output."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Literal

import msgspec
import pytest

from checkers.linearizable import CHECKER
from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome
from dstest.spec import Spec
from dstest.spec.conform import conform_history
from dstest.spec.mapping import Mapped
from dstest.spec.model import model_of
from dstest.spec.shipped.list_append import ListAppend
from dstest.spec.shipped.lock import Lock
from dstest.spec.shipped.queue import Queue
from dstest.spec.shipped.register import Register

pytestmark = pytest.mark.slow

Said = Literal["ok", "fail", "unknown"]


class Store:
    """A true store, which is asked one operation at a time: (op_type, input, output)."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.fresh = dice, 0

    def do(self, process: int, effect: bool) -> tuple[str, Any, Any]:
        raise NotImplementedError

    def wrong(self, op_type: str, output: Any) -> Any:
        raise NotImplementedError


class TrueRegister(Store):
    value: int | None = None

    def do(self, process: int, effect: bool) -> tuple[str, Any, Any]:
        op_type = self.dice.choice(["read", "write", "cas"])
        if op_type == "read":
            return op_type, None, self.value
        new = self.dice.randrange(3)
        if op_type == "write":
            self.value = new if effect else self.value
            return op_type, new, None
        old = self.dice.choice([None, 0, 1, 2])
        same = self.value == old
        self.value = new if effect and same else self.value
        return op_type, [old, new], same

    def wrong(self, op_type: str, output: Any) -> Any:
        return {"read": self.dice.randrange(3), "cas": not output}.get(op_type)


class TrueQueue(Store):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.waiting: list[int] = []

    def do(self, process: int, effect: bool) -> tuple[str, Any, Any]:
        if self.dice.random() < 0.5:
            self.fresh += 1
            self.waiting += [self.fresh] if effect else []
            return "enqueue", self.fresh, None
        return "dequeue", None, self.waiting.pop(0) if effect and self.waiting else None

    def wrong(self, op_type: str, output: Any) -> Any:
        return self.dice.randrange(1, self.fresh + 2) if op_type == "dequeue" else None


class TrueLock(Store):
    holder: int | None = None

    def do(self, process: int, effect: bool) -> tuple[str, Any, Any]:
        if self.dice.random() < 0.5:
            got = self.holder is None
            self.holder = process if effect and got else self.holder
            return "acquire", None, got
        own = self.holder == process
        self.holder = None if effect and own else self.holder
        return "release", None, own

    def wrong(self, op_type: str, output: Any) -> Any:
        return not output


class TrueLists(Store):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.lists: dict[int, list[int]] = {}

    def do(self, process: int, effect: bool) -> tuple[str, Any, Any]:
        lists = {key: list(value) for key, value in self.lists.items()}
        asked, told = [], []
        for _ in range(self.dice.randrange(1, 4)):
            key = self.dice.randrange(2)
            if self.dice.random() < 0.5:
                self.fresh += 1
                lists.setdefault(key, []).append(self.fresh)
                asked.append(["append", key, self.fresh])
                told.append(["append", key, self.fresh])
            else:
                asked.append(["r", key, None])
                told.append(["r", key, list(lists[key]) if key in lists else None])
        self.lists = lists if effect else self.lists
        return "txn", asked, told

    def wrong(self, op_type: str, output: Any) -> Any:
        return [[f, k, v[:-1] if f == "r" and v else v] for f, k, v in output]


def history(kind: type[Store], seed: int, keyed: bool = True) -> list[Op]:
    """Up to 13 operations of four clients, done at random instants of their intervals."""
    dice = random.Random(seed)
    free, names = [0] * 4, list(range(4))
    plan: list[tuple[float, int, int, int, Said]] = []
    for _ in range(dice.randrange(2, 14)):
        slot = dice.randrange(4)
        begin = free[slot] + 1 + dice.randrange(4)
        end = free[slot] = begin + dice.randrange(6)
        said: Said = dice.choices(("ok", "fail", "unknown"), (8, 1, 2))[0]
        plan.append((begin + (end - begin) * dice.random(), names[slot], begin, end, said))
        names[slot] += 4 if said == "unknown" else 0
    store, ops = kind(dice), []
    for number, (_, process, begin, end, said) in enumerate(sorted(plan)):
        effect = said == "ok" or (said == "unknown" and dice.random() < 0.5)
        op_type, asked, told = store.do(process, effect)
        if dice.random() < 0.06:
            told = store.wrong(op_type, told)
        ops.append(
            Op(
                op_id=number,
                process_id=process,
                invoke_ts=begin,
                complete_ts=None if said == "unknown" else end,
                op_type=op_type,
                key="k" if keyed else None,
                input=asked,
                output=told if said == "ok" else None,
                error=None if said == "ok" else "refused",
                timeout_marker=said == "unknown",
            )
        )
    return sorted(ops, key=lambda op: op.invoke_ts)


def judged(checker: Any, model: str, ops: list[Op]) -> bool | str:
    valid: bool | str = checker.check(History(header=Header(), ops=ops), model, Budget()).valid
    return valid


CASES = [
    pytest.param(TrueRegister, Register(), "linearizable", "cas-register", 400, id="register"),
    pytest.param(TrueQueue, Queue(), "linearizable", "fifo-queue", 100, id="queue"),
    pytest.param(TrueLock, Lock(leased=False), "linearizable", "mutex", 200, id="lock"),
    pytest.param(TrueLists, ListAppend(), "list-append", "strict-serializable", 100, id="lists"),
]


@pytest.mark.parametrize(("kind", "spec", "checker", "model", "count"), CASES)
def test_verdicts_agree(
    kind: type[Store], spec: Spec, checker: str, model: str, count: int
) -> None:
    against, ready = registry.load("checkers", checker), model_of(spec)
    seen: Counter[tuple[bool | str, str]] = Counter()
    for seed in range(count):
        ops = history(kind, seed, keyed=checker == "linearizable")
        valid, said = judged(against, model, ops), conform_history(ready, ops)
        assert (valid is False) == (said.verdict == "reject"), (seed, valid, said)
        if said.verdict == "accept":
            assert said.consumed == said.total
        seen[valid, said.verdict] += 1
    assert seen[False, "reject"] >= count // 30 and seen[True, "accept"] >= count // 10, seen


@pytest.mark.parametrize(
    ("kind", "spec"), [(TrueQueue, Queue()), (TrueLists, ListAppend())], ids=["queue", "lists"]
)
def test_looking_ahead_changes_no_answer(
    kind: type[Store], spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, seen = model_of(spec), 0
    for seed in range(5000, 5040):
        ops = history(kind, seed, keyed=kind is TrueQueue)
        with monkeypatch.context() as without:
            without.setattr(Mapped, "too_late", lambda self, record: None)
            plain = conform_history(ready, ops)
        said = conform_history(ready, ops)
        assert (said.verdict == "reject", said.index) == (plain.verdict == "reject", plain.index)
        assert said.refusals == plain.refusals
        seen += said.verdict == "reject"
    assert seen >= 1


def until(ops: list[Op], index: int) -> list[Op]:
    """What has happened at completion `index`. What was under way may have had its effect or not;
    one that had none tells nothing."""
    ends = sorted((op.complete_ts, n) for n, op in enumerate(ops) if op.outcome != Outcome.UNKNOWN)
    place = {n: at for at, (_, n) in enumerate(ends)}
    at_ts = ends[index][0]
    assert at_ts is not None
    found = []
    for n, op in enumerate(ops):
        if op.invoke_ts > at_ts:
            continue
        if place.get(n, -1) > index and op.outcome is Outcome.OK:
            if op.op_type == "read" or op.output is False:
                continue
            op = msgspec.structs.replace(op, complete_ts=None, timeout_marker=True, output=None)
        found.append(op)
    return found


def test_an_exchange_by_hand_is_refused_where_the_control_says() -> None:
    ready, seen = model_of(Register()), 0
    for seed in range(3000, 3300):
        ops = history(TrueRegister, seed)
        said = conform_history(ready, ops)
        if said.verdict != "accept":
            continue
        assert said.swap is not None
        seen += 1
        ends = sorted(
            (op.complete_ts or 0, n) for n, op in enumerate(ops) if op.outcome != Outcome.UNKNOWN
        )
        one, other = (ops[ends[at][1]] for at in (said.swap.index, said.swap.other))
        changed = list(ops)
        changed[ends[said.swap.index][1]] = _moved(other, one)
        changed[ends[said.swap.other][1]] = _moved(one, other)
        again = conform_history(ready, changed)
        assert (again.verdict, again.index) == ("reject", said.swap.rejected_at), seed
        assert again.op_id in (one.op_id, other.op_id)
    assert seen >= 40


def _moved(op: Op, to: Op) -> Op:
    return msgspec.structs.replace(op, invoke_ts=to.invoke_ts, complete_ts=to.complete_ts)


def test_the_index_is_that_of_the_first_completion_that_cannot_be() -> None:
    ready, seen = model_of(Register()), 0
    for seed in range(2000, 2600):
        ops = history(TrueRegister, seed)
        said = conform_history(ready, ops)
        if said.verdict != "reject":
            continue
        assert said.index is not None
        seen += 1
        assert judged(CHECKER, "cas-register", until(ops, said.index)) is False, seed
        if said.index:
            before = until(ops, said.index - 1)
            assert judged(CHECKER, "cas-register", before) is not False, seed
    assert seen >= 40
