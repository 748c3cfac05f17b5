"""`watch`: a change feed is ordered, unique, reliable and resumable.

    {"op_type": "write", "key": "x", "input": 7, "output": {"revision": 12}}
    {"op_type": "watch", "key": null, "input": {"from": 10}, "output":
        {"events": [{"revision": 12, "key": "x", "value": 7}], "to": 14}}

A watch claims every event with a revision in `[from, to]`; without `to` it claims all up to its
last event. `key` is the one key that is watched, null for all. A stream goes on as another watch
whose `from` follows the last `to`.

| anomaly | the guarantee that it breaks |
|---|---|
| unordered-event | ordered: revisions never go down |
| duplicated-event | unique: an event comes once in a watch |
| missed-event | reliable: what was acknowledged, or what another watch saw, is there |
| resumed-too-early | resumable: nothing from before the revision that was asked for |
| event-conflict | one revision of a key has one value |
| phantom-event, failed-but-applied | the value was never written, or was refused |

Where acknowledged writes lie beyond what any watch reached, the answer is unknown: nobody looked.
Source: etcd's API guarantees for watch; etcd's robustness tests.
"""

from __future__ import annotations

from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, Unreadable, in_one
from checkers._log import Claim, Log, check_claims, integer
from dstest.core.op import Op
from dstest.core.words import quoted

_NAMES: Final = {
    "unordered": "unordered-event",
    "duplicated": "duplicated-event",
    "early": "resumed-too-early",
    "conflict": "event-conflict",
    "phantom": "phantom-event",
    "missed": "missed-event",
    "lost": "missed-event",
}


def _claim(op: Op) -> Claim:
    asked = op.input if isinstance(op.input, dict) else {}
    if not isinstance(op.output, dict) or not isinstance(op.output.get("events"), list):
        raise Unreadable(op, "its output has no list of events")
    entries: list[tuple[tuple[int, str], Any]] = []
    for event in op.output["events"]:
        if not isinstance(event, dict) or not {"revision", "key"} <= event.keys():
            raise Unreadable(op, f"{quoted(event)} is not an event")
        place = (integer(op, event["revision"], "revision"), str(event["key"]))
        entries.append((place, [event["key"], event.get("value")]))
    top = max((place[0] for place, _ in entries), default=None)
    lowest = min((place[0] for place, _ in entries), default=0)
    start = integer(op, asked.get("from", lowest), "from")
    end = op.output.get("to")
    end = (start - 1 if top is None else top) if end is None else integer(op, end, "to")
    return Claim(op, start, end, entries)


def decide(part: Part, findings: Findings) -> int:
    """Broken guarantees of all watches; the number of events that were expected."""
    log = Log()
    for op in part.maybe("write"):
        log.attempts.setdefault(log.values.id_of([op.key, op.input]), []).append(op)
    for op in part.refused("write"):
        log.refused[log.values.id_of([op.key, op.input])] = op
    revisions: dict[str | None, list[int]] = {}
    for op in part.of("write"):
        if not isinstance(op.output, dict):
            raise Unreadable(op, "its output carries no revision")
        revision = integer(op, op.output.get("revision"), "revision")
        place = (revision, str(op.key))
        log.add(place, [op.key, op.input], op, part, findings, "event-conflict")
        revisions.setdefault(None, []).append(revision)
    watched = {op.key for op in part.of("watch")}
    if watched - {None}:
        findings.undecide(part.key, "watches of single keys are not supported yet")
        return 0
    claims = [_claim(op) for op in part.of("watch")]
    tested = check_claims(log, claims, _NAMES, part, findings)
    beyond = sum(1 for revision in revisions.get(None, ()) if not log.reached(revision))
    if beyond:
        findings.undecide(part.key, f"{beyond} acknowledged writes lie where no watch looked")
    findings.count(watches=len(claims), events=len(log.seen), acknowledged=len(log.acked))
    return tested


CHECKER: Final = PerKey(
    "watch",
    decide,
    models=("watch",),
    types=frozenset({"write", "watch"}),
    prefix_closed=True,
    vacuous="no watch covered an acknowledged write",
    observers=frozenset({"watch"}),
    key_of=in_one,
)
