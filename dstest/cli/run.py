"""`dstest run`, `dstest replay`, `dstest recover` and `dstest resume`: one run or a session of
them, a run again (a simulated one also on nodes, by `--lab`), and what each came to, as the
commands print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dstest.cli import completion
from dstest.cli.lab_common import SystemVersion, enter, fetched_for, kind_of_run
from dstest.cli.options import Json
from dstest.cli.output import say
from dstest.core.words import printable

if TYPE_CHECKING:
    from dstest.campaign.session import ArmsPlan
    from dstest.campaign.session_check import SessionFinished
    from dstest.core.evidence import Tier
    from dstest.core.run_record import RunSpec
    from dstest.core.verdict import Verdict
    from dstest.report.model import RunReport
    from dstest.runner.fault_plans import Schedule as FaultSchedule
    from dstest.runner.integrity import Verify
    from dstest.runner.plugins import Plugins
    from dstest.runner.replay import ReplayOutcome
    from dstest.runner.session import Finished


def show(
    done: Finished, as_json: bool, carried: ReplayOutcome | None = None, *, verbose: bool = False
) -> NoReturn:
    """Print what a run came to and end with its exit code."""
    printed(done, as_json, carried, verbose=verbose)
    if done.failure is not None:
        typer.echo(f"dstest: {done.failure}", err=True)
    raise typer.Exit(int(done.exit_code))


def headline(path: Path, verdict: Verdict, report: RunReport | None = None) -> str:
    """As report.html begins; the reason of the verdict where the reports could not be written."""
    from dstest.core.errors import DstestError
    from dstest.report.model import load_report
    from dstest.report.summarize import headline_of

    try:
        return headline_of(report or load_report(path))
    except DstestError:
        return verdict.reason


def printed(
    done: Finished, as_json: bool, carried: ReplayOutcome | None = None, *, verbose: bool = False
) -> None:
    """What a run came to, and whether it is what a simulation had shown."""
    import sys

    import msgspec

    if as_json:
        from dstest.cli.kb import known_plain
        from dstest.judge.symptom import all_fingerprints

        verdict = msgspec.to_builtins(done.verdict)
        message = None if done.failure is None else done.failure.message
        shown = {"run": str(done.path), "exit": int(done.exit_code), "ended_by": message}
        shown["fingerprints"] = [] if done.verdict is None else all_fingerprints(done.verdict)
        shown["headline"] = (
            None if done.verdict is None else headline(done.path, done.verdict, done.report)
        )
        shown["verdict"] = verdict
        if done.verdict is not None and done.verdict.verdict.failed:
            shown |= known_plain(done.path)
        if carried is not None:
            shown["carried"] = msgspec.to_builtins(carried)
        say(msgspec.json.encode(shown).decode())
    elif done.verdict is not None:
        from dstest.cli.kb import known_lines
        from dstest.core.words import one_line
        from dstest.report.write import summary

        color = sys.stdout.isatty()
        typer.echo(summary(done.path, color=color, report=done.report, verbose=verbose))
        for line in known_lines(done.path) if done.verdict.verdict.failed else ():
            typer.echo(one_line(line))
    if carried is not None and not as_json:
        rows = {**carried.told, "violation": carried.words}
        typer.echo(f"carried     from {printable(carried.simulated)} to {carried.lab}")
        for topic, text in rows.items():
            typer.echo(f"{topic:<11} {printable(text)}")


def carried(
    path: Path,
    times: int,
    store: Path,
    *,
    lab: str | None,
    rate: float | None,
    lab_id: str | None,
    key: Path | None,
    json_: bool,
) -> NoReturn:
    """Make the runs on nodes, and end with their exit code."""
    from dstest.core.errors import ConfigError
    from dstest.runner.replay import carry, carrying, check_times

    if lab is None:
        raise ConfigError(
            "--rate is for --lab: a replay has the rate of its run", remedy="leave --rate out"
        )
    check_times(times)
    asked = carrying(path, lab, rate)
    for topic, text in asked.told.items():
        typer.echo(f"{topic}: {text}", err=True)
    runs, came = carry(asked, times, store=store, lab_id=lab_id, sign_key=key)
    for done in runs[:-1]:
        state = "not judged" if done.verdict is None else done.verdict.shown
        typer.echo(f"{state:32} {done.path}", err=True)
    show(runs[-1], json_, came)


def numbers(flag: str, text: str | None) -> list[int]:
    """`7` or `7,8,9`; empty where nothing was given. Raises ConfigError for anything else."""
    from dstest.core.errors import ConfigError

    if text is None:
        return []
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"{flag} {text!r}: not a whole number, nor several with commas between",
            remedy=f"for example {flag} 3,5",
        ) from None


def tier_of(name: str | None) -> Tier | None:
    """The tier of that name. Raises ConfigError where there is none."""
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.judge.facts import SHAPES

    for tier in SHAPES:
        if tier == name:
            return tier
    if name is not None:
        raise ConfigError(f"--tier {name!r}: no such tier", remedy=meant(name, SHAPES))
    return None


def no_single_run(*, schedule: Path | None, keep_lab: bool) -> None:
    """Refuse what makes sense for one run alone."""
    from dstest.core.errors import ConfigError

    if schedule is not None:
        raise ConfigError(
            "--schedule is for one seed and one size: a session plans the faults of each arm",
            remedy="one --seed and one size in --nodes, and no --tier above smoke",
        )
    if keep_lab:
        raise ConfigError(
            "--keep-lab is for one run: a session takes down what it brought up",
            remedy="`dstest lab up`, then run with its --lab-id",
        )


def resume(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="A session directory.")],
    sign_key: Annotated[
        Path | None,
        typer.Option(envvar="DSTEST_SIGN_KEY", help="Sign the arms' check sums with this key."),
    ] = None,
    json_: Json = False,
) -> None:
    """Go on with a session that was stopped or killed, from its first arm that is not done."""
    from dstest.campaign.session import resume as resume_session

    show_session(resume_session(session, sign_key=sign_key), json_)


def report_session(path: Path, signer: str | None, as_json: bool, judged: Verify) -> NoReturn:
    """Check a session's files, judge it again, each run by `judged`, and show it."""
    from dstest.campaign.session_check import reread

    done = reread(path, judged)
    if signer is not None:
        typer.echo(f"signed      by {signer}", err=as_json)
    show_session(done, as_json)


