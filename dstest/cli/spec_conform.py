"""`dstest spec conform`: is what was recorded a behaviour of the specification? And `dstest spec
ledger`: what was tried against a mismatch, and whether it came again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dstest.cli.options import Json
from dstest.cli.output import require_writable, say, write_whole
from dstest.cli.spec_common import Constants, Given, as_json
from dstest.core.errors import ConfigError, Exit

if TYPE_CHECKING:
    from dstest.core.run_record import Logs
    from dstest.spec.conform import Explain
    from dstest.spec.conformance import ConformResult
    from dstest.spec.explained import Explained
    from dstest.spec.ledger import Circle, Mismatch, Worsening
    from dstest.spec.model import Model, Watch


def noted(path: Path, model: Model, said: ConformResult, commit: str | None) -> list[str]:
    """Enter a rejection into a ledger; what is to be said of that."""
    from dstest.spec.ledger import circles, mismatch_of, read_mismatches, record, worsenings
    from dstest.spec.sources import head_of

    if said.verdict != "reject":
        return []
    read_mismatches(path)  # a damaged one is not added to
    seen = mismatch_of(model, said, commit or head_of(Path.cwd()))
    record(path, seen)
    rows = read_mismatches(path)
    circle = [one for one in circles(rows) if one.fingerprint == seen.fingerprint]
    worse = map(_worse, worsenings(rows)[-1:])
    here = f"mismatch {seen.fingerprint} under {seen.commit}, in {path}"
    return [here, *map(_circle, circle), *worse]


def ledger(
    path: Annotated[
        Path, typer.Argument(metavar="LEDGER", help="As `dstest spec conform --ledger` writes it.")
    ],
    fix: Annotated[
        str | None,
        typer.Option(metavar="MISMATCH", help="Note what was done about it, by its 12 digits."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Of --fix: by which commit. Default: git's HEAD here.")
    ] = None,
    what: Annotated[str, typer.Option(metavar="TEXT", help="Of --fix: what was done.")] = "",
    json_: Json = False,
) -> None:
    """Mismatches between a specification and a system, what was done about each, and whether it
    came again: the same one under three commits is going in circles, and so is a harness that
    forgives more under each of three (ignores, hidden actions, rules that are gone).

    Exits with 0 where nothing goes in circles, with 1 where something does."""
    from dstest.spec.ledger import (
        circles,
        forgiven,
        mark_fixed,
        read_mismatches,
        record,
        worsenings,
    )
    from dstest.spec.sources import head_of

    if not path.is_file():
        raise ConfigError(
            f"there is no ledger {path}", remedy=f"dstest spec conform .. --ledger {path}"
        )
    if fix is None and (commit or what):
        raise ConfigError("--commit and --what are of --fix", remedy="--fix MISMATCH")
    if fix is not None:
        if not what:
            raise ConfigError("nothing is said of what was done", remedy="--what TEXT")
        record(path, mark_fixed(read_mismatches(path), fix, commit or head_of(Path.cwd()), what))
    rows = read_mismatches(path)
    going, worse = circles(rows), worsenings(rows)
    if json_:
        mismatches = _by_fingerprint(rows)
        more = {"forgiven": forgiven(rows), "worsenings": worse}
        as_json({"mismatches": mismatches, "circles": going, **more})
    else:
        _print(rows, going, forgiven(rows))
        for one in worse:
            say(_worse(one))
    raise typer.Exit(Exit.FAIL if going or worse else Exit.PASS)


def _by_fingerprint(rows: list[Mismatch]) -> dict[str, list[Mismatch]]:
    found: dict[str, list[Mismatch]] = {}
    for one in rows:
        found.setdefault(one.fingerprint, []).append(one)
    return found


def _print(rows: list[Mismatch], going: list[Circle], grew: list[tuple[str, float]]) -> None:
    for fingerprint, lines in _by_fingerprint(rows).items():
        first = lines[0]
        by = ", ".join(f"{name} ({level})" for name, level in first.guards)
        say(f"{fingerprint}  {first.action}: {by}")
        for one in lines:
            say(f"  {one.commit:12.12}  {'seen' if one.fix is None else f'fix: {one.fix}'}")
    if grew and grew[-1][1] > grew[0][1]:
        say(f"the comparison forgives more than it did: {grew[0][1]:g}, now {grew[-1][1]:g}")
    for circle in going:
        say(_circle(circle))
    if not rows:
        say("nothing was seen")


def _circle(one: Circle) -> str:
    action = one.action.partition(",")[0]
    return (
        f"going in circles: {one.fingerprint} came again under {len(one.commits)} commits; "
        f"do not mend it once more, ask first: dstest spec drive, dstest spec why SPEC {action}"
    )


def layers(
    spec: Given,
    answers: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE..", help="What `--json` of explore, simulate, conform, live printed."
        ),
    ],
    constants: Constants = None,
    json_: Json = False,
) -> None:
    """In which layers each invariant was asked, and how often: all states, random walks, real
    histories and logs, a running cluster.

    Exits with 0 where each layer that can ask it has, with 1 where it did not hold somewhere, and
    with 3 where a layer never asked it."""
    from dstest.spec.compose import load
    from dstest.spec.layers import layers_of, lines

    found = layers_of(load(spec, constants or (), actions=False), answers)
    if json_:
        as_json({"asked": found.asked, "never": found.never, "absent": found.absent})
    else:
        for line in lines(found):
            say(line)
    raise typer.Exit(found.code)


RUN_JSON: Final = "run.json"
HISTORY: Final = "history.jsonl"


def _worse(one: Worsening) -> str:
    grown = ", ".join(
        f"{commit:.12} {count:g}" for commit, count in zip(one.commits, one.forgiven, strict=True)
    )
    return (
        f"going in circles: the harness forgives more with each of {len(one.commits)} commits"
        f" ({grown}), and the mismatch is still there; take back what it ignores before anything"
        " else is changed: dstest spec weaker --since COMMIT"
    )


Frontier = Annotated[int, typer.Option(min=1, help="States to look at for one record, at most.")]
Within = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.001, help="Then it is inconclusive.")
]
Memory = Annotated[
    int, typer.Option(metavar="MB", min=1, help="Of the process; then it is inconclusive.")
]
Way = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write one behaviour up to what was refused, or of all, as a trace."
    ),
]


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
    frontier: Frontier = 20_000,
    within: Within = 600.0,
    memory: Memory = 4096,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Enter a rejection there (`dstest spec ledger`)."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Of --ledger: under which commit. Default: git's HEAD here.")
    ] = None,
    out: Way = None,
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
    from dstest.spec.compose import load, of_logs
    from dstest.spec.conformance import as_data, lines
    from dstest.spec.model import Watch

    if ledger is not None:
        from dstest.spec.sources import head_of

        require_writable(ledger, "--ledger")
        commit = commit or head_of(Path.cwd())
    require_writable(out, "--out")
    if out is not None and out.exists() and any(_is(out, one) for one in (spec, recorded)):
        raise ConfigError(f"--out {out} would replace what is read", remedy="another file")
    model = load(spec, constants or ())
    if log or model.spec.server_log:
        model = of_logs(model)
    watch = Watch(within, memory, _progress)
    found: list[Explained] = []
    said = _compared(model, recorded, kind if log else None, frontier, watch, _finds(out, found))
    if json_:
        as_json(as_data(said))
    else:
        for line in lines(said):
            say(line)
    if ledger is not None:
        for line in noted(ledger, model, said, commit):
            typer.echo(line, err=json_)
    if out is not None:
        _write(out, model, found)
    code = {"accept": Exit.PASS, "reject": Exit.FAIL}.get(said.verdict, Exit.NOT_PROVEN)
    raise typer.Exit(code)


def _is(out: Path, given: Path | str) -> bool:
    """Is that the file that was given, as `FILE` or `FILE:SPEC`?"""
    path = Path(str(given).partition(":")[0])
    return path.exists() and out.samefile(path)


def _finds(out: Path | None, found: list[Explained]) -> Explain | None:
    """Puts into `found` what explains the records, where it is to be written."""
    from dstest.spec.explained import explained

    return None if out is None else lambda *given: found.append(explained(*given))


def _write(out: Path, model: Model, found: list[Explained]) -> None:
    from dstest.spec.recorded import recorded_bytes

    if found and found[0].trace is not None:
        write_whole(out, recorded_bytes(model, found[0]), "--out")
        return
    why = found[0].why if found else "the records were not compared to their end"
    typer.echo(f"{out} is not written: {why}", err=True)


def _compared(
    model: Model,
    recorded: Path,
    kind: str | None,
    frontier: int,
    watch: Watch,
    explain: Explain | None,
) -> ConformResult:
    """`kind` is the field of a log that holds the kind of a line; None for what is no log."""
    from dstest.spec.conform import conform_log
    from dstest.spec.merge import cut_off, read_log

    if kind is None:
        of = _of_servers if model.spec.server_log else _of_history
        return of(model, recorded, frontier, watch, explain)
    events = read_log(recorded, kind)
    said = conform_log(model, events, frontier_max=frontier, watch=watch, explain=explain)
    if cut_off(recorded):
        said.missing["(a last line that was cut off)"] = 1
    return said


def _progress(text: str) -> None:
    typer.echo(text, err=True)


def _of_servers(
    model: Model, path: Path, frontier: int, watch: Watch, explain: Explain | None
) -> ConformResult:
    """The logs of all servers of a run; what cannot be placed in their order is left out."""
    from dstest.core.errors import ConfigError
    from dstest.history.layout import EVENTS
    from dstest.spec.conform import conform_log
    from dstest.spec.merge import log_of_run

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
    said = conform_log(model, logs.events, frontier_max=frontier, watch=watch, explain=explain)
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

    from dstest.core.run_record import Logs
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import intact, is_finished

    run = RunDir(path)
    over = is_finished(run)
    if over:
        intact(run, lambda name: name == RUN_JSON or only(name))
    meta = run.read_json(RUN_JSON)
    nodes = meta.get("nodes") if isinstance(meta, dict) else None
    try:
        kept = msgspec.convert(meta.get("logs"), Logs | None) if isinstance(meta, dict) else None
    except msgspec.ValidationError:
        kept = None
    return [str(name) for name in nodes] if isinstance(nodes, list) else [], over, kept


def _of_history(
    model: Model, path: Path, frontier: int, watch: Watch, explain: Explain | None
) -> ConformResult:
    """What a history file cannot show, its reader says: then nothing is accepted. Raises
    HistoryError where it contradicts itself, by the lints and in the words of `dstest check`."""
    from dstest.check.source import history_file, require_sound
    from dstest.history.importers import load_history
    from dstest.spec.conform import conform_history

    if path.is_dir():
        _of_run(path, lambda name: name == HISTORY)
    weak: list[str] = []
    history = load_history(history_file(path), weak=weak)
    weak += require_sound(history, weak)
    said = conform_history(model, history.ops, frontier_max=frontier, watch=watch, explain=explain)
    if weak and said.verdict == "accept":
        said.verdict = "vacuous"
    said.weak += weak
    return said
