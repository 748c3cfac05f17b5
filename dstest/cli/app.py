"""The `dstest` command: names and help only; every command imports its work when it is called."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dstest.cli.check import check
from dstest.cli.doctor import doctor
from dstest.cli.export import export
from dstest.cli.findings import findings
from dstest.cli.generate import generate
from dstest.cli.lab import lab_app
from dstest.cli.listing import list_
from dstest.cli.models import models
from dstest.cli.nemeses import nemeses
from dstest.cli.new import new
from dstest.cli.proof import proof
from dstest.cli.report import report
from dstest.cli.run import recover, replay, run
from dstest.cli.sessions import resume
from dstest.cli.streams import steady
from dstest.core import plugin_files
from dstest.core.contained import quit_by
from dstest.core.errors import DstestError, Exit
from dstest.core.printable import printable
from dstest.core.whole import is_missing, said_of

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Ends of files and of pipes are no exit 1, which typer makes of them: 1 is a violation. And no
    plug-in has the say about the exit code; ours are typer.Exit or exceptions."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise RuntimeError(f"something ended in mid-read or mid-write: {error!r}") from error
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as end:
            raise quit_by(end) from end


app = typer.Typer(
    name="dstest",
    cls=_Commands,
    help="Cluster tests that prove every fault landed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Help texts are plain: "[key value]" is no markup of Rich's.
    rich_markup_mode="markdown",
)
app.command("run")(run)
app.command("resume")(resume)
app.command("check")(check)
app.command("proof")(proof)
app.command("recover")(recover)
app.command("replay")(replay)
app.command("report")(report)
app.command("export")(export)
app.command("list")(list_)
app.command("nemeses")(nemeses)
app.command("new")(new)
app.command("generate")(generate)
app.command("models")(models)
app.command("findings")(findings)
app.command("doctor")(doctor)
app.add_typer(lab_app, name="lab")


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from dstest import __version__

        typer.echo(__version__)
        raise typer.Exit


def _read_by_a_program(words: list[str]) -> bool:
    """Is the answer to be one JSON object? Help and mistakes are for people."""
    return "--json" in words and "--help" not in words


def main() -> None:
    """Console entry point: errors of ours become one message, a remedy and their exit code."""
    steady(apart=_read_by_a_program(sys.argv[1:]))
    try:
        try:
            app()
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
