"""`kafka`: a log with offsets, sent to and polled.

    {"op_type": "send", "key": "p0", "input": 7, "output": {"offset": 12}}
    {"op_type": "poll", "key": "p0", "input": {"from": 10}, "output":
        {"records": [[12, 7], [13, 9]], "to": 14}}

A poll claims every record with an offset from `from` (where it is absent: from behind the last
record that its process polled) to `to` (where it is absent: to its own last record). With `to` and
without `"more": true` it also claims that the log ended there. Offsets may have holes.

| anomaly | meaning |
|---|---|
| inconsistent-offsets | one offset, two values |
| duplicate | a value stands at more offsets than it was sent times |
| lost-write | acknowledged, and missing from a poll that went beyond it, and from all others |
| poll-skip | as above, but another poll has it |
| nonmonotonic-poll, int-duplicate | offsets that go down or repeat within a poll |
| early-poll | a record from before the offset that was asked for |
| nonmonotonic-send | a later send of a process (`linearizable`: of anybody) got a lower offset |
| stale | the log ends before an offset acknowledged before the poll began (`linearizable`) |
| garbage-read, failed-but-applied | never sent, or refused |

Acknowledged offsets that no poll reached are `unseen`, and then the answer is unknown.

Jepsen's notation is read as well: transactions that send to logs and poll whatever is assigned.

    {:f :send :value [[:send 11 641]]}        answered [[:send 11 [537 641]]], its offset first
    {:f :poll :value [[:poll]]}               answered [[:poll {11 [[537 641] [538 645]]}]]
    {:f :txn  :value [[:send 11 7] [:poll]]}  both
    {:f :assign :value [11]}                  also subscribe, crash: what a client polls from now on

Each micro-operation becomes a send to a log or a poll of one. A poll goes on where its process
stopped, but only where that is certain: who subscribed may be given other logs at any time, and
what was polled in vain is polled again. In a file in which nobody assigns or subscribes nobody is
given other logs. A send that was acknowledged without an offset may stand anywhere. What an
operation polls of a log in several polls is one poll: its offsets rise. A log is called as the
sends call it; keys of polls are texts. Source: `jepsen.tests.kafka`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from checkers._findings import Decide, Findings, Part, PerKey, Unreadable, end_of, regressions
from checkers._log import Claim, Log, check_claims, integer
from dstest.core.check import Budget, CheckResult, OpCount
from dstest.core.history import History
from dstest.core.op import Key, Op, Outcome
from dstest.core.words import often, quoted

OTHERS: Final = frozenset({"assign", "subscribe", "crash", "debug-topic-partitions"})
"""Operations that neither send nor poll."""

_MOPS: Final = ("send", "poll")


def are_micro(ops: list[Op]) -> bool:
    """Are these in Jepsen's notation?"""
    asked = next((op.input for op in ops if op.op_type in ("send", "poll", "txn")), None)
    return (
        isinstance(asked, list)
        and bool(asked)
        and all(isinstance(mop, list) and mop and mop[0] in _MOPS for mop in asked)
    )


def as_records(ops: list[Op]) -> list[Op]:
    """The same in our notation; several operations of one number where it did several things.
    Raises Unreadable for what is none of these."""
    made: list[Op] = []
    settled: set[Any] = set()
    """Processes whose next poll goes on where the last one stopped."""
    assigned: set[Any] = set()
    names, reassigned = _names(ops), any(op.op_type in OTHERS for op in ops)
    for op in ops:
        process = op.process_id
        if op.op_type in OTHERS:
            settled.discard(process)
            (assigned.add if op.op_type == "assign" else assigned.discard)(process)
            continue
        parts = list(_parts(op, names, goes_on=process in settled))
        made += parts
        polled = any(part.op_type == "poll" for part in parts)
        if op.outcome is not Outcome.OK:
            settled.discard(process)
        elif polled and (process in assigned or not reassigned):
            settled.add(process)
    return made


def _text(key: Any) -> str:
    """A key as objects have it, whose keys are texts."""
    return key if isinstance(key, str) else json.dumps(key)


