"""`exactly-once`: every business key takes effect once, however often it was tried.

    {"op_type": "credit", "key": "a1", "input": {"id": "p-17", "amount": 5}, "output": null}
    {"op_type": "audit",  "key": null, "output": ["p-17", "p-18"]}       ids of all effects

Where audits carry the key of an account, each account is judged by its own audits.

The idempotency key is the input's `id` (or `idempotency_id`, `idem`), never the op_id. Retries are
operations of their own with the same id. Effects are what the audits that began after the last
completed attempt list.

| anomaly | meaning |
|---|---|
| duplicated | an id took effect more than once |
| lost | an id was acknowledged and took no effect |
| failed-but-applied | all attempts failed definitely, yet there is an effect |
| phantom | an effect whose id nobody ever tried |

An id of unknown outcome may have taken effect once. A history in which no id was tried twice, not
counting attempts that failed definitely, proves nothing about idempotency: the answer is unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of, in_one, list_of
from checkers.columns import Interner
from dstest.core.op import Op, Outcome
from dstest.core.words import often, quoted

_FIELDS: Final = ("id", "idempotency_id", "idem")
_EFFECTS: Final = ("credit", "debit", "apply", "pay")


def _business_id(op: Op) -> Any:
    if isinstance(op.input, dict):
        for name in _FIELDS:
            if op.input.get(name) is not None:
                if op.input[name] == op.op_id:
                    raise Unreadable(op, "its idempotency key is its op_id, so nothing can repeat")
                return op.input[name]
    raise Unreadable(op, "its input carries no idempotency key")


def _say(
    at: int, n: int, tries: list[Op], audit: Op, value: Any, findings: Findings, key: Any
) -> None:
    outcomes = {op.outcome for op in tries}
    if n > 1:
        message = f"{quoted(value)} was tried {often(len(tries))} and took effect {often(n)}"
        findings.anomaly("duplicated", key, [*tries[:6], audit], message, element=value)
    if n == 0 and Outcome.OK in outcomes:
        acked = next(op for op in tries if op.outcome is Outcome.OK)
        message = (
            f"op {acked.op_id} acknowledged {quoted(value)}, and audit (op {audit.op_id}) "
            f"lists no effect"
        )
        findings.anomaly("lost", key, [acked, audit], message, element=value)
    if n and not tries:
        message = f"audit (op {audit.op_id}) lists {quoted(value)}, which nobody ever tried"
        findings.anomaly("phantom", key, [audit], message, element=value)
    if n and tries and outcomes == {Outcome.FAIL}:
        message = (
            f"{quoted(value)} was refused definitely each time, and audit (op {audit.op_id}) "
            "lists it"
        )
        ops = [*tries[:6], audit]
        findings.anomaly("failed-but-applied", key, ops, message, element=value)


def _accounts(part: Part) -> list[tuple[Any, list[Op], list[Op]]]:
    """Attempts, by invocation, and audits, per account; all in one where an audit covers all."""
    attempts = [op for op in (*part.ok, *part.unknown, *part.failed) if op.op_type in _EFFECTS]
    attempts.sort(key=lambda op: op.invoke_ts)
    audits = part.of("audit")
    if any(op.key is None for op in audits):
        return [(part.key, attempts, audits)]
    keys = Interner()
    accounts: dict[int, tuple[Any, list[Op], list[Op]]] = {}
    for at, ops in ((1, attempts), (2, audits)):
        for op in ops:
            account = accounts.setdefault(keys.id_of(op.key), (op.key, [], []))
            account[at].append(op)
    return list(accounts.values())


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of all ids in the final audits; the number of ids that were tried twice or more."""
    return sum(_decide(*account, part, findings) for account in _accounts(part))


def _decide(key: Any, attempts: list[Op], audits: list[Op], part: Part, findings: Findings) -> int:
    """Those of one account."""
    ids = Interner()
    tries: dict[int, list[Op]] = {}
    for op in attempts:
        tries.setdefault(ids.id_of(_business_id(op)), []).append(op)
    last = max((end_of(op) for op in attempts if op.outcome is not Outcome.UNKNOWN), default=-1)
    audits = [op for op in audits if op.invoke_ts > last]
    if not audits:
        findings.undecide(
            part.key, f"no audit of {quoted(key)} began after the last attempt had ended"
        )
        return 0
    told: set[int] = set()
    for audit in audits:
        findings.tick()
        effects = Counter(ids.id_of(value) for value in list_of(audit))
        for at in tries.keys() | effects.keys():
            if at in told:
                continue
            before = sum(findings.counts.values())
            _say(at, effects[at], tries.get(at, []), audit, ids.values[at], findings, key)
            if sum(findings.counts.values()) > before:
                told.add(at)
    repeated = sum(sum(op.outcome is not Outcome.FAIL for op in ops) > 1 for ops in tries.values())
    findings.count(ids=len(tries), repeated=repeated, audits=len(audits))
    return repeated


CHECKER: Final = PerKey(
    "exactly-once",
    decide,
    models=("ledger",),
    types=frozenset({*_EFFECTS, "audit"}),
    vacuous="no idempotency key was tried twice, with effect or perhaps",
    observers=frozenset({"audit"}),
    key_of=in_one,
)
