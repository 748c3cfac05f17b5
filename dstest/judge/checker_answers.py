"""What a checker answers is read once, here, before anybody believes it.

A checker may be anyone's. Whatever it raises, and an answer that cannot be read, contradicts itself
or is about something else, is `"unknown"` with a reason that names the checker.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from dstest.core.check import Budget, CheckResult, KeyCount, OpCount
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.plugin_files import said_of

_PLAIN: Final = frozenset({int, str, float, bool, type(None)})


class TimeUp(BaseException):
    """A timer of ours rang; a checker that catches every Exception does not keep it from us."""


def unknown(checker: str, model: str | None, reason: str, total: int = 0) -> CheckResult:
    """An answer that decides nothing; its one key is the whole history."""
    return CheckResult(
        checker=checker,
        valid="unknown",
        model=model,
        ops=OpCount(total=total),
        keys=KeyCount(total=1, decided=0, undecided=["*"]),
        reason=reason,
    )


def asked(
    checker: Any, history: History, model: str, budget: Budget, *, looks: bool = True
) -> CheckResult:
    """The checker's answer, as far as it can be believed. Raises ConfigError where the checker
    refuses an option. `looks`: it is also seen to that the history stays as it is, where that can
    be changed: operations that are no list are made anew for whoever looks at them."""
    given = history
    if isinstance(history.ops, list):
        given = msgspec.structs.replace(history, ops=list(history.ops))
    looks = looks and given is not history

    def no_answer(reason: str) -> CheckResult:
        return unknown(checker.name, model, reason, len(history.ops))

    try:
        before = _held(given) if looks else None
        result = read(checker.check(given, model, budget), checker.name, model, len(history.ops))
        if looks and (_others(given, history) or _held(given) != before):
            return no_answer(f"checker {checker.name} changed the history that it was to judge")
        return result
    except (ConfigError, TimeUp, KeyboardInterrupt):
        raise
    except MemoryError:
        return no_answer(f"memory budget of {budget.memory_mb} MB used up")
    except RecursionError:
        return no_answer("an operation's value is nested too deeply")
    except BaseException as error:
        if isinstance(error, RuntimeError) and "thread" in str(error):
            return no_answer(f"memory budget of {budget.memory_mb} MB used up: {error}")
        return no_answer(f"checker {checker.name} failed: {said_of(error)}")


def read(answer: Any, checker: str, model: str, ops: int) -> CheckResult:
    """The answer of the checker of this name about a history of so many operations, or unknown
    where it is none."""
    problem = _problem(answer, checker, model, ops)
    if problem is None:
        result: CheckResult = answer
        return result
    return unknown(checker, model, f"checker {checker} gave no answer: {problem}", ops)


def _problem(answer: Any, checker: str, model: str, ops: int) -> str | None:
    if not isinstance(answer, CheckResult):
        return f"a {type(answer).__name__} instead of a CheckResult"
    try:
        msgspec.json.decode(msgspec.json.encode(answer), type=CheckResult)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        return f"its CheckResult cannot be read: {error}"
    if answer.checker != checker:
        return f"its CheckResult is that of {answer.checker!r}"
    if answer.valid is not True:
        return None
    if answer.model != model:
        return f"it was asked about {model!r} and found {answer.model!r} to hold"
    return _contradiction(answer, ops)


def _contradiction(answer: CheckResult, ops: int) -> str | None:
    """Why an answer that finds all in order cannot be right."""
    named = sorted({*answer.anomaly_types, *answer.anomalies})
    if named or answer.model in answer.not_:
        return f"valid, with {', '.join(named) or 'its model ruled out'}"
    judged, keys = answer.ops, answer.keys
    if min(judged.consumed, keys.decided, *judged.excluded.values()) < 0:
        return "valid, and a count in it is below 0"
    if judged.consumed == 0:
        return f"valid, and none of {ops} operations was judged"
    if judged.total != ops:
        return f"it was about {judged.total} operations, and there are {ops}"
    if judged.consumed > ops:
        return f"{judged.consumed} operations were judged, and there are {ops}"
    if keys.decided > keys.total:
        return f"{keys.decided} of {keys.total} keys were decided"
    return None


def of_all(answer: CheckResult) -> CheckResult:
    """The answer, where no verdict is made of it: unknown if it is valid for a part alone.

    The judge of a run asks for more, and tells more: which operations may be left out, and what
    was left out of them.
    """
    judged, keys = answer.ops, answer.keys
    left = judged.total - judged.consumed - sum(judged.excluded.values())
    part = ""
    if left:
        part = f"{left} of {judged.total} operations were neither judged nor excluded"
    elif keys.decided < keys.total or keys.undecided:
        part = f"{keys.decided} of {keys.total} keys were decided"
    if answer.valid is not True or not part:
        return answer
    said = f"checker {answer.checker} found nothing wrong, but {part}"
    return msgspec.structs.replace(answer, valid="unknown", reason=said)


def _held(history: History) -> bytes:
    """A digest of what can be changed in place: options, and values that hold others."""
    digest = hashlib.blake2b(_written(history.header.options))
    for op in history.ops:
        if not _PLAIN.issuperset((type(op.key), type(op.input), type(op.output))):
            digest.update(_written((op.key, op.input, op.output)))
    return digest.digest()


def _written(values: Any) -> bytes:
    try:
        return msgspec.json.encode(values)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return str(type(values)).encode()


def _others(given: History, history: History) -> bool:
    """Are the operations other ones, or in another order?"""
    same = len(given.ops) == len(history.ops)
    return not same or any(a is not b for a, b in zip(given.ops, history.ops, strict=True))