def _names(ops: list[Op]) -> dict[str, Key]:
    """Logs that are sent to, by their texts; lists are called by theirs. Raises Unreadable where
    two have one text: what is polled could be of either."""
    names: dict[str, Key] = {}
    for op in ops:
        for told in (op.input, op.output):
            for mop in told if isinstance(told, list) else ():
                if not isinstance(mop, list) or len(mop) != 3 or mop[0] != "send":
                    continue
                text = _text(mop[1])
                if not isinstance(mop[1], str) and "{" in text:
                    raise Unreadable(op, f"{text} names no log: a scalar does, or a list of them")
                key = text if isinstance(mop[1], list) else mop[1]
                if type(names.setdefault(text, key)) is not type(key):
                    raise Unreadable(op, f"it sends to {key!r}, and others to {names[text]!r}")
    return names


def _parts(op: Op, names: dict[str, Key], *, goes_on: bool) -> Iterator[Op]:
    ok = op.outcome is Outcome.OK
    told = op.output if ok and op.output is not None else op.input
    if not isinstance(told, list):
        raise Unreadable(op, "it is no list of [send key value] and [poll]")
    polled: dict[Any, list[Any]] = {}
    """Of all its polls: within an operation nobody is given other logs."""
    for mop in told:
        match mop:
            case ["send", key, value]:
                yield _send(op, names[_text(key)], value, ok=ok)
            case ["poll"] | ["poll", None]:
                pass
            case ["poll", {**found}]:
                for name, records in found.items():
                    if not isinstance(records, list):
                        raise Unreadable(op, f"what it polled of {name!r} is no list")
                    polled[name] = polled.get(name, []) + records
            case _:
                raise Unreadable(op, f"{mop!r} is neither [send key value] nor [poll {{..}}]")
    for name, records in polled.items():
        yield _poll(op, names.get(name, name), records, goes_on=goes_on)


def _send(op: Op, key: Key, value: Any, *, ok: bool) -> Op:
    offset = None
    if isinstance(value, list) and len(value) == 2:
        offset, value = value
    sent = replace(op, op_type="send", key=key, input=value, output=None)
    if not ok:
        return sent
    if type(offset) is int:
        return replace(sent, output={"offset": offset})
    return replace(sent, complete_ts=None, timeout_marker=True)


def _poll(op: Op, key: Key, records: list[Any], *, goes_on: bool) -> Op:
    if not all(isinstance(one, list) and len(one) == 2 for one in records):
        raise Unreadable(op, f"what it polled of {key!r} is no list of [offset value]")
    offsets = [one[0] for one in records if type(one[0]) is int]
    known = [one for one in records if one[0] is not None]
    asked = {} if goes_on or not offsets else {"from": min(offsets)}
    return replace(op, op_type="poll", key=key, input=asked, output={"records": known})


_NAMES: Final = {
    "unordered": "nonmonotonic-poll",
    "duplicated": "int-duplicate",
    "early": "early-poll",
    "conflict": "inconsistent-offsets",
    "phantom": "garbage-read",
    "missed": "poll-skip",
    "lost": "lost-write",
}


def _offset(op: Op) -> int:
    if not isinstance(op.output, dict):
        raise Unreadable(op, "its output carries no offset")
    return integer(op, op.output.get("offset"), "offset")


def _claims(part: Part) -> list[Claim]:
    """Polls with their ranges; a poll without `from` goes on where its process stopped."""
    position: dict[Any, int] = {}
    claims = []
    for op in part.of("poll"):
        if not isinstance(op.output, dict) or not isinstance(op.output.get("records"), list):
            raise Unreadable(op, "its output has no list of records")
        entries: list[tuple[tuple[int, str], Any]] = []
        for record in op.output["records"]:
            if not isinstance(record, list | tuple) or len(record) != 2:
                raise Unreadable(op, f"{quoted(record)} is not an [offset, value] pair")
            entries.append(((integer(op, record[0], "offset"), ""), record[1]))
        asked = op.input if isinstance(op.input, dict) else {}
        lowest = min((place[0] for place, _ in entries), default=None)
        start = asked.get("from", position.get(op.process_id, lowest))
        if start is None:
            continue
        start = integer(op, start, "from")
        top = max((place[0] for place, _ in entries), default=start - 1)
        end = integer(op, op.output.get("to", top), "to")
        position[op.process_id] = max(top, end) + 1
        claims.append(Claim(op, start, end, entries))
    return claims


