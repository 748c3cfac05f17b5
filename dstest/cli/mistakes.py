"""What a mistake on the command line is told by besides: what to write instead."""

from __future__ import annotations

from typing import Any, Final

from dstest.cli.examples import EXAMPLES

_UNREAD: Final = (
    ("a valid integer", "write a whole number alone: 20, not 20s; for Jepsen's 2n on 5 nodes 10"),
    ("a valid number", "write a number alone, without a unit: 30, not 30s"),
)
_WITH_FORM: Final = ("Missing option", "Missing argument", "unexpected extra argument")


def helped(error: Any) -> None:
    """Adds to a typer error of wrong usage what would have been right, where that is known."""
    said = error.format_message()
    for unread, remedy in _UNREAD:
        if unread in said:
            error.message = f"{error.message}. Remedy: {remedy}"
            return
    form = EXAMPLES.get(_name(error))
    if form and any(words in said for words in _WITH_FORM):
        # What is missing is put before the message of such an error by typer itself.
        what = "" if said.startswith("Missing") else f"{said.rstrip('.')}. "
        error.message = f"{what}Such as: {form[0]}"


def _name(error: Any) -> str:
    """`lab up` of a mistake in that command."""
    names: list[str] = []
    ctx = getattr(error, "ctx", None)
    while ctx is not None and ctx.parent is not None:
        names.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(names)