def show_session(done: SessionFinished, as_json: bool) -> NoReturn:
    """Print what a session came to, and exit with its code."""
    import sys

    import msgspec

    if as_json:
        from dstest.report.session import headline_of_session

        message = None if done.failure is None else done.failure.message
        verdict = done.verdict
        headline = None if verdict is None else headline_of_session(done.path, verdict)
        shown = {
            "session": str(done.path),
            "exit": int(done.exit_code),
            "ended_by": message,
            "headline": headline,
            "verdict": msgspec.to_builtins(verdict),
        }
        say(msgspec.json.encode(shown).decode())
    elif done.verdict is not None:
        from dstest.report.session import session_text
        from dstest.runner.session_file import SessionDir

        file = SessionDir.open(done.path).read()
        color = sys.stdout.isatty()
        typer.echo(
            session_text(done.path, file.spec, file.options_given, done.verdict, color=color)
        )
    if done.failure is not None:
        typer.echo(f"dstest: {done.failure}", err=True)
    if done.verdict is None:
        typer.echo(f"dstest: the session goes on with `dstest resume {done.path}`", err=True)
    raise typer.Exit(int(done.exit_code))


_STORE = Path("store")
_WHAT = "What is tested"
_MUCH = "How much"
_JUDGED = "How it is judged"
_WHERE = "Where its nodes are"
_GOES = "What comes out"


