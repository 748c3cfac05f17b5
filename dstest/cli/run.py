"""`dstest run`, `dstest replay` and `dstest recover`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli import completion
from dstest.cli.carried import carried
from dstest.cli.finished import printed, show
from dstest.cli.lab_common import SystemVersion, kind_of_run
from dstest.cli.secluded import enter
from dstest.cli.sessions import no_single_run, numbers, show_session, tier_of

if TYPE_CHECKING:
    from dstest.core.tiers import Tier
    from dstest.runner.plugins import Plugins
    from dstest.runner.schedule_file import Schedule as FaultSchedule
    from dstest.runner.session import Finished

_STORE = Path("store")
_WHAT = "What is tested"
_MUCH = "How much"
_JUDGED = "How it is judged"
_WHERE = "Where its nodes are"
_GOES = "What comes out"


System = Annotated[
    str,
    typer.Option(
        help="What to test: a name, or a file of your own.",
        rich_help_panel=_WHAT,
        autocompletion=completion.systems,
    ),
]
Workload = Annotated[
    str,
    typer.Option(
        help="What its clients do: a name, or a file of your own.",
        rich_help_panel=_WHAT,
        autocompletion=completion.workloads,
    ),
]
Nemesis = Annotated[
    str | None,
    typer.Option(
        help="Which faults; `none` for none. Default partition.",
        rich_help_panel=_WHAT,
        autocompletion=completion.nemeses,
    ),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        help="A file of your own with a system, workload, nemesis or checker.",
        rich_help_panel=_WHAT,
    ),
]
Lab = Annotated[
    str | None,
    typer.Option(
        help="Where the nodes come from; default: as those of the lab of this id, else lxc.",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(help="How many nodes; 3,5 runs both sizes. Default 5.", rich_help_panel=_MUCH),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        help="Seconds of load. Default 60, or what the tier asks for; more where faults take longer"
        " than planned.",
        rich_help_panel=_MUCH,
    ),
]
CatchUp = Annotated[
    bool,
    typer.Option(
        "--catch-up",
        help="With --rate, after a pause: send what is overdue as fast as clients can.",
        rich_help_panel=_MUCH,
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        help="Offered operations per second over all clients; default closed loop, or what the lab"
        " says.",
        rich_help_panel=_MUCH,
    ),
]
Concurrency = Annotated[int, typer.Option(help="Logical client processes.", rich_help_panel=_MUCH)]
Seed = Annotated[
    str | None,
    typer.Option(
        help="7, or several as 7,8,9. Default: a new one, printed.", rich_help_panel=_MUCH
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        help="How many seeds: a session with an arm for each.",
        min=1,
        max=1000,
        rich_help_panel=_MUCH,
    ),
]
TierName = Annotated[
    str | None,
    typer.Option(
        help="smoke, hardening or release: a session that meets this budget.", rich_help_panel=_MUCH
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Model to check, default the workload's.",
        rich_help_panel=_JUDGED,
        autocompletion=completion.models,
    ),
]
Checkers = Annotated[
    list[str] | None,
    typer.Option(
        help="Ask this one besides the workload's own: a name, or a file of your own.",
        autocompletion=completion.checkers,
        rich_help_panel=_JUDGED,
    ),
]
Pairs = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        help="key=value of the system, workload or nemesis; `dstest options` lists them.",
        autocompletion=completion.pairs,
        rich_help_panel=_WHAT,
    ),
]
Schedule = Annotated[
    Path | None,
    typer.Option(
        help="Faults exactly as in this file, another run's schedule.json, for --nemesis.",
        rich_help_panel=_WHAT,
    ),
]
StopOnViolation = Annotated[
    bool,
    typer.Option(
        "--stop-on-violation", help="End the run at the first proven one.", rich_help_panel=_JUDGED
    ),
]
Monitor = Annotated[
    bool,
    typer.Option(
        "--monitor/--no-monitor",
        help="Sample what servers use and say, once a second (docs/monitor.md).",
        rich_help_panel=_JUDGED,
    ),
]
StoreDir = Annotated[Path, typer.Option(help="Where run directories go.", rich_help_panel=_GOES)]
LabId = Annotated[
    str | None, typer.Option(help="Use or make the lab of this name.", rich_help_panel=_WHERE)
]
KeepLab = Annotated[bool, typer.Option(help="Leave a lab of our own up.", rich_help_panel=_WHERE)]
SignKey = Annotated[
    Path | None,
    typer.Option(
        envvar="DSTEST_SIGN_KEY",
        help="Sign the run's check sums with this key of ssh-keygen.",
        rich_help_panel=_GOES,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=_GOES)
]


def run(
    system: System = "etcd",
    workload: Workload = "register",
    nemesis: Nemesis = None,
    plugin: Plugin = None,
    system_version: SystemVersion = None,
    lab: Lab = None,
    nodes: Nodes = None,
    time_limit: TimeLimit = None,
    rate: Rate = None,
    catch_up: CatchUp = False,
    concurrency: Concurrency = 20,
    seed: Seed = None,
    seeds: Seeds = None,
    tier: TierName = None,
    model: Model = None,
    checker: Checkers = None,
    option: Pairs = None,
    schedule: Schedule = None,
    stop_on_violation: StopOnViolation = False,
    monitor: Monitor = True,
    store: StoreDir = _STORE,
    lab_id: LabId = None,
    keep_lab: KeepLab = False,
    sign_key: SignKey = None,
    json_: AsJson = False,
) -> None:
    """One run: nodes, load, faults with proof, verdict, report. Several seeds or sizes, or a tier
    above smoke: a session of runs with one verdict."""
    from dstest.core.builds import builds_of
    from dstest.core.rng import fresh_seed
    from dstest.core.spec import RunSpec
    from dstest.runner.arms import begin, plan_arms
    from dstest.runner.plugins import resolve

    _check_key(sign_key)
    parts = _parts(plugin or [], system, workload, nemesis, checker or [])
    option = [*(option or []), *(["catch_up=true"] if catch_up else [])]
    planned = None if schedule is None else _scheduled(schedule, nemesis and parts["nemesis"])
    named = numbers("--seed", seed)
    plan = plan_arms(
        tier=tier_of(tier),
        seeds=named,
        count=seeds,
        sizes=numbers("--nodes", nodes),
        time_limit_s=time_limit,
        first_seed=named[0] if named else fresh_seed(),
    )
    size, first = plan.arms[0]
    spec = RunSpec(
        **parts,
        lab=kind_of_run(lab_id, lab),
        nodes=size,
        time_limit_s=plan.time_limit_s,
        rate=rate,
        concurrency=concurrency,
        seed=first,
        model=model,
        schedule=None if schedule is None else str(schedule),
        stop_on_violation=stop_on_violation,
        monitor=monitor,
        builds=builds_of(system_version or []),
    )
    enter(spec, lab_id, keep_lab=keep_lab)
    if len(plan.arms) > 1 or plan.tier != "smoke":
        no_single_run(schedule=schedule, keep_lab=keep_lab)
        whole = begin(spec, option, plan, store=store, lab_id=lab_id, sign_key=sign_key)
        show_session(whole, json_)
    plugins = resolve(spec, option, schedule=planned)
    show(_one(plugins, plan.tier, store, lab_id, keep_lab, sign_key), json_)


def _one(
    plugins: Plugins,
    tier: Tier,
    store: Path,
    lab_id: str | None,
    keep_lab: bool,
    sign_key: Path | None,
) -> Finished:
    """A run by itself, that is no part of a session."""
    from dstest.runner.session import run_session

    return run_session(
        plugins, store=store, lab_id=lab_id, keep_lab=keep_lab, tier=tier, sign_key=sign_key
    )


def _parts(
    files: list[Path], system: str, workload: str, nemesis: str | None, checkers: list[str]
) -> dict[str, Any]:
    """Those fields of a `RunSpec` that name plug-ins, and their files."""
    from dstest.core.plugin_files import named_in, use, used

    use(files)
    return {
        "system": named_in("systems", system),
        "workload": named_in("workloads", workload),
        "nemesis": named_in("nemeses", "partition" if nemesis is None else nemesis),
        "checkers": tuple(named_in("checkers", name) for name in checkers),
        "files": tuple(map(str, used())),
    }


def _check_key(sign_key: Path | None) -> None:
    from dstest.store.signing import check_key

    if sign_key is not None:
        check_key(sign_key)


def _scheduled(path: Path, nemesis: str | None) -> FaultSchedule:
    """The schedule in a file. Raises ConfigError where `nemesis` is not the one that it plans."""
    from dstest.core.errors import ConfigError
    from dstest.runner.schedule_file import read_schedule

    schedule = read_schedule(path)
    if nemesis not in (None, schedule.nemesis):
        raise ConfigError(
            f"--nemesis {nemesis}, but {path} plans {schedule.nemesis}",
            remedy="leave --nemesis out: a schedule names its own faults",
        )
    return schedule


def recover(
    run_dir: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run directory.",
            autocompletion=completion.runs,
        ),
    ],
    sign_key: SignKey = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Seal and judge a run whose process died; judge a finished one again.

    Logs of its servers that its nodes still have are fetched before.
    """
    from dstest.cli.lab_of_run import lab_left
    from dstest.runner.session import recover as recover_run
    from dstest.store.layout import RunDir

    done = recover_run(run_dir, sign_key=sign_key)
    meta = RunDir.open(done.path).read_meta()
    early = None if meta is None else meta.ended_by or None
    if done.failure is None or done.failure.message != early:
        show(done, json_)
    printed(done, json_)
    typer.echo(f"recovered: the run ended early ({early}), what it recorded is judged", err=True)
    if meta is not None and (left := lab_left(meta)):
        typer.echo(left, err=True)
    raise typer.Exit(int(done.exit_code))


def replay(
    run_dir: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run directory.",
            autocompletion=completion.runs,
        ),
    ],
    times: Annotated[int, typer.Option(help="How often.")] = 1,
    store: Annotated[Path, typer.Option(help="Where the new run directories go.")] = _STORE,
    lab: Annotated[
        str | None,
        typer.Option(help="Of a simulated run: look for its violation on nodes of this lab."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="With --lab: operations per second there; default as the lab says."),
    ] = None,
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    sign_key: SignKey = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run it again with the same seed: is its violation reproducible?"""
    from dstest.runner.replay import replay as replay_run

    if lab is not None or rate is not None:
        carried(run_dir, times, store, lab=lab, rate=rate, lab_id=lab_id, key=sign_key, json_=json_)
    *again, original = replay_run(run_dir, times, store=store, lab_id=lab_id, sign_key=sign_key)
    for done in again:
        state = "not judged" if done.verdict is None else done.verdict.verdict.value
        typer.echo(f"{state:32} {done.path}", err=True)
    show(original, json_)
