"""What the command line runs: the command that is asked for, and what becomes of its errors."""

from __future__ import annotations

import sys
import traceback

import typer

from dstest.cli.commands import COMMANDS, app_of
from dstest.cli.streams import steady
from dstest.core import plugin_files
from dstest.core.errors import DstestError, Exit
from dstest.core.printable import printable
from dstest.core.whole import is_missing, said_of

__all__ = ["main"]


def _read_by_a_program(words: list[str]) -> bool:
    """Is the answer to be one JSON object? Help and mistakes are for people."""
    return "--json" in words and "--help" not in words


def main() -> None:
    """Console entry point: errors of ours become one message, a remedy and their exit code."""
    words = sys.argv[1:]
    asked = [word for word in words[:1] if word in COMMANDS]
    steady(apart=_read_by_a_program(words))
    try:
        try:
            app_of(*(asked or COMMANDS))()
        finally:
            sys.stdout.flush()
    except DstestError as error:
        typer.echo(printable(f"dstest: {error}"), err=True)
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        typer.echo("dstest: interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except SystemExit as end:
        if end.code == int(Exit.INTERRUPTED):
            typer.echo("dstest: interrupted", err=True)
        raise
    except (MemoryError, RecursionError) as error:
        typer.echo(f"dstest: {type(error).__name__}: the input is too large to be judged", err=True)
        sys.exit(int(Exit.NOT_PROVEN))
    except Exception as error:
        # Exit 1 means that a violation was found; a bug must not look like one.
        place = plugin_files.place_of(error)
        own = any(place.startswith(f"{path}, ") for path in plugin_files.used())
        if isinstance(error, ImportError) and is_missing(error) and not own:
            typer.echo(said_of(error), err=True)
            sys.exit(int(Exit.HARNESS))
        traceback.print_exc()
        whose = f"a bug in {place}" if own else "a bug of dstest, not of what it tests"
        typer.echo(f"dstest: this is {whose}", err=True)
        sys.exit(int(Exit.HARNESS))