RunDirectory = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run directory.", autocompletion=completion.runs),
]
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
        help="Sample what servers use and say, once a second (docs/explain.md).",
        rich_help_panel=_JUDGED,
    ),
]
Confirm = Annotated[
    int | None,
    typer.Option(
        help="Run what fails so many times again, with its seed and its faults. Default 1 in a"
        " session, 0 in one run.",
        min=0,
        max=100,
        show_default=False,
        rich_help_panel=_JUDGED,
    ),
]
StoreDir = Annotated[Path, typer.Option(help="Where run directories go.", rich_help_panel=_GOES)]
LabId = Annotated[
    str | None, typer.Option(help="Use or make the lab of this name.", rich_help_panel=_WHERE)
]
Attach = Annotated[
    bool,
    typer.Option(
        "--attach",
        help="The system runs already on the nodes of the lab: neither start nor stop it.",
        rich_help_panel=_WHERE,
    ),
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
Verbose = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        help="Each fault with its counters, all witnesses and remedies.",
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
    confirm: Confirm = None,
    monitor: Monitor = True,
    store: StoreDir = _STORE,
    lab_id: LabId = None,
    attach: Attach = False,
    keep_lab: KeepLab = False,
    sign_key: SignKey = None,
    verbose: Verbose = False,
    json_: AsJson = False,
) -> None:
    """One run: nodes, load, faults with proof, verdict, report. Several seeds or sizes, or a tier
    above smoke: a session of runs with one verdict."""
    from dstest.core.builds import builds_of
    from dstest.core.run_record import RunSpec
    from dstest.runner.plugins import resolve

    _check_key(sign_key)
    parts = _parts(plugin or [], system, workload, nemesis, checker or [])
    option = [*(option or []), *(["catch_up=true"] if catch_up else [])]
    planned = None if schedule is None else _scheduled(schedule, nemesis and parts["nemesis"])
    plan = _arms(tier, seed, seeds, nodes, time_limit)
    spec = RunSpec(
        **parts,
        lab=kind_of_run(lab_id, lab),
        nodes=plan.arms[0][0],
        time_limit_s=plan.time_limit_s,
        rate=rate,
        concurrency=concurrency,
        seed=plan.arms[0][1],
        model=model,
        schedule=None if schedule is None else str(schedule),
        stop_on_violation=stop_on_violation,
        monitor=monitor,
        attach=attach,
        builds=builds_of(fetched_for(parts["system"], system_version)),
    )
    enter(spec, lab_id, keep_lab=keep_lab)
    if len(plan.arms) > 1 or plan.tier != "smoke":
        no_single_run(schedule=schedule, keep_lab=keep_lab)
        show_session(_session(spec, option, plan, store, lab_id, sign_key, confirm), json_)
    plugins = resolve(spec, option, schedule=planned)
    done = _one(plugins, plan.tier, store, lab_id, keep_lab, sign_key, confirm)
    show(done, json_, verbose=verbose)


def _arms(
    tier: str | None, seed: str | None, seeds: int | None, nodes: str | None, limit_s: float | None
) -> ArmsPlan:
    """A run for each seed and size."""
    from dstest.campaign.session import plan_arms
    from dstest.core.rng import fresh_seed

    named = numbers("--seed", seed)
    return plan_arms(
        tier=tier_of(tier),
        seeds=named,
        count=seeds,
        sizes=numbers("--nodes", nodes),
        time_limit_s=limit_s,
        first_seed=named[0] if named else fresh_seed(),
    )


def _again(
    done: Finished, times: int, store: Path, lab_id: str | None, sign_key: Path | None
) -> Finished:
    """The same run once it is known whether its violation comes again."""
    from msgspec.structs import replace

    from dstest.core.errors import DstestError
    from dstest.history.layout import link_latest, read_verdict
    from dstest.runner.replay import replay

    typer.echo(f"dstest: it failed; run again, {times} time{'s' * (times > 1)}", err=True)
    try:
        *_, known = replay(done.path, times, store=store, lab_id=lab_id, sign_key=sign_key)
    except (DstestError, KeyboardInterrupt) as error:  # it has failed all the same
        typer.echo(f"dstest: not run again: {str(error) or 'interrupted'}", err=True)
        return replace(done, verdict=read_verdict(done.path), report=None)
    finally:
        link_latest(store, done.path)
    return known


