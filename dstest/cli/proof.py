"""`dstest proof`: execute an order of transactions that an earlier check has written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.core import limits
from dstest.core.errors import Exit
from dstest.core.formats import AUTO, FORMATS

if TYPE_CHECKING:
    from dstest.core.check import Budget

__all__ = ["proof", "write_order"]


def proof(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="A history file.")],
    order: Annotated[
        Path, typer.Argument(metavar="ORDER", help="What `dstest check --proof` has written.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Of transactions; default: the one that the file names.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join([AUTO, *FORMATS])}.")
    ] = AUTO,
    budget_mb: Annotated[
        int, typer.Option("--budget-mb", help="Megabytes that reading may take.")
    ] = limits.CHECK_MEMORY_MB,
) -> None:
    """Execute the transactions of a history in a given order, and compare what each of them read.

    Nothing is searched for: whoever has the history and the order need not believe what found it.
    Exit codes: 0 the history satisfies the model, 2 unreadable, corrupt or wrong usage, 3 the order
    does not prove it."""
    import json

    from dstest.cli.check_options import require_format
    from dstest.cli.check_txn import asked_models
    from dstest.cli.output import say
    from dstest.cli.proofs import executed, history_of, order_in
    from dstest.core.check import Budget

    require_format(format_)
    found = order_in(order)
    (asked,) = asked_models(model or found.model)[:1]
    initial = json.dumps(found.initial) if found.starts else None
    budget = Budget(memory_mb=budget_mb)
    read = history_of(history, format_, found.workload, initial, budget)
    why = executed(read, found, asked)
    name = history.name or str(history)
    if why is None:
        say(f"{name}: {asked} is proved, by an order of {len(found.transactions)} transactions")
        return
    say(f"{name}: {asked} is not proved by this order: {why}")
    raise typer.Exit(int(Exit.NOT_PROVEN))


def write_order(
    history: Path,
    format_: str,
    workload: str | None,
    model: str | None,
    initial: str | None,
    budget: Budget,
    file: Path,
) -> None:
    """Finds an order that proves what is asked, and writes it. What came of it goes to standard
    error: the answer is another one's."""
    import msgspec

    from dstest.cli.check_txn import asked_models
    from dstest.cli.output import write_whole
    from dstest.cli.proofs import history_of, order_of

    read = history_of(history, format_, workload, initial, budget)
    found = order_of(read, asked_models(model, read.model), initial, budget)
    if isinstance(found, str):
        told = f"no order is written to {file}: {found}"
    else:
        write_whole(file, msgspec.json.encode(found) + b"\n", "--proof")
        told = f"an order of {len(found.transactions)} transactions is in {file}: {found.model}"
    sys.stderr.write(f"dstest: {told}\n")