def _order(sends: list[Op], part: Part, findings: Findings) -> None:
    """Offsets rise with time: within a process, or under `linearizable` over all of them."""
    one = findings.model == "linearizable"
    groups: dict[Any, list[Op]] = {}
    for op in sends:
        groups.setdefault(None if one else op.process_id, []).append(op)
    for group in groups.values():
        for top, op in regressions(group, _offset):
            message = f"send (op {op.op_id}) got {_offset(op)} after {_offset(top)} had been given"
            findings.anomaly("nonmonotonic-send", part.key, [top, op], message)


def _stale(sends: list[Op], claims: list[Claim], part: Part, findings: Findings) -> None:
    """Polls that end before an offset acknowledged before they began."""
    ended = sorted(sends, key=end_of)
    at, top = 0, None
    for claim in claims:
        while at < len(ended) and end_of(ended[at]) < claim.op.invoke_ts:
            if top is None or _offset(ended[at]) > _offset(top):
                top = ended[at]
            at += 1
        whole = "to" in claim.op.output and not claim.op.output.get("more")
        if whole and top is not None and claim.end < _offset(top):
            message = (
                f"poll (op {claim.op.op_id}) ends at {claim.end}, though {_offset(top)} had been "
                "acknowledged before it began"
            )
            findings.anomaly("stale", part.key, [top, claim.op], message)


def _duplicates(log: Log, part: Part, findings: Findings) -> None:
    """Values at more offsets than they were sent times."""
    offsets: dict[int, list[tuple[int, Op]]] = {}
    for place, (at, op) in {**log.seen, **log.acked}.items():
        offsets.setdefault(at, []).append((place[0], op))
    for at, where in offsets.items():
        sends = log.attempts.get(at, [])
        if len(where) > max(1, len(sends)):
            message = (
                f"{quoted(log.values.values[at])} was sent {often(len(sends))} and stands at "
                f"{', '.join(str(o) for o, _ in sorted(where, key=lambda w: w[0])[:4])}"
            )
            ops = [*sends[:4], *[op for _, op in where[:4]]]
            findings.anomaly("duplicate", part.key, ops, message, element=log.values.values[at])


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of one partition; the number of records that were expected."""
    log = Log()
    for op in part.maybe("send"):
        log.attempts.setdefault(log.values.id_of(op.input), []).append(op)
    for op in part.refused("send"):
        log.refused[log.values.id_of(op.input)] = op
    sends = part.of("send")
    for op in sends:
        log.add((_offset(op), ""), op.input, op, part, findings, "inconsistent-offsets")
    claims = _claims(part)
    tested = check_claims(log, claims, _NAMES, part, findings)
    _order(sends, part, findings)
    _duplicates(log, part, findings)
    if findings.model == "linearizable":
        _stale(sends, claims, part, findings)
    unseen = sum(1 for place in log.acked if not log.reached(place[0]))
    if unseen:
        findings.undecide(part.key, f"{unseen} acknowledged offsets lie where no poll looked")
    findings.count(sent=len(sends), polls=len(claims), seen=len(log.seen), unseen=unseen)
    return tested


class _Kafka(PerKey):
    """Takes Jepsen's notation as well."""

    def __init__(self, name: str, decide: Decide, **said: Any) -> None:
        super().__init__(name, decide, **said)
        types = frozenset({"send", "poll", "txn"}) | OTHERS
        self.op_types = dict.fromkeys(self.models, types)

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `PerKey.check`; unknown where an operation of Jepsen's cannot be read."""
        ops = history.ops
        if not isinstance(ops, list) or not are_micro(ops):
            return super().check(history, model, budget)
        try:
            result = super().check(replace(history, ops=as_records(ops)), model, budget)
        except Unreadable as error:
            total = OpCount(total=len(ops))
            return CheckResult(
                checker=self.name, valid="unknown", model=model, ops=total, reason=str(error)
            )
        excluded = Counter(op.op_type for op in ops if op.op_type in OTHERS)
        excluded["fail"] = sum(op.outcome is Outcome.FAIL for op in ops if op.op_type not in OTHERS)
        judged = len(ops) - excluded.total()
        counted = OpCount(total=len(ops), consumed=judged, excluded=dict(+excluded))
        return replace(result, ops=counted)


CHECKER: Final = _Kafka(
    "kafka",
    decide,
    models=("linearizable", "kafka"),
    types=frozenset({"send", "poll"}),
    prefix_closed=True,
    owed=frozenset({"send"}),
    vacuous="no poll covered an acknowledged send",
    observers=frozenset({"poll"}),
)