def _session(
    spec: RunSpec,
    option: list[str],
    plan: ArmsPlan,
    store: Path,
    lab_id: str | None,
    sign_key: Path | None,
    confirm: int | None,
) -> SessionFinished:
    from dstest.campaign.session import begin

    times = 1 if confirm is None else confirm
    return begin(spec, option, plan, store=store, lab_id=lab_id, confirm=times, sign_key=sign_key)


def _one(
    plugins: Plugins,
    tier: Tier,
    store: Path,
    lab_id: str | None,
    keep_lab: bool,
    sign_key: Path | None,
    confirm: int | None,
) -> Finished:
    """A run by itself, that is no part of a session; made again where it fails."""
    from dstest.runner.session import run_session

    done = run_session(
        plugins, store=store, lab_id=lab_id, keep_lab=keep_lab, tier=tier, sign_key=sign_key
    )
    if not confirm or done.verdict is None or not done.verdict.verdict.failed:
        return done
    return _again(done, confirm, store, lab_id, sign_key)


def _parts(
    files: list[Path], system: str, workload: str, nemesis: str | None, checkers: list[str]
) -> dict[str, Any]:
    """Those fields of a `RunSpec` that name plug-ins, and their files."""
    from dstest.core.registry import files_in_use, named_in, use

    use(files)
    return {
        "system": named_in("systems", system),
        "workload": named_in("workloads", workload),
        "nemesis": named_in("nemeses", "partition" if nemesis is None else nemesis),
        "checkers": tuple(named_in("checkers", name) for name in checkers),
        "files": tuple(map(str, files_in_use())),
    }


def _check_key(sign_key: Path | None) -> None:
    from dstest.history.sums import check_key

    if sign_key is not None:
        check_key(sign_key)


def _scheduled(path: Path, nemesis: str | None) -> FaultSchedule:
    """The schedule in a file. Raises ConfigError where `nemesis` is not the one that it plans."""
    from dstest.core.errors import ConfigError
    from dstest.runner.fault_plans import read_schedule

    schedule = read_schedule(path)
    if nemesis not in (None, schedule.nemesis):
        raise ConfigError(
            f"--nemesis {nemesis}, but {path} plans {schedule.nemesis}",
            remedy="leave --nemesis out: a schedule names its own faults",
        )
    return schedule


def recover(
    run_dir: RunDirectory,
    sign_key: SignKey = None,
    verbose: Verbose = False,
    json_: AsJson = False,
) -> None:
    """Seal and judge a run whose process died; judge a finished one again.

    Logs of its servers that its nodes still have are fetched before.
    """
    from dstest.cli.lab_common import lab_left
    from dstest.history.layout import RunDir
    from dstest.runner.session import recover as recover_run

    done = recover_run(run_dir, sign_key=sign_key)
    meta = RunDir.open(done.path).read_meta()
    early = None if meta is None else meta.ended_by or None
    if done.failure is None or done.failure.message != early:
        show(done, json_, verbose=verbose)
    printed(done, json_, verbose=verbose)
    typer.echo(f"recovered: the run ended early ({early}), what it recorded is judged", err=True)
    if meta is not None and (left := lab_left(meta)):
        typer.echo(left, err=True)
    raise typer.Exit(int(done.exit_code))


def replay(
    run_dir: RunDirectory,
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
    lab_id: LabId = None,
    sign_key: SignKey = None,
    verbose: Verbose = False,
    json_: AsJson = False,
) -> None:
    """Run it again with the same seed: is its violation reproducible?"""
    from dstest.runner.replay import replay as replay_run

    if lab is not None or rate is not None:
        carried(run_dir, times, store, lab=lab, rate=rate, lab_id=lab_id, key=sign_key, json_=json_)
    *again, original = replay_run(run_dir, times, store=store, lab_id=lab_id, sign_key=sign_key)
    for done in again:
        state = "not judged" if done.verdict is None else done.verdict.shown
        typer.echo(f"{state:32} {done.path}", err=True)
    show(original, json_, verbose=verbose)
