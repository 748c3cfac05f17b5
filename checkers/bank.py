"""`bank`: money moves between accounts and is neither made nor lost.

    {"op_type": "transfer", "input": {"from": 0, "to": 1, "amount": 3}, "output": true}
    {"op_type": "read", "output": {"0": 7, "1": 13}}

A transfer that is ok with output `false` found too little money and changed nothing. The options
of the run give `bank_accounts`, `bank_balance` (of each account at the start) or `bank_total`, and,
where allowed, `bank_negative`; of foreign histories `accounts` (a number, or names), `total`, or
the balances at the start as `initial`. Where nobody told the total, the first read's is what the
others are held to: that can show a violation, but a bank whose reads all agree stays unknown, since
its first read may already have missed money.

| anomaly | meaning |
|---|---|
| wrong-total | the balances do not add up to the total |
| negative-value | an account is below zero |
| missing-account, unexpected-account | the read has too few or other accounts |
| nil-balance | a balance is not a number |
| lost-transfer, phantom-transfer | an account holds less, or more, than the transfers allow |

The last two use the bounds of `counter-bounds` for each account: they see a transfer that was
undone on both sides, which leaves the total as it was. They need real time, so they are applied
under `strict-serializable` only. Where nobody told what an account held at the start, there has to
be one balance that fits all reads of it. Source: Jepsen's `tests.bank`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from checkers.counter_bounds import Bounds, near
from dstest.core.errors import ConfigError
from dstest.core.history import INITIAL
from dstest.core.op import Op
from dstest.core.protocols import Option

_Read = tuple[Op, dict[str, int]]

_MODELS: Final = ("strict-serializable", "serializable", "snapshot-isolation")

ACCOUNTS_MAX: Final = 1_000_000


def _deltas(part: Part) -> dict[str, list[tuple[Op, int]]]:
    """Per account: what each transfer that may have happened changes."""
    accounts: dict[str, list[tuple[Op, int]]] = {}
    for op in part.maybe("transfer"):
        asked = op.input
        if not isinstance(asked, dict) or not {"from", "to", "amount"} <= asked.keys():
            raise Unreadable(op, "its input lacks from, to or amount")
        if op.output is False:
            continue
        amount = _whole(asked["amount"])
        if amount is None:
            raise Unreadable(op, "its amount is not an integer")
        accounts.setdefault(str(asked["from"]), []).append((op, -amount))
        accounts.setdefault(str(asked["to"]), []).append((op, amount))
    return accounts


def _whole(value: Any) -> int | None:
    """A whole number, however it is written; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _plain_reads(part: Part, expected: set[str], findings: Findings) -> list[_Read]:
    """Reads whose balances are numbers; the others are anomalies."""
    reads: list[_Read] = []
    for op in part.of("read"):
        if not isinstance(op.output, dict):
            raise Unreadable(op, "its output is not an object of balances")
        balances = {str(name): _whole(value) for name, value in op.output.items()}
        if broken := [v for v in op.output.values() if isinstance(v, float) and v % 1]:
            raise Unreadable(op, f"{broken[0]} is no whole number: tell balances in the least unit")
        for kind, what, names in (
            ("missing-account", "does not show account", expected - balances.keys()),
            (
                "unexpected-account",
                "shows what is no account of the bank:",
                balances.keys() - expected if expected else set(),
            ),
            (
                "nil-balance",
                "shows no whole number as the balance of account",
                {n for n, v in balances.items() if v is None},
            ),
        ):
            if names:
                message = f"read (op {op.op_id}) {what} {', '.join(sorted(names))}"
                findings.anomaly(kind, part.key, [op], message)
        whole = {name: value for name, value in balances.items() if value is not None}
        if len(whole) == len(balances):
            reads.append((op, whole))
    return reads


def _totals(
    part: Part, reads: list[_Read], total: int | None, negative: bool, findings: Findings
) -> None:
    reference: Op | None = None
    for op, balances in reads:
        got = sum(balances.values())
        if total is None:
            total, reference = got, op
        if got != total:
            message = f"the balances of read (op {op.op_id}) add up to {got}, not to {total}"
            findings.anomaly(
                "wrong-total", part.key, [op] if reference is None else [reference, op], message
            )
        below = sorted(name for name, value in balances.items() if value < 0)
        if below and not negative:
            message = f"read (op {op.op_id}): account {below[0]} holds {balances[below[0]]}"
            findings.anomaly("negative-value", part.key, [op], message)


def _start(name: str, reads: list[_Read], low: Any, high: Any) -> int:
    """A balance at the start that fits what reads of the account show, as many in order as can
    be."""
    least, most = None, None
    for i, (_, balances) in enumerate(reads):
        if (value := balances.get(name)) is None:
            continue
        from_, to = value - int(high[i]), value - int(low[i])
        if least is not None and most is not None and (from_ > most or to < least):
            break
        least = from_ if least is None else max(least, from_)
        most = to if most is None else min(most, to)
    return least or 0


