"""What a client takes and returns, by capability: what workloads ask for and checkers rely on.

`docs/reference/capabilities.md` is made of it, by `dstest list --capabilities`. Whoever writes a
client for a system of their own finds here what `op.key` and `op.input` are, and what `do_<type>`
returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec


class Operation(msgspec.Struct, frozen=True):
    """One type of operation: what `op.key` and `op.input` are, what the method returns. `nothing`
    is what it returns where nothing is there, or where it was refused without an effect."""

    op_type: str
    key: str
    input: str
    output: str
    nothing: str = "-"


_NOT_HELD: Final = '`Definite("not-held")`: it is not held'
"""Any other definite failure says that nothing happened, so that the caller still holds it."""

_TXN_KEYS: Final = "-; keys are in the micro-operations, integers"

CAPABILITIES: Final[dict[str, tuple[Operation, ...]]] = {
    "bank": (
        Operation(
            "transfer",
            "-",
            '`{"from": account, "to": account, "amount": n}`, accounts from 0',
            "`True`",
            "`False`: not enough money",
        ),
        Operation("read", "-", "-", 'all balances at one moment, `{"0": 10, "1": 7}`'),
        Operation("dump", "-", "-", "as `read`, what this member itself holds (bank-replicas)"),
    ),
    "counter": (
        Operation("inc", "counter", "what to add, perhaps below 0", "the value after it"),
        Operation("read", "counter", "-", "the value", "`0`"),
    ),
    "group": (
        Operation("write", "group", "`[member, value]`", "-"),
        Operation(
            "read", "group", "-", "all members at one moment, `[[member, value], ..]`", "`[]`"
        ),
    ),
    "lease": (
        Operation(
            "acquire",
            "lease",
            '`{"ttl_ns": n}`, whole seconds',
            '`{"token": n}`, a number that grows from holder to holder',
            "`False`: another one has it",
        ),
        Operation("renew", "lease", '`{"ttl_ns": n}`', "-", _NOT_HELD),
        Operation("release", "lease", "-", "-", _NOT_HELD),
    ),
    "ledger": (
        Operation(
            "credit",
            "account",
            '`{"id": text, "amount": n}`; the same id may come again',
            "`True`",
            "`False`: this id took effect before",
        ),
        Operation("audit", "account", "-", "ids of all effects, one for each time", "`[]`"),
    ),
    "dead-letters": (
        Operation("enqueue", "queue", "an element, unique in its queue", "-"),
        Operation(
            "dequeue", "queue", "-", "the element, which is gone then", "`None`: it is empty"
        ),
        Operation(
            "reject",
            "queue",
            "-",
            "the element, which is refused and goes to the queue's dead letters",
            "`None`: it is empty",
        ),
        Operation("collect", "queue", "-", "one of its dead letters", "`None`: there is none"),
    ),
    "lock": (
        Operation(
            "acquire", "lock", "-", '`{"token": n}`, as of `lease`', "`False`: another one has it"
        ),
        Operation("release", "lock", "-", "-", _NOT_HELD),
    ),
    "log": (
        Operation("send", "log", "a record", '`{"offset": n}`'),
        Operation(
            "poll",
            "log",
            '`{"from": offset, "limit": n}`',
            '`{"records": [[offset, record], ..], "to": offset}`, in order of offsets, with all'
            ' from `from` to `to`; `"more": True` where the page was full',
            "no records",
        ),
    ),
    "pairs": (
        Operation(
            "insert",
            "pair",
            '`["a" or "b", id]`: look in both tables for rows of the pair that a predicate holds of'
            " and put one into this table where there is none, in one transaction",
            "`True`",
            "`False`: there was one",
        ),
        Operation(
            "read",
            "-",
            "-",
            '`{"pairs": [[pair, [id, ..]], ..]}`, those of which several rows stand that the'
            ' predicate holds of; `"more": True` where some are left out',
        ),
    ),
    "predicates": (
        Operation(
            "txn",
            "group",
            '`[["rp", predicate], ["r", k], ["insert", k, v], ["w", k, v], ["delete", k], ..]` on'
            " the rows of the group, in one transaction that is rolled back where a row to be"
            " deleted is not there, or one to be inserted is; `w` makes it where it is not; values"
            ' are positive; predicates are `True`, `["=", v]` and `["mod", m, r]`',
            '`[["rp", predicate, [[k, v], ..]], ["r", k, v], ["insert", k, v], ..]`: all rows that'
            " a predicate holds of, the value of a row",
            "`None`: no such row",
        ),
    ),
    "queue": (
        Operation("enqueue", "queue", "an element, unique in its queue", "-"),
        Operation(
            "dequeue", "queue", "-", "the element, which is gone then", "`None`: it is empty"
        ),
    ),
    "register": (
        Operation("read", "register", "-", "the value", "`None`: never written"),
        Operation("write", "register", "a value", "-"),
        Operation(
            "cas",
            "register",
            "`[old, new]` (cas-register)",
            "`True`",
            "`False`: it held something else",
        ),
    ),
    "revisions": (
        Operation(
            "generate",
            "-",
            '`{"put": key}`, or `{"delete": key}`, which is put first where it is not there; with'
            ' `"compact": True` what came before this change is dropped then',
            "the number that the store gave to this change",
        ),
    ),
    "session": (
        Operation("write", "register", "a value", '`{"version": n}`, growing with each write'),
        Operation(
            "read",
            "register",
            "-",
            '`{"version": n, "value": value}`',
            '`{"version": 0, "value": None}`',
        ),
    ),
    "set": (
        Operation("add", "set", "an element, unique in its set", "-"),
        Operation("read", "set", "-", "all elements, a list in any order", "`[]`"),
    ),
    "tenants": (
        Operation("put", "tenant", '`{"name": key, "value": text}`, besides for the report', "-"),
        Operation("get", "tenant", '`{"name": key}`', "the value", "`None`: no such key"),
        Operation("list", "tenant", "-", "`[[key, value], ..]`, in any order", "`[]`"),
        Operation("count", "tenant", "-", "how many keys it has, as the system counts them", "`0`"),
        Operation("drop", "tenant", "-", "-; all its keys are gone, at one moment"),
        Operation("probe", "tenant", "as `get`", "as `get`: nobody ever puts it", "`None`"),
        Operation("probe_list", "tenant", "-", "as `list`: there is no such tenant", "`[]`"),
        Operation("probe_count", "tenant", "-", "as `count`: there is no such tenant", "`0`"),
    ),
    "txn-append": (
        Operation(
            "txn",
            _TXN_KEYS,
            '`[["append", key, element], ["r", key, None], ..]`',
            "the same, with the list that each read saw",
            '`["r", key, None]`: never appended to',
        ),
    ),
    "txn-register": (
        Operation(
            "txn",
            _TXN_KEYS,
            '`[["w", key, value], ["r", key, None], ..]`',
            "the same, with the value that each read saw",
            '`["r", key, None]`: never written',
        ),
    ),
    "unique-ids": (Operation("generate", "-", "-", "an id that no other one gets"),),
    "views": (
        Operation(
            "bump",
            "group",
            "its members: add 1 to each, in order, in one transaction, by statements to which no"
            " other add is lost",
            "their values after it, `[7, 7, 7]`, read in that transaction",
        ),
        Operation(
            "look",
            "group",
            '`[["r", member, None], ["touch", member, None], ..]`, in one transaction; a touch'
            " changes the member's record and not its value",
            'the same, with the value that each `"r"` saw',
            '`["r", member, 0]`: never bumped',
        ),
    ),
    "watch": (
        Operation("write", "register", "a value", '`{"revision": n}`'),
        Operation(
            "watch",
            "-",
            '`{"from": revision}`; with `"until_now": True` up to the newest one',
            '`{"events": [{"revision": n, "key": key, "value": value}, ..], "to": revision}`, all'
            " changes from `from` to `to`",
            "no events, and `to` is `from` - 1",
        ),
    ),
}
"""By capability; keys are text and values integers, unless it says otherwise."""

_HEAD: Final = """\
# What clients take and return

A client offers a capability by a method `do_<type>(op)` for each operation of the workloads that
need it. `op.key` and `op.input` come from the workload; what the method returns, as JSON, is what
checkers judge. Keys are text and values integers unless stated; `-` is `None`. Made by
`dstest list --capabilities` from `workloads/capabilities.py`.

What certainly did not happen raises `Definite`, with a code of the system's `definite_errors`; what
may have happened raises `Indefinite`, or any other exception. To release or renew what is not held
raises `Definite("not-held")`; a release that fails with another code released nothing.

| capability | workloads | operation | `op.key` | `op.input` | returns | where there is nothing |
|---|---|---|---|---|---|---|
"""


def markdown(workloads: Sequence[Any]) -> str:
    """The page, with the names of these workloads."""
    lines = []
    for capability, operations in CAPABILITIES.items():
        asking = [w for w in workloads if w.capability == capability]
        for one in operations:
            names = ", ".join(w.name for w in asking if one.op_type in w.op_types) or "-"
            cells = (one.key, one.input, one.output, one.nothing)
            lines.append(f"| {capability} | {names} | `{one.op_type}` | {' | '.join(cells)} |\n")
    return _HEAD + "".join(lines)
