"""The commands of `dstest` by name. Each is imported when it is the one that is called, or when all
of them are asked for; the list of all in the help needs none of them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from dstest.core.contained import quit_by

_GROUPS: Final = MappingProxyType(
    {
        "plan": "plan_run:plan_app",
        "nightly": "nightly:nightly_app",
        "store": "store:store_app",
        "workers": "workers:workers_app",
        "lab": "lab:lab_app",
        "spec": "spec:spec_app",
        "chaos": "chaos:chaos_app",
        "kb": "kb:kb_app",
        "monitor": "monitor:monitor_app",
    }
)

_PANELS: Final = MappingProxyType(
    {
        "Test a cluster": {
            "run": "run:run",
            "sim": "sim:sim",
            "resume": "sessions:resume",
            "report": "report:report",
            "options": "options:options",
            "list": "listing:list_",
            "nemeses": "nemeses:nemeses",
            "findings": "findings:findings",
            "chaos": _GROUPS["chaos"],
        },
        "After a failure": {
            "replay": "run:replay",
            "blame": "blame:blame",
            "shrink": "shrink:shrink",
            "recover": "run:recover",
            "debug": "debug:debug",
            "logs": "logs:logs",
            "trace": "trace:trace",
            "monitor": _GROUPS["monitor"],
            "kb": _GROUPS["kb"],
        },
        "Judge a history": {
            "check": "check:check",
            "proof": "proof:proof",
            "models": "models:models",
            "spec": _GROUPS["spec"],
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


_CODES: Final = (
    "Exit codes: 0 a pass; 1 a violation; 2 wrong usage, or a file that cannot be read; 3 not "
    "proven; 4 the lab or dstest itself failed; 130 interrupted, nodes healed."
)

SAYS: Final = MappingProxyType(
    {
        "run": "One run: nodes, load, faults with proof, verdict, report.",
        "sim": "Simulate a system, seed by seed: the same servers, clients, workloads and checkers"
        " as on nodes, on a simulated network, clock and disk.",
        "resume": "Go on with a session that was stopped or killed, from its first arm that is not"
        " done.",
        "report": "Check a run's files, draw report.html, findings.md, junit.xml and the plots.",
        "options": "List every `-o` that a run takes: type, default, what it may be, what it does.",
        "list": "What can be run, and what was.",
        "nemeses": "All kinds of faults: what each needs, which nemesis delivers it, or why none"
        " does.",
        "findings": "What was published of these systems, one command each; with IDs, run them.",
        "chaos": "Faults for plain HTTP services: a seeded proxy, an open-loop load, what failed by"
        " itself and what by a fault.",
        "replay": "Run it again with the same seed: is its violation reproducible?",
        "blame": "Run it again, and through a second client: is the system to blame, or are we?",
        "shrink": "Fewer faults, shorter windows, less load: what still shows the violation, run by"
        " run.",
        "recover": "Seal and judge a run whose process died; judge a finished one again.",
        "debug": "Look for twenty-seven patterns of failure in a run, and say in four steps what"
        " was observed, what it may be (ranked, with evidence)",
        "logs": "Check the logs of all nodes: silent nodes, votes, messages, states, partitions",
        "trace": "Read traces: the critical path by time",
        "monitor": "What was measured of nodes, servers and clients of a run: `dstest monitor"
        " store/latest`.",
        "kb": "Findings remembered over stores: seen before, mended by what, come back.",
        "check": "Judge a history: ours, a run directory, Jepsen EDN, Jepsen JSON, a Jepsen log, or"
        " sessions of Plume, DBCop, Cobra or AWDIT",
        "proof": "Execute the transactions of a history in a given order, and compare what each of"
        " them read.",
        "models": "List the consistency models of transactions, what each implies and which"
        " anomalies it rules out",
        "spec": "Specifications that are executed: all of their states, random walks, why an"
        " action cannot be taken, and real runs held to them.",
        "generate": "Write a history of a simulated store at a known isolation level.",
        "export": "Write a history as Jepsen op maps, one event per line, or as Parquet, a row per"
        " operation.",
        "plan": "Test plans: write, check, show; what judges which claim.",
        "nightly": "Many cells with their controls, over night: `dstest nightly nightly.toml`.",
        "gate": "Judge all runs again, unless the policy believes them, and decide by it whether a"
        " release is let through.",
        "compare": "Compare runs with runs",
        "store": "Runs that are kept: look, compare, throw away.",
        "serve": "Look at a store in a browser: search, filter, two runs side by side, trends,"
        " violations over runs, what is running.",
        "lab": "Nodes: bring up, look at, log in, take down.",
        "workers": "Machines that work for others: dstest is put there as it is here.",
        "doctor": "Check this machine and the labs that run on it.",
        "new": "Write a file of your own that runs at once, and a test of it.",
    }
)
"""What each begins its own help with: read here, the list of commands costs no import of them."""


class _Commands(TyperGroup):
    """Ends of files and of pipes are no exit 1, which typer makes of them: 1 is a violation. And no
    plug-in has the say about the exit code; ours are typer.Exit or exceptions."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise RuntimeError(f"something ended in mid-read or mid-write: {error!r}") from error
        except (Exception, KeyboardInterrupt) as error:
            if hasattr(error, "format_message"):  # of typer: wrong usage
                from dstest.cli.mistakes import helped

                helped(error)
            raise
        except BaseException as end:
            raise quit_by(end) from end


class _Outline(_Commands):
    """Help in panels, plain: what draws it in colours takes half of the time of a help text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in _PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name, SAYS.get(name, "")) for name in names])


def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from dstest import __version__

        typer.echo(__version__)
        raise typer.Exit


def _bare(cls: type[TyperGroup], mode: Literal["markdown"] | None) -> typer.Typer:
    app = typer.Typer(
        name="dstest",
        cls=cls,
        help="Cluster tests that prove every fault landed.",
        no_args_is_help=True,
        epilog=_CODES,
        pretty_exceptions_enable=False,
        add_completion=True,
        # Help texts are plain: "[key value]" is no markup of Rich's.
        rich_markup_mode=mode,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback(invoke_without_command=True)(_top)
    return app


def outline() -> typer.Typer:
    """`dstest` with all of its commands as its help lists them: none of them can be called."""
    app = _bare(_Outline, None)
    for name in COMMANDS:
        app.command(name, help=SAYS.get(name), rich_help_panel=_PANEL_OF[name])(_not_here)
    return app


def _not_here() -> None:
    raise RuntimeError("a command of the outline was called")


def app_of(*names: str) -> typer.Typer:
    """`dstest` with these of its commands. Raises KeyError for a name that is none."""
    from dstest.cli.examples import epilog_of

    app = _bare(_Commands, "markdown")
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        made = getattr(import_module(f"dstest.cli.{module}"), function)
        if name in _GROUPS:
            for command in made.registered_commands:
                command.epilog = epilog_of(f"{name} {command.name or command.callback.__name__}")
            app.add_typer(made, name=name, rich_help_panel=_PANEL_OF[name])
        else:
            panel, epilog = _PANEL_OF[name], epilog_of(name)
            app.command(name, rich_help_panel=panel, epilog=epilog)(made)
    return app
