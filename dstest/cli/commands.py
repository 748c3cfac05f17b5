"""The commands of `dstest` by name. Each is imported when it is the one that is called, or when all
of them are asked for; the list of all in the help needs none of them. A mistake on the command line
is told with what to write instead.

Examples of each command, for its help: one to three lines that can be typed as they are, with
other names of files and runs. `tests/unit/test_examples.py` reads each as the command would.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from dstest.core.processes import quit_by

_GROUPS: Final = MappingProxyType(
    {
        "plan": "plan:plan_app",
        "nightly": "nightly:nightly_app",
        "store": "store:store_app",
        "workers": "nightly:workers_app",
        "lab": "lab:lab_app",
        "spec": "spec:spec_app",
        "chaos": "chaos:chaos_app",
        "kb": "kb:kb_app",
        "monitor": "observe:monitor_app",
    }
)

_PANELS: Final = MappingProxyType(
    {
        "Test a cluster": {
            "run": "run:run",
            "sim": "simulate:sim",
            "list": "listing:list_",
            "options": "listing:options",
            "report": "report:report",
            "check": "check:check",
        },
        "After a failure": {
            "explain": "explain:explain",
            "confirm": "shrink:confirm",
            "recover": "run:recover",
            "resume": "run:resume",
        },
        "Many runs, and releases": {
            "nightly": _GROUPS["nightly"],
            "plan": _GROUPS["plan"],
            "gate": "gate:gate",
            "compare": "compare:compare",
            "store": _GROUPS["store"],
            "serve": "store:serve",
        },
        "Machines, and what is yours": {
            "lab": _GROUPS["lab"],
            "doctor": "doctor:doctor",
            "new": "new:new",
            "spec": _GROUPS["spec"],
        },
    }
)

_PARTS: Final = MappingProxyType(
    {
        "parts of explain": {
            "debug": "observe:debug",
            "logs": "observe:logs",
            "trace": "observe:trace",
            "monitor": _GROUPS["monitor"],
        },
        "parts of confirm": {
            "replay": "run:replay",
            "blame": "shrink:blame",
            "shrink": "shrink:shrink",
        },
        "histories": {
            "generate": "simulate:generate",
            "export": "simulate:export",
            "proof": "proof:proof",
            "models": "models:models",
        },
        "what is known": {
            "nemeses": "listing:nemeses",
            "points": "points:points",
            "findings": "findings:findings",
            "kb": _GROUPS["kb"],
        },
        "more": {"chaos": _GROUPS["chaos"], "workers": _GROUPS["workers"]},
    }
)
"""Commands that the list in the help only names: others tell of them where they are needed."""

COMMANDS: Final = MappingProxyType(
    {
        name: where
        for panel in (*_PANELS.values(), *_PARTS.values())
        for name, where in panel.items()
    }
)
"""Module below `dstest.cli` and what it is called there, in the order of the help."""

_PANEL_OF: Final = MappingProxyType(
    {name: title for title, panel in _PANELS.items() for name in panel}
)


_CODES: Final = (
    "Also: "
    + "; ".join(f"{what}: {', '.join(names)}" for what, names in _PARTS.items())
    + ". Each has --help.\n\n"
    "Exit codes: 0 a pass; 1 a violation; 2 wrong usage, or a file that cannot be read; 3 not "
    "proven; 4 the lab or dstest itself failed; 130 interrupted, nodes healed."
)

SAYS: Final = MappingProxyType(
    {
        "run": "One run: nodes, load, faults with proof, verdict, report.",
        "sim": "Simulate a system, seed by seed: the same servers, clients, workloads and checkers"
        " as on nodes, on a simulated network, clock and disk.",
        "list": "What can be run, and what was.",
        "options": "List every `-o` that a run takes: type, default, what it may be, what it does.",
        "report": "Check a run's files, draw report.html, findings.md, junit.xml and the plots.",
        "check": "Judge a history: ours, a run directory, Jepsen EDN, Jepsen JSON, a Jepsen log, or"
        " sessions of Plume, DBCop, Cobra or AWDIT",
        "explain": "Why did it go so? Of a run: settings, what was found, the likeliest causes with"
        " their evidence, and what logs and measurements show that no fault explains.",
        "confirm": "Is the violation there again, is the system to blame or are we, and how little"
        " does it take?",
        "recover": "Seal and judge a run whose process died; judge a finished one again.",
        "resume": "Go on with a session that was stopped or killed, from its first arm that is not"
        " done.",
        "nightly": "Many cells with their controls, over night: `dstest nightly nightly.toml`.",
        "plan": "Test plans: write, check, show; what judges which claim.",
        "gate": "Judge all runs again, unless the policy believes them, and decide by it whether a"
        " release is let through.",
        "compare": "Compare runs with runs",
        "store": "Runs that are kept: look, compare, throw away.",
        "serve": "Look at a store in a browser: search, filter, two runs side by side, trends,"
        " violations over runs, what is running.",
        "lab": "Nodes: bring up, look at, log in, take down.",
        "doctor": "Check this machine and the labs that run on it.",
        "new": "Write a file of your own that runs at once, and a test of it.",
        "spec": "Specifications that are executed: all of their states, random walks, why an"
        " action cannot be taken, and real runs held to them.",
        "debug": "Look for twenty-seven patterns of failure in a run, and say in four steps what"
        " was observed, what it may be (ranked, with evidence)",
        "logs": "Check the logs of all nodes: silent nodes, votes, messages, states, partitions",
        "trace": "Read traces: the critical path by time",
        "monitor": "What was measured of nodes, servers and clients of a run: `dstest monitor"
        " store/latest`.",
        "replay": "Run it again with the same seed: is its violation reproducible?",
        "blame": "Run it again, and through a second client: is the system to blame, or are we?",
        "shrink": "Fewer faults, shorter windows, less load: what still shows the violation, run by"
        " run.",
        "generate": "Write a history of a simulated store at a known isolation level.",
        "export": "Write a history as Jepsen op maps, one event per line, or as Parquet, a row per"
        " operation.",
        "proof": "Execute the transactions of a history in a given order, and compare what each of"
        " them read.",
        "models": "List the consistency models of transactions, what each implies and which"
        " anomalies it rules out",
        "nemeses": "All kinds of faults: what each needs, which nemesis delivers it, or why none"
        " does.",
        "points": "Functions of a program, by its own tables",
        "findings": "What was published of these systems, one command each; with IDs, run them.",
        "kb": "Findings remembered over stores, and notes by hand: seen before, mended by what.",
        "chaos": "Faults for plain HTTP services: a seeded proxy, an open-loop load, what failed by"
        " itself and what by a fault.",
        "workers": "Machines that work for others: dstest is put there as it is here.",
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
                helped(error)
            raise
        except BaseException as end:
            raise quit_by(end) from end


class _Outline(_Commands):
    """Help in panels, plain: what draws it in colours takes half of the time of a help text."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in ("help", "version"):
            ctx.fail(f"no such command {args[0]!r}; did you mean --{args[0]}?")
        return super().resolve_command(ctx, args)

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
        app.command(
            name,
            help=SAYS.get(name),
            rich_help_panel=_PANEL_OF.get(name),
            hidden=name not in _PANEL_OF,
        )(_not_here)
    return app


