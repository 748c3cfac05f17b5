"""The commands of `dstest` by name. Each is imported when it is the one that is called, or when all
of them are asked for, as help does."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from dstest.core.contained import quit_by

__all__ = ["COMMANDS", "app_of"]

_GROUPS: Final = MappingProxyType(
    {
        "plan": "plan_run:plan_app",
        "nightly": "nightly:nightly_app",
        "store": "store:store_app",
        "workers": "workers:workers_app",
        "lab": "lab:lab_app",
    }
)

_PANELS: Final = MappingProxyType(
    {
        "Test a cluster": {
            "run": "run:run",
            "resume": "sessions:resume",
            "report": "report:report",
            "options": "options:options",
            "list": "listing:list_",
            "nemeses": "nemeses:nemeses",
            "findings": "findings:findings",
        },
        "After a failure": {
            "replay": "run:replay",
            "blame": "blame:blame",
            "shrink": "shrink:shrink",
            "recover": "run:recover",
        },
        "Judge a history": {
            "check": "check:check",
            "proof": "proof:proof",
            "models": "models:models",
            "generate": "generate:generate",
            "export": "export:export",
        },
        "Many runs, and releases": {
            "plan": _GROUPS["plan"],
            "nightly": _GROUPS["nightly"],
            "gate": "gate:gate",
            "compare": "compare:compare",
            "store": _GROUPS["store"],
            "serve": "serve:serve",
        },
        "Machines, and what is yours": {
            "lab": _GROUPS["lab"],
            "workers": _GROUPS["workers"],
            "doctor": "doctor:doctor",
            "new": "new:new",
        },
    }
)

COMMANDS: Final = MappingProxyType(
    {name: where for panel in _PANELS.values() for name, where in panel.items()}
)
"""Module below `dstest.cli` and what it is called there, in the order of the help."""

_PANEL_OF: Final = MappingProxyType(
    {name: title for title, panel in _PANELS.items() for name in panel}
)


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


def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from dstest import __version__

        typer.echo(__version__)
        raise typer.Exit


def app_of(*names: str) -> typer.Typer:
    """`dstest` with these of its commands. Raises KeyError for a name that is none."""
    app = typer.Typer(
        name="dstest",
        cls=_Commands,
        help="Cluster tests that prove every fault landed.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=True,
        # Help texts are plain: "[key value]" is no markup of Rich's.
        rich_markup_mode="markdown",
    )
    app.callback(invoke_without_command=True)(_top)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        made = getattr(import_module(f"dstest.cli.{module}"), function)
        if name in _GROUPS:
            app.add_typer(made, name=name, rich_help_panel=_PANEL_OF[name])
        else:
            app.command(name, rich_help_panel=_PANEL_OF[name])(made)
    return app
