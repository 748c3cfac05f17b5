"""`dstest proof`: execute an order of transactions that an earlier check has written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.core import limits
from dstest.core.errors import ConfigError, Exit
from dstest.core.formats import AUTO, FORMATS

if TYPE_CHECKING:
    from dstest.cli.proofs import Order
    from dstest.core.check import Budget, CheckResult


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
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join([AUTO, *FORMATS])}.")
    ] = AUTO,
    budget_mb: Annotated[
        int, typer.Option("--budget-mb", help="Megabytes that reading may take.", min=1, max=2**39)
    ] = limits.CHECK_MEMORY_MB,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Execute the transactions of a history in a given order, and compare what each of them read.

    Nothing is searched for, and of the order file nothing else is believed: whoever has the history
    and the order need not trust what found it. Exit codes: 0 the history satisfies each model, 2
    unreadable, corrupt or wrong usage, 3 the order does not prove it; a finished run is verified
    first, and not proved where its own verdict is worse."""
    from dstest.cli.check_options import require_format
    from dstest.cli.check_run import run_at
    from dstest.cli.check_txn import asked_models
    from dstest.cli.output import say
    from dstest.cli.proofs import executed, history_of, order_in
    from dstest.cli.spool import readable_again
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

    from dstest.cli.check_txn import asked_models
    from dstest.cli.output import write_whole
    from dstest.cli.proofs import history_of, order_of

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
