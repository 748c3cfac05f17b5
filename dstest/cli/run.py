"""`dstest run`, `dstest replay` and `dstest recover`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dstest.runner.session import Finished

__all__ = ["recover", "replay", "run"]

_STORE = Path("store")


def run(
    system: Annotated[str, typer.Option(help="What to test.")] = "etcd",
    workload: Annotated[str, typer.Option(help="What its clients do.")] = "register",
    nemesis: Annotated[str, typer.Option(help="Which faults; `none` for none.")] = "partition",
    lab: Annotated[str, typer.Option(help="Where the nodes come from.")] = "lxc",
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 5,
    time_limit: Annotated[float, typer.Option(help="Seconds of load.")] = 60.0,
    rate: Annotated[
        float | None,
        typer.Option(help="Offered operations per second over all clients; default closed loop."),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Logical client processes.")] = 20,
    seed: Annotated[int | None, typer.Option(help="Default: a new one, printed.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to check, default the workload's.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", help="key=value of the system, workload or nemesis."),
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            help="Faults exactly as in this file, another run's schedule.json, for --nemesis."
        ),
    ] = None,
    stop_on_violation: Annotated[
        bool, typer.Option("--stop-on-violation", help="End the run at the first proven one.")
    ] = False,
    store: Annotated[Path, typer.Option(help="Where run directories go.")] = _STORE,
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    keep_lab: Annotated[bool, typer.Option(help="Leave a lab of our own up.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """One run: nodes, load, faults with proof, verdict, report."""
    from dstest.core.rng import fresh_seed
    from dstest.core.spec import RunSpec
    from dstest.runner.plugins import resolve
    from dstest.runner.schedule_file import read_schedule
    from dstest.runner.session import run_session

    spec = RunSpec(
        system=system,
        workload=workload,
        nemesis=nemesis,
        lab=lab,
        nodes=nodes,
        time_limit_s=time_limit,
        rate=rate,
        concurrency=concurrency,
        seed=fresh_seed() if seed is None else seed,
        model=model,
        schedule=None if schedule is None else str(schedule),
        stop_on_violation=stop_on_violation,
    )
    planned = None if schedule is None else read_schedule(schedule)
    plugins = resolve(spec, option or [], schedule=planned)
    done = run_session(plugins, store=store, lab_id=lab_id, keep_lab=keep_lab)
    _show(done, json_)


def recover(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Seal and judge a run whose process died."""
    from dstest.runner.session import recover as recover_run

    _show(recover_run(run_dir), json_)


def replay(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    times: Annotated[int, typer.Option(help="How often.")] = 1,
    store: Annotated[Path, typer.Option(help="Where the new run directories go.")] = _STORE,
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run it again with the same seed: is its violation reproducible?"""
    from dstest.runner.replay import replay as replay_run

    *again, original = replay_run(run_dir, times, store=store, lab_id=lab_id)
    for done in again:
        state = "not judged" if done.verdict is None else done.verdict.verdict.value
        typer.echo(f"{state:32} {done.path}", err=True)
    _show(original, json_)


def _show(done: Finished, as_json: bool) -> None:
    import sys

    import msgspec

    if as_json:
        verdict = msgspec.to_builtins(done.verdict)
        message = None if done.failure is None else done.failure.message
        shown = {"run": str(done.path), "exit": int(done.exit_code), "ended_by": message}
        shown["verdict"] = verdict
        typer.echo(msgspec.json.encode(shown).decode())
    elif done.verdict is not None:
        from dstest.report.write import summary

        typer.echo(summary(done.path, color=sys.stdout.isatty()))
    if done.failure is not None:
        typer.echo(f"dstest: {done.failure}", err=True)
    raise typer.Exit(int(done.exit_code))