def _not_here() -> None:
    raise RuntimeError("a command of the outline was called")


def app_of(*names: str) -> typer.Typer:
    """`dstest` with these of its commands. Raises KeyError for a name that is none."""

    app = _bare(_Commands, "markdown")
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        made = getattr(import_module(f"dstest.cli.{module}"), function)
        if name in _GROUPS:
            for command in made.registered_commands:
                command.epilog = epilog_of(f"{name} {command.name or command.callback.__name__}")
            panel, hidden = _PANEL_OF.get(name), name not in _PANEL_OF
            app.add_typer(made, name=name, rich_help_panel=panel, hidden=hidden)
        else:
            panel, hidden = _PANEL_OF.get(name), name not in _PANEL_OF
            app.command(name, rich_help_panel=panel, epilog=epilog_of(name), hidden=hidden)(made)
    return app


_UNREAD: Final = (
    ("a valid int", "write a whole number alone: 20, not 20s; for Jepsen's 2n on 5 nodes 10"),
    ("a valid number", "write a number alone, without a unit: 30, not 30s"),
    ("a valid float", "write a number alone, without a unit: 30, not 30s"),
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


EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        "dstest run",
        "dstest run --system etcd --workload register --nemesis partition --time-limit 60 --seed 7",
        "dstest run --system redis-sentinel --nemesis kill -o fault_s=5 --tier hardening",
    ),
    "sim": (
        "dstest sim --system toykv --workload register --seeds 100",
        "dstest sim --seeds 1 --seed 7 --log sim.log",
    ),
    "resume": ("dstest resume store/latest",),
    "report": (
        "dstest report store/latest",
        "dstest report store --out ci --github",
    ),
    "options": ("dstest options --system etcd --workload register --nemesis kill",),
    "list": (
        "dstest list",
        "dstest list --system etcd --nemesis kill",
        "dstest list --runs --store store",
    ),
    "nemeses": ("dstest nemeses",),
    "points": ("dstest points /usr/bin/etcd --search compaction",),
    "findings": (
        "dstest findings",
        "dstest findings F01 --seeds 3",
    ),
    "replay": (
        "dstest replay store/latest --times 3",
        "dstest replay store/latest --lab lxc",
    ),
    "explain": ("dstest explain store/latest",),
    "confirm": ("dstest confirm store/latest", "dstest confirm store/latest --within 20 --times 1"),
    "blame": ("dstest blame store/latest",),
    "shrink": ("dstest shrink store/latest --within 30",),
    "recover": ("dstest recover store/latest",),
    "debug": (
        "dstest debug store/latest",
        "dstest debug store/latest --all --set recovery_s=60",
        "dstest debug store/latest --write --thresholds mine.toml",
    ),
    "logs": (
        "dstest logs store/latest",
        "dstest logs logs --nodes n1,n2,n3 --system etcd --check network-partition",
    ),
    "trace": (
        "dstest trace store/latest --html trace.html",
        "dstest trace spans.json --trace 4bf92f3577b34da6a3ce929d0e0e4736",
    ),
    "monitor show": (
        "dstest monitor show store/latest",
        "dstest monitor show store/latest --thresholds mine.toml --set p99_ms=2000 --json",
    ),
    "monitor scale": (
        "dstest monitor scale store/latest --metric net_sent/op --expect n",
        "dstest monitor scale run3 run5 run9 --metric p95",
    ),
    "check": (
        "dstest check store/latest",
        "dstest check history.edn --model strict-serializable",
        "dstest check history.jsonl --json",
    ),
    "proof": ("dstest proof history.jsonl order.json",),
    "models": (
        "dstest models",
        "dstest models --objects --json",
    ),
    "generate": (
        (
            "dstest generate --workload list-append --txns 1000 --level serializabl"
            "e --output history.jsonl"
        ),
    ),
    "export": ("dstest export store/latest --to edn --output history.edn",),
    "kb learn": ("dstest kb learn store",),
    "kb show": ("dstest kb show", "dstest kb show K1"),
    "kb similar": ("dstest kb similar store/latest",),
    "kb fix": ("dstest kb fix K1 --commit 4f2a1c --note 'reads go through the leader'",),
    "kb note": (
        "dstest kb note 'queue grows after a failover' --hypothesis 'lost acks' --module broker",
    ),
    "kb notes": ("dstest kb notes", "dstest kb notes queue grows"),
    "kb stats": ("dstest kb stats",),
    "chaos run": ("dstest chaos run chaos.toml --out before",),
    "chaos report": ("dstest chaos report before",),
    "chaos diff": ("dstest chaos diff before after",),
    "gate": ("dstest gate store --policy gate.toml",),
    "compare": (
        "dstest compare --baseline RUN_A --candidate RUN_B",
        (
            "dstest compare --baseline A1 --baseline A2 --baseline A3 --candidate B"
            "1 --candidate B2 --candidate B3"
        ),
    ),
    "serve": (
        "dstest serve store",
        "dstest serve store --export pages",
    ),
    "doctor": ("dstest doctor",),
    "new": ("dstest new system mydb",),
    "spec conform": ("dstest spec conform lock.py run.log --log",),
    "spec ledger": (
        "dstest spec ledger mismatches.jsonl",
        "dstest spec ledger mismatches.jsonl --fix 1f2e3d4c5b6a --what 'terms are synced first'",
    ),
    "spec layers": ("dstest spec layers lock.py explored.json walked.json conformed.json",),
    "spec live": ("dstest spec live raft-status --ask 10.0.0.1:7700 --ask 10.0.0.2:7700",),
    "spec against": ("dstest spec against lock.py server.py:Server --seed 7",),
    "spec why": ("dstest spec why lock.py release --after trace.json --events 2",),
    "spec knock": ("dstest spec knock lock.py trace.json",),
    "spec drive": ("dstest spec drive lock.py --where 's.holder is not None' --out schedule.json",),
    "spec chart": ("dstest spec chart lock.py trace.json",),
    "spec weaker": ("dstest spec weaker lock.py --since main",),
    "spec bisect": ("dstest spec bisect v1.0 main -- make check",),
    "spec export": ("dstest spec export lock.py --to quint --output lock.qnt",),
    "spec list": ("dstest spec list",),
    "spec explore": ("dstest spec explore lock.py --max-states 100000",),
    "spec simulate": ("dstest spec simulate lock.py --walks 1000 --seed 7",),
    "spec mutate": ("dstest spec mutate lock.py",),
    "plan new": ("dstest plan new --system etcd --output plan.md",),
    "plan lint": ("dstest plan lint plan.md --strict",),
    "plan show": ("dstest plan show plan.md",),
    "plan trace": ("dstest plan trace plan.md --json",),
    "plan toolbox": ("dstest plan toolbox --system etcd",),
    "plan run": ("dstest plan run plan.md",),
    "plan resume": ("dstest plan resume store/plans/etcd",),
    "plan status": ("dstest plan status store/plans/etcd",),
    "plan report": ("dstest plan report store/plans/etcd",),
    "plan author": ("dstest plan author plan.md",),
    "nightly run": ("dstest nightly run nightly.toml --workers 2",),
    "nightly show": ("dstest nightly show nightly.toml",),
    "nightly resume": ("dstest nightly resume store/all-systems/20261127T220000Z",),
    "nightly status": ("dstest nightly status store/all-systems/20261127T220000Z",),
    "nightly report": ("dstest nightly report store/all-systems/20261127T220000Z",),
    "nightly index": ("dstest nightly index store/all-systems",),
    "store list": ("dstest store list store",),
    "store show": ("dstest store show store/latest",),
    "store diff": ("dstest store diff RUN_A RUN_B",),
    "store prune": ("dstest store prune store --keep-days 30",),
    "store verify": ("dstest store verify store --verdicts",),
    "lab up": (
        "dstest lab up --nodes 3",
        "dstest lab up --lab-id mine --system etcd",
    ),
    "lab image": ("dstest lab image --system etcd",),
    "lab down": (
        "dstest lab down",
        "dstest lab down --all",
    ),
    "lab gc": ("dstest lab gc --images",),
    "lab adopt": ("dstest lab adopt nodes.toml --lab-id mine",),
    "lab release": ("dstest lab release --lab-id mine",),
    "lab exec": ("dstest lab exec --node n1 -- uname -a",),
    "lab put": ("dstest lab put app.conf /tmp/app.conf --node n1",),
    "lab get": ("dstest lab get /var/log/syslog logs",),
    "lab logs": ("dstest lab logs --node n1",),
    "lab shell": ("dstest lab shell n1",),
    "lab status": ("dstest lab status",),
    "lab list": ("dstest lab list",),
    "lab ssh": ("dstest lab ssh n1",),
    "workers pack": ("dstest workers pack workers.tar",),
    "workers put": ("dstest workers put host1,host2",),
}
"""By the words after `dstest`."""


def epilog_of(name: str) -> str | None:
    """What stands below the help of a command; None where it has none."""
    lines = EXAMPLES.get(name)
    return None if lines is None else "\n\n".join(["Examples:", *(f"- `{line}`" for line in lines)])
