"""What the command line runs: the command that is asked for, and what becomes of its errors.

An error is told to people on standard error. Where a program reads the answer, it gets the error as
its answer: one JSON object with `error`, `remedy` (null where none is known) and `exit_code`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Final

import typer

from dstest.cli.commands import COMMANDS, app_of, outline
from dstest.cli.output import answered, say, steady
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.core.processes import ends_by_us_alone
from dstest.core.whole import STARVED, is_missing, is_starved, missing_line
from dstest.core.words import printable

_READ_ON: Final = "standard error says more"


def _read_by_a_program(words: list[str]) -> bool:
    """Is the answer to be one JSON object? Help and mistakes are for people."""
    return "--json" in words and not {"-h", "--help"} & {*words}


def main() -> None:
    """Console entry point: errors of ours become one message, a remedy and their exit code."""
    words = sys.argv[1:]
    by_program = _read_by_a_program(words)
    steady(apart=by_program)
    try:
        _main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(Exit.HARNESS)
        if by_program and code != int(Exit.PASS):
            _answer(end, code)
        raise


def _answer(end: SystemExit, code: int) -> None:
    """The error as an object, unless the command has given its answer before it ended."""
    from json import dumps

    error = end.__context__
    if isinstance(error, DstestError):
        what, remedy = error.message, error.remedy
    elif error is not None and hasattr(error, "format_message"):  # of typer: wrong usage
        what, remedy = error.format_message(), f"`{_command(error)} --help` lists what there is"
    elif isinstance(error, KeyboardInterrupt) or code == int(Exit.INTERRUPTED):
        what, remedy = "interrupted", None
    elif isinstance(error, Exception) and not isinstance(error, typer.Exit):
        what, remedy = f"{type(error).__name__}: {error}", _READ_ON
    else:
        what, remedy = f"ended with exit code {code}", _READ_ON
    shown = {"error": printable(what), "remedy": remedy, "exit_code": code}
    with contextlib.suppress(DstestError):  # told already, by whoever met it first
        if not answered():
            say(dumps(shown, ensure_ascii=False))


def _command(error: BaseException) -> str:
    ctx = getattr(error, "ctx", None)
    return str(getattr(ctx, "command_path", None) or "dstest").replace("__main__.py", "dstest")


def _require_words(words: list[str]) -> None:
    """Raises ConfigError where one is empty, as of a variable that is not set: as a path that would
    be the current directory, as an address every one. What follows `--` is for somebody else."""
    ours = words[: words.index("--")] if "--" in words else words
    for at, word in enumerate(ours):
        name = word[:-1] if word.startswith("--") and word.find("=") == len(word) - 1 else ""
        if word and not name:
            continue
        before = name or (ours[at - 1] if at else "dstest")
        raise ConfigError(
            f"an empty word {'after' if word == '' else 'for'} {before}",
            remedy="is a variable of the shell not set? Leave it out for the default; `.` is the "
            "current directory",
        )


def _terminated(signum: int, frame: FrameType | None) -> None:
    """SIGTERM ends a command as Ctrl-C does: what it has made aside goes with it."""
    raise KeyboardInterrupt


def _main(words: list[str]) -> None:
    asked = [word for word in words[:1] if word in COMMANDS]
    # Help, and what is no command, need none of them; a shell that completes may need any.
    completes = any(name.endswith("_COMPLETE") for name in os.environ)
    known = completes or any(word in COMMANDS for word in words)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        from checkers import _core

        _core.exit_guard(Exit.HARNESS)  # of a library that ends the process
        ends_by_us_alone()
        _require_words(words)
        try:
            (app_of(*(asked or COMMANDS)) if known else outline())()
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
    except PermissionError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(printable(f"dstest: {where}{error.strerror}"), err=True)
        typer.echo(
            "remedy: make it readable for this user, or run the command as its owner", err=True
        )
        sys.exit(int(Exit.USAGE))
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while a class was being made
            typer.echo("dstest: interrupted", err=True)
            sys.exit(int(Exit.INTERRUPTED))
        if is_starved(error):
            typer.echo(STARVED, err=True)
            sys.exit(int(Exit.HARNESS))
        if isinstance(error, MemoryError | RecursionError):
            kind = type(error).__name__
            typer.echo(f"dstest: {kind}: the input is too large to be judged", err=True)
            sys.exit(int(Exit.NOT_PROVEN))
        from dstest.core import registry
        from dstest.core.extras import lacking

        # Exit 1 means that a violation was found; a bug must not look like one.
        place = registry.place_of(error)
        own = any(place.startswith(f"{path}, ") for path in registry.files_in_use())
        if not own and (needs := lacking(error)):
            typer.echo(printable(f"dstest: {needs}"), err=True)
            sys.exit(int(needs.exit_code))
        if isinstance(error, ImportError) and is_missing(error) and not own:
            typer.echo(missing_line(error), err=True)
            sys.exit(int(Exit.HARNESS))
        traceback.print_exc()
        whose = f"a bug in {place}" if own else "a bug of dstest, not of what it tests"
        typer.echo(f"dstest: this is {whose}", err=True)
        sys.exit(int(Exit.HARNESS))