def _bounds(
    part: Part,
    reads: list[_Read],
    first: Mapping[str, int] | None,
    findings: Findings,
    deltas: Any,
) -> None:
    """Each account against what the transfers allow; where nobody told what it held at the start,
    there must be a balance that fits all reads."""
    invoke = np.array([op.invoke_ts for op, _ in reads], dtype=np.int64)
    complete = np.array([end_of(op) for op, _ in reads], dtype=np.int64)
    for name in sorted({name for _, balances in reads for name in balances}):
        moves = deltas.get(name, [])
        low, high = Bounds(moves).at(invoke, complete)
        start = _start(name, reads, low, high) if first is None else first.get(name, 0)
        for i, (op, balances) in enumerate(reads):
            if not i % 1024:
                findings.tick()
            value = balances.get(name)
            if value is None or low[i] + start <= value <= high[i] + start:
                continue
            lost = value < low[i] + start
            limit = f"{low[i] + start} at least" if lost else f"{high[i] + start} at most"
            who = f"read (op {op.op_id})"
            message = f"account {name} holds {value} in {who}; transfers allow {limit}"
            kind = "lost-transfer" if lost else "phantom-transfer"
            witness = [op] if findings.full(kind) else near(moves, op)
            findings.anomaly(kind, part.key, witness, message, minimal=False)


def _accounts(text: str) -> set[str]:
    """Names with commas, or how many there are, called 0, 1, .."""
    if text.strip().isdigit():
        return {str(i) for i in range(min(int(text), ACCOUNTS_MAX))}
    return {name.strip() for name in text.split(",") if name.strip()}


def _agreed(what: str, told: Mapping[str, Any]) -> Any:
    """The one value of what was told in several ways; None where nobody told. Raises ConfigError
    where they contradict each other."""
    known = {name: value for name, value in told.items() if value is not None}
    values = list(known.values())
    if any(value != values[0] for value in values):
        said = " and ".join(
            f"{name}={','.join(sorted(v)) if isinstance(v, set) else v}"
            for name, v in known.items()
        )
        raise ConfigError(f"two ways to tell the {what}: {said}", remedy="give one of them")
    return values[0] if values else None


def _first(value: Any) -> dict[str, int]:
    """The balances that the accounts start with. Raises ConfigError for what is none."""
    if not isinstance(value, dict) or not all(type(v) is int for v in value.values()):
        raise ConfigError(
            f"the initial state of a bank is {str(value)[:60]!r}",
            remedy='the balances by account: --initial \'{"0": 10, "1": 10}\'',
        )
    return {str(name): balance for name, balance in value.items()}


def told_of(options: Mapping[str, Any]) -> tuple[set[str], dict[str, int] | None, int | None]:
    """The accounts (none where nobody told), their first balances, and the total. Raises
    ConfigError for what contradicts itself."""
    first = _first(options[INITIAL]) if INITIAL in options else None
    number, text = options.get("bank_accounts"), options.get("accounts")
    names = _agreed(
        "accounts",
        {
            "bank_accounts": None if number is None else _accounts(str(number)),
            "accounts": None if text is None else _accounts(str(text)),
            INITIAL: None if first is None else {*first},
        },
    )
    balance = options.get("bank_balance")
    if first is None and names and balance is not None:
        first = dict.fromkeys(names, int(balance))
    total = _agreed(
        "total",
        {
            "bank_total": options.get("bank_total"),
            "total": options.get("total"),
            "the balances": None if first is None else sum(first.values()),
        },
    )
    return names or set(), first, total


def decide(part: Part, findings: Findings) -> int:
    """Anomalies of all reads; the number of reads tested."""
    options = findings.options
    names, first, total = told_of(options)
    deltas = _deltas(part)
    reads = _plain_reads(part, names, findings)
    _totals(part, reads, total, bool(options.get("bank_negative", False)), findings)
    if findings.model == "strict-serializable":
        _bounds(part, reads, first, findings, deltas)
        if first is None:
            findings.note(
                "nobody told the balances at the start (--initial): of each account such were"
                " looked for as fit all reads"
            )
    elif first is None:
        findings.note(f"totals alone were judged, and not the order that {findings.model} asks for")
    moved = sum(1 for op in part.of("transfer") if op.output is not False)
    findings.count(transfers=moved, reads=len(reads))
    if total is None and reads and not findings.counts:
        message = "all reads agree on a total, but nobody told which it is; -o total=N tells"
        findings.undecide(part.key, message)
    return len(reads) if moved else 0


CHECKER: Final = PerKey(
    "bank",
    decide,
    models=_MODELS,
    types=frozenset({"transfer", "read"}),
    prefix_closed=True,
    passes=frozenset({"dump"}),
    initial=dict.fromkeys(_MODELS, "the balances by account, a JSON object"),
    vacuous="no transfer was acknowledged, or nobody read the accounts",
    options={
        "bank_accounts": Option(type=int, default=None, help="bank: how many, called 0, 1, .."),
        "bank_balance": Option(type=int, default=None, help="bank: of each account at the start"),
        "bank_total": Option(type=int, default=None, help="bank: of all accounts together"),
        "total": Option(type=int, default=None, help="bank: of all accounts together"),
        "accounts": Option(
            type=str, default=None, help="bank: how many, called 0, 1, .., or names with commas"
        ),
        "bank_negative": Option(type=bool, default=None, help="bank: may accounts be overdrawn?"),
    },
)
