"""`dstest proof`: execute an order of transactions that an earlier check has written.

Orders of transactions that prove an answer: found for it, written, and executed.

    {"schema": "dstest.order/1", "workload": "list-append", "model": "strong-serializable",
     "transactions": [0, 3, 1, ..]}

`transactions` are ids of operations in an order of commits. What a history is, and what its keys
start with, is the history's and the user's to say: of `workload` and `model` nothing is believed.
Whoever writes one has executed it first, by what also reads it: `checkers.txn.order_replay`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import typer

from checkers.txn import order_search
from checkers.txn.apart import told_apart
from checkers.txn.api import require_kind
from checkers.txn.as_registers import replacing
from checkers.txn.columns import KINDS, VACUOUS, RepeatedError, TxnColumns, reads_test
from checkers.txn.exact import models_to_search
from checkers.txn.models import STRONGEST, canonical, implied_models
from checkers.txn.order_replay import PROVABLE, REALTIME, refutation
from checkers.txn.plugin import RW_REGISTER
from checkers.txn.sessions.formats import load_sessions
from dstest.check.notes import ASKED, start_told
from dstest.check.source import history_file, transactions_in
from dstest.check.transactions import USUAL_SESSION, begun_as, read_transactions, session_format
from dstest.cli.options import Format, Json
from dstest.core import limits
from dstest.core.check import Budget
from dstest.core.errors import ConfigError, Exit, HistoryError
from dstest.core.formats import AUTO

if TYPE_CHECKING:
    from dstest.core.check import CheckResult


def proof(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="A history file.")],
    order: Annotated[
        Path, typer.Argument(metavar="ORDER", help="What `dstest check --proof` has written.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Of transactions; default: the one that the file names.")
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="What the keys start with, as in `dstest check`."),
    ] = None,
    format_: Format = AUTO,
    budget_mb: Annotated[
        int, typer.Option("--budget-mb", help="Megabytes that reading may take.", min=1, max=2**39)
    ] = limits.CHECK_MEMORY_MB,
    json_: Json = False,
) -> None:
    """Execute the transactions of a history in a given order, and compare what each of them read.

    Nothing is searched for, and of the order file nothing else is believed: whoever has the history
    and the order need not trust what found it. Exit codes: 0 the history satisfies each model, 2
    unreadable, corrupt or wrong usage, 3 the order does not prove it; a finished run is verified
    first, and not proved where its own verdict is worse."""
    from dstest.check.file import require_format, run_at
    from dstest.check.source import readable_again
    from dstest.check.transactions import asked_models
    from dstest.cli.output import say
    from dstest.core.check import Budget

    require_format(format_)
    found = order_in(order)
    asked = asked_models(found.model if model is None else model)
    run = run_at(history)
    with readable_again(history, budget_mb) as file:
        read = history_of(file, format_, found.workload, initial, Budget(memory_mb=budget_mb))
    name = history.name or str(history)
    if run is not None and run.exit_code != Exit.PASS:
        read.doubts.append(f"the run itself is {run.verdict.verdict.value}")
    for one in asked:
        if (why := executed(read, found, one)) is not None:
            said = f"{name}: {one} is not proved by this order: {why}"
            say(_shown(Exit.NOT_PROVEN, [one], len(found.transactions), why) if json_ else said)
            raise typer.Exit(int(Exit.NOT_PROVEN))
    start = f", {read.start}" if read.start else ""
    count = f"an order of {len(found.transactions)} transactions"
    said = f"{name}: {', '.join(asked)} is proved, by {count}{start}"
    say(_shown(Exit.PASS, asked, len(found.transactions), None) if json_ else said)


def _shown(code: Exit, models: Sequence[str], transactions: int, why: str | None) -> str:
    """The answer as an object: `models` are those that are proved, or the one that is not."""
    import msgspec

    return msgspec.json.encode(
        {
            "proved": why is None,
            "exit": int(code),
            "models": list(models),
            "transactions": transactions,
            "why": why,
        }
    ).decode()


def write_order(
    history: Path,
    format_: str,
    workload: str | None,
    model: str | None,
    initial: str | None,
    result: CheckResult,
    budget: Budget,
    file: Path,
) -> None:
    """Finds an order that proves an answer, and writes it. What came of it goes to standard error:
    it changes nothing of the answer."""
    import msgspec

    from dstest.check.transactions import asked_models
    from dstest.cli.output import write_whole

    found: Order | str = "the answer is unknown"
    if result.valid is False:
        found = "the history is not valid"
    if result.valid is True:
        try:
            read = history_of(history, format_, workload, initial, budget)
            found = order_of(read, asked_models(model, read.model), budget)
        except ConfigError as error:  # the answer is about something else
            found = error.message
    if isinstance(found, str):
        old = ", which is an older one" if file.exists() else ""
        told = f"no order is written to {file}{old}: {found}"
    else:
        write_whole(file, msgspec.json.encode(found) + b"\n", "--proof")
        told = f"an order of {len(found.transactions)} transactions is in {file}: {found.model}"
    sys.stderr.write(f"dstest: {told}\n")


SCHEMA: Final = "dstest.order/1"

_REMEDY: Final = "write it with `dstest check HISTORY --proof FILE`"


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What such a file holds."""

    schema: str
    workload: str
    model: str
    transactions: list[int]


