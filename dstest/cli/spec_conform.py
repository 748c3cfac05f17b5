"""`dstest spec conform`: is what was recorded a behaviour of the specification?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dstest.cli.output import require_writable, say
from dstest.cli.spec_common import Constants, Given, Json, as_json
from dstest.cli.spec_ledger import noted
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.core.run_meta import Logs
    from dstest.spec.bounds import Watch
    from dstest.spec.conformed import Conformed
    from dstest.spec.model import Model

RUN_JSON: Final = "run.json"
HISTORY: Final = "history.jsonl"


def conform(
    spec: Given,
    recorded: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A history, a run directory, or with --log a log. Of a specification of servers: "
            "a run directory, for the logs of all of them.",
        ),
    ],
    log: Annotated[
        bool, typer.Option("--log", help="What a server wrote, in its order: JSON, a line each.")
    ] = False,
    kind: Annotated[
        str, typer.Option(metavar="FIELD", help="Of --log: what says of what kind a line is.")
    ] = "kind",
    frontier: Annotated[
        int, typer.Option(min=1, help="States to look at for one record, at most.")
    ] = 20_000,
    within: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, help="Then it is inconclusive.")
    ] = 600.0,
    memory: Annotated[
        int, typer.Option(metavar="MB", min=1, help="Of the process; then it is inconclusive.")
    ] = 4096,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Enter a rejection there (`dstest spec ledger`)."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Of --ledger: under which commit. Default: git's HEAD here.")
    ] = None,
    constants: Constants = None,
    json_: Json = False,
) -> None:
    """Is what was recorded a behaviour of the specification? Operations of unknown outcome took
    effect, or did not; then the records are held to controls: two of them exchanged, outputs
    replaced, guards left out.

    Exits with 0 where all of it is one, with 1 where it is none, by the index of the record that
    cannot be, with 2 where the file contradicts itself, as `dstest check` says it, and with 3 where
    a bound was met (states, seconds, memory), nothing could have been refused, or lines of a server
    are missing. Long ones tell on stderr how far they are."""
    from dstest.spec.bounds import Watch
    from dstest.spec.conformed import as_data, lines
    from dstest.spec.load import load, of_logs

    if ledger is not None:
        from dstest.spec.versions import head_of

        require_writable(ledger, "--ledger")
        commit = commit or head_of(Path.cwd())
    model = load(spec, constants or ())
    if log or model.spec.server_log:
        model = of_logs(model)
    watch = Watch(within, memory, _progress)
    said = _compared(model, recorded, kind if log else None, frontier, watch)
    if json_:
        as_json(as_data(said))
    else:
        for line in lines(said):
            say(line)
    if ledger is not None:
        for line in noted(ledger, model, said, commit):
            typer.echo(line, err=json_)
    code = {"accept": Exit.PASS, "reject": Exit.FAIL}.get(said.verdict, Exit.NOT_PROVEN)
    raise typer.Exit(code)


def _compared(
    model: Model, recorded: Path, kind: str | None, frontier: int, watch: Watch
) -> Conformed:
    """`kind` is the field of a log that holds the kind of a line; None for what is no log."""
    from dstest.spec.conform import conform_log
    from dstest.spec.log_file import cut_off, read_log

    if kind is None:
        of = _of_servers if model.spec.server_log else _of_history
        return of(model, recorded, frontier, watch)
    said = conform_log(model, read_log(recorded, kind), frontier_max=frontier, watch=watch)
    if cut_off(recorded):
        said.missing["(a last line that was cut off)"] = 1
    return said


def _progress(text: str) -> None:
    typer.echo(text, err=True)


def _of_servers(model: Model, path: Path, frontier: int, watch: Watch) -> Conformed:
    """The logs of all servers of a run; what cannot be placed in their order is left out."""
    from dstest.core.errors import ConfigError
    from dstest.spec.conform import conform_log
    from dstest.spec.merged import log_of_run
    from dstest.store.layout import EVENTS

    if not path.is_dir():
        raise ConfigError(
            f"{path}: {model.name} is held to the logs of servers",
            remedy="a run directory, or with --log one log",
        )
    file = model.spec.server_log
    nodes, over, kept = _of_run(
        path, lambda name: name.startswith("nodes/") and name.endswith(f"/{file}")
    )
    logs = log_of_run(path / "nodes", file)
    said = conform_log(model, logs.events, frontier_max=frontier, watch=watch)
    for name, count in logs.left_out.items():
        said.missing[f"({name}: after the last line that can be placed)"] = count
    for name, count in logs.damaged.items():
        said.missing[f"({name}: lines that cannot be read)"] = count
    there = {event.fields["at"].rpartition(":")[0] for event in logs.events}
    lost = [f"{name} of {RUN_JSON} has no line in a {file}" for name in nodes if name not in there]
    if not nodes:
        lost.append(f"no {RUN_JSON} says of which nodes there should be a {file}")
    elif not over:
        lost.append("the run is not over: its servers may have written more")
    elif kept is not None:
        lost += [*kept.gaps(lambda name: name == file), *_otherwise(path, kept, there, file)]
    elif not (path / EVENTS).is_file():  # of a simulation nothing has to be fetched
        lost.append(f"no {RUN_JSON} says how much was kept of each {file}")
    lost += logs.lost
    if lost and said.verdict != "reject":
        said.verdict = "inconclusive"
    said.weak += lost
    return said


def _otherwise(path: Path, kept: Logs, there: Iterable[str], file: str) -> Iterator[str]:
    """Files whose size is not the one that was written down of them."""
    for name in sorted(there):
        one = kept.files.get(f"{name}/{file}")
        size = (path / "nodes" / name / file).stat().st_size
        if one is None or one.kept != size:
            said = "nothing" if one is None else f"{one.kept:,}"
            yield f"{name}: {size:,} bytes of its {file} are there, {RUN_JSON} says {said}"


def _of_run(path: Path, only: Callable[[str], bool]) -> tuple[list[str], bool, Logs | None]:
    """The nodes that a run says it has, none where it says nothing, whether it is over, and what it
    says that it has kept of logs. Raises EvidenceError where what is to be read is not as the run
    has summed it up."""
    import msgspec

    from dstest.core.run_meta import Logs
    from dstest.runner.integrity import finished, intact
    from dstest.store.layout import RunDir

    run = RunDir(path)
    over = finished(run)
    if over:
        intact(run, lambda name: name == RUN_JSON or only(name))
    meta = run.read_json(RUN_JSON)
    nodes = meta.get("nodes") if isinstance(meta, dict) else None
    try:
        kept = msgspec.convert(meta.get("logs"), Logs | None) if isinstance(meta, dict) else None
    except msgspec.ValidationError:
        kept = None
    return [str(name) for name in nodes] if isinstance(nodes, list) else [], over, kept


def _of_history(model: Model, path: Path, frontier: int, watch: Watch) -> Conformed:
    """What a history file cannot show, its reader says: then nothing is accepted. Raises
    HistoryError where it contradicts itself, by the lints and in the words of `dstest check`."""
    from dstest.cli.check_lints import require_sound
    from dstest.cli.check_source import history_file
    from dstest.spec.conform import conform_history
    from dstest.store.importers import load_history

    if path.is_dir():
        _of_run(path, lambda name: name == HISTORY)
    weak: list[str] = []
    history = load_history(history_file(path), weak=weak)
    weak += require_sound(history, weak)
    said = conform_history(model, history.ops, frontier_max=frontier, watch=watch)
    if weak and said.verdict == "accept":
        said.verdict = "vacuous"
    said.weak += weak
    return said
