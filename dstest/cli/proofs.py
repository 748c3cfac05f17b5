"""Orders of transactions that prove an answer: found for it, written, and executed.

    {"schema": "dstest.order/1", "workload": "list-append", "model": "strong-serializable",
     "initial": .., "transactions": [0, 3, 1, ..]}

`transactions` are ids of operations in an order of commits; `initial` stands where `--initial` was
given. Whoever writes one has executed it first, by what also reads it: `checkers.txn.order_replay`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from checkers.txn import ordered
from checkers.txn.as_registers import replacing
from checkers.txn.columns import TxnColumns
from checkers.txn.exact import needed
from checkers.txn.models import STRONGEST, implied_models
from checkers.txn.order_replay import PROVABLE, REALTIME, refuted
from checkers.txn.plugin import RW_REGISTER
from checkers.txn.sessions.formats import load_sessions
from checkers.txn.tested import VACUOUS, reads_test
from checkers.txn.workloads import KINDS
from dstest.cli.check_look import transactions_in
from dstest.cli.check_sessions import USUAL, begun_as, session_format
from dstest.cli.check_source import history_file
from dstest.cli.check_txn import read_transactions
from dstest.core.check import Budget
from dstest.core.errors import ConfigError, HistoryError

__all__ = ["SCHEMA", "History", "Order", "executed", "history_of", "order_in", "order_of"]

SCHEMA: Final = "dstest.order/1"

_REMEDY: Final = "write it with `dstest check HISTORY --proof FILE`"


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What such a file holds."""

    schema: str = SCHEMA
    workload: str
    model: str
    initial: Any = msgspec.UNSET
    transactions: list[int | str]

    @property
    def starts(self) -> bool:
        """Does it say what the keys start with?"""
        return self.initial is not msgspec.UNSET


class History(NamedTuple):
    """Transactions of a file, and the models that they are held to where nobody says; `doubts` say
    why nothing proves that they are valid, `timeless` that the file tells no real time."""

    columns: TxnColumns
    workload: str
    model: str
    doubts: list[str]
    timeless: bool = False


def history_of(
    path: Path, format_: str, workload: str | None, initial: str | None, budget: Budget
) -> History:
    """A history of transactions. Raises ConfigError where it is none, HistoryError where it cannot
    be read, MemorySpent where that takes more than the budget."""
    file = history_file(path)
    if (fmt := session_format(file, format_)) is not None:
        columns = load_sessions(file, fmt, memory_mb=budget.memory_mb, **begun_as(initial))
        found = History(columns, RW_REGISTER.name, USUAL, [], timeless=True)
    else:
        named = workload or transactions_in(file)
        if named is None or named not in KINDS:
            raise ConfigError(
                "an order of transactions is for list-append and rw-register alone",
                remedy="--workload list-append or rw-register, where the file holds these",
            )
        read = read_transactions(file, format_, named, budget, initial)
        found = History(read.columns, named, read.model or STRONGEST, read.weak)
    weak = [f"{n} {what}" for what, n in found.columns.weak.items()]
    tested = [] if reads_test(found.columns) else [VACUOUS]
    return found._replace(doubts=[*found.doubts, *weak, *tested])


def _forms(history: History, model: str) -> list[str]:
    """Models of PROVABLE of which each proves a model for this history. Raises ConfigError where
    there are none."""
    found = needed([model])
    if not found:
        raise ConfigError(
            f"{model} asks for no order of all transactions",
            remedy="--model serializable or snapshot-isolation, which imply it where they hold",
        )
    if history.timeless and all(PROVABLE[name][1] == REALTIME for name in found):
        raise ConfigError(
            f"{model} asks for real time, and the file has no times", remedy=f"--model {USUAL}"
        )
    return found


def order_of(
    history: History, models: list[str], initial: str | None, budget: Budget
) -> Order | str:
    """An order that proves these models, or why there is none."""
    c, lists = history.columns, KINDS[history.workload].lists
    forms = [_forms(history, model) for model in models]
    asked = list(dict.fromkeys(name for some in forms for name in some))
    names = _names(c)
    try:
        found = ordered.decide(replacing(c)[0] if lists else c, asked, budget)
    except ValueError as error:
        raise HistoryError(str(error), remedy="see what `dstest check` says of it") from None
    model = found.order_model
    shown = set() if model is None else implied_models(model)
    if model is None or not all(shown & {*some} for some in forms):
        violated = any(said == "violated" for said in found.decisions.values())
        return "none exists" if violated else f"none was found: {found.why_open}"
    if (why := refuted(c, lists, model, found.order)) is not None:
        return f"what was found is none: {why}"
    given = {} if initial is None else {"initial": json.loads(initial)}
    return Order(
        workload=history.workload,
        model=model,
        transactions=[names[txn] for txn in found.order],
        **given,
    )


def order_in(path: Path) -> Order:
    """The order in a file. Raises HistoryError where there is none."""
    try:
        order = msgspec.json.decode(path.read_bytes(), type=Order)
    except OSError as error:
        raise HistoryError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{path} holds no order: {error}", remedy=_REMEDY) from None
    if order.schema != SCHEMA:
        raise HistoryError(f"{path} is no {SCHEMA}, but {order.schema[:40]!r}", remedy=_REMEDY)
    return order


def executed(history: History, order: Order, model: str) -> str | None:
    """Why an order does not prove that the history satisfies a model; None where it does."""
    forms = _forms(history, model)
    names = {name: txn for txn, name in enumerate(_names(history.columns))}
    unknown = next((name for name in order.transactions if name not in names), None)
    if unknown is not None:
        return f"it names {unknown!r}, which is no transaction of the history"
    if history.doubts:
        return "; ".join(history.doubts)
    lists = KINDS[history.workload].lists
    txns = [names[name] for name in order.transactions]
    why = [refuted(history.columns, lists, form, txns) for form in forms]
    return None if None in why else why[0]


def _names(c: TxnColumns) -> list[int | str]:
    """Ids of the transactions. Raises HistoryError where two have one."""
    ids: list[int | str] = c.op_index.tolist()
    if len(np.unique(c.op_index)) < len(ids):
        raise HistoryError(
            "two operations have one id: an order could not name them",
            remedy="give each event its own :index",
        )
    return ids