class History(NamedTuple):
    """Transactions of a file, and the models that they are held to where nobody says; `start` tells
    what the keys start with where somebody says, `doubts` why nothing proves that they are valid,
    `timeless` that the file tells no real time."""

    columns: TxnColumns
    workload: str
    model: str
    start: str
    doubts: list[str]
    timeless: bool = False


def history_of(
    path: Path, format_: str, workload: str | None, initial: str | None, budget: Budget
) -> History:
    """A history of transactions. Raises ConfigError where it is none or of another workload,
    HistoryError where it cannot be read, MemorySpent where that takes more than the budget."""
    file = history_file(path)
    fmt = session_format(file, format_)
    own = transactions_in(file) if fmt is None else RW_REGISTER.name
    named = workload or own
    if named is None or named not in KINDS:
        raise ConfigError(
            "an order is executed of list-append and rw-register, and not of "
            f"{named or 'what this file holds'}",
            remedy="--workload list-append or rw-register, where it is one of them",
        )
    if own not in (None, named):
        raise ConfigError(
            f"asked is {named}, and the history is one of {own}",
            remedy="give the history that the order is of, or --workload as the file holds",
        )
    if fmt is not None:
        columns = load_sessions(file, fmt, memory_mb=budget.memory_mb, **begun_as(initial))
        told = "" if initial is None else start_told(json.loads(initial), ASKED)
        found = History(columns, named, USUAL_SESSION, told, [], timeless=True)
    else:
        read = read_transactions(file, format_, named, budget, initial)
        found = History(
            read.columns, named, read.model or STRONGEST, read.told(initial), [*read.weak]
        )
    try:
        require_kind(found.columns, named)
    except ValueError as error:
        raise ConfigError(str(error), remedy="--workload as the file holds") from None
    weak = [f"{n} {what}" for what, n in found.columns.weak.items()]
    tested = [] if reads_test(found.columns) else [VACUOUS]
    return found._replace(doubts=[*found.doubts, *weak, *tested])


def _forms(history: History, model: str) -> list[str] | str:
    """Models of PROVABLE of which each proves a model for this history, or why there are none."""
    found = models_to_search([model]) or [
        name for name in PROVABLE if canonical(model) in implied_models(name)
    ]
    if not found:
        return f"no order of all transactions proves {model}"
    if history.timeless and all(PROVABLE[name][1] == REALTIME for name in found):
        return f"{model} asks for real time, and the file has no times"
    return found


def order_of(history: History, models: list[str], budget: Budget) -> Order | str:
    """An order that proves these models, or why there is none."""
    c, lists = history.columns, KINDS[history.workload].lists
    forms = []
    for name in models:
        if isinstance(some := _forms(history, name), str):
            return some
        forms.append(some)
    asked = list(dict.fromkeys(name for some in forms for name in some))
    names = _names(c)
    if isinstance(names, str):
        return names
    try:
        found = order_search.decide(replacing(c)[0] if lists else c, asked, budget)
    except RepeatedError as error:
        apart = None if lists else told_apart(c)
        if apart is None:
            return str(error)
        found = order_search.decide(apart, asked, budget)
    except ValueError as error:
        return str(error)
    model = found.order_model
    shown = set() if model is None else implied_models(model)
    if model is None or not all(shown & {*some} for some in forms):
        return f"none was found: {found.why_open}"
    if (why := refutation(c, lists, model, found.order)) is not None:
        return f"what was found is none: {why}"
    txns = [names[txn] for txn in found.order]
    return Order(schema=SCHEMA, workload=history.workload, model=model, transactions=txns)


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
    forms, ids = _forms(history, model), _names(history.columns)
    if isinstance(forms, str) or isinstance(ids, str):
        return forms if isinstance(forms, str) else str(ids)
    names = {name: txn for txn, name in enumerate(ids)}
    unknown = next((name for name in order.transactions if name not in names), None)
    if unknown is not None:
        return f"it names {unknown!r}, which is no transaction of the history"
    if history.doubts:
        return "; ".join(history.doubts)
    lists = KINDS[history.workload].lists
    txns = [names[name] for name in order.transactions]
    why = [refutation(history.columns, lists, form, txns) for form in forms]
    return None if None in why else why[0]


def _names(c: TxnColumns) -> list[int] | str:
    """Ids of the transactions, their places in order of invocation where any id is a string; or
    why there are none."""
    ids: list[int] = list(range(c.txns)) if c.named else c.op_index.tolist()
    return "two operations have one id" if len({*ids}) < len(ids) else ids
