"""`dstest sim`: a system's servers and clients in one process, on a clock that is not there.

`dstest generate`: seeded histories of a simulated store, with named anomalies.

`dstest export`: a run's history for other tools.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli import completion
from dstest.cli.options import Json, JsonBesideOutput, Output
from dstest.cli.output import require_writable, say, write_whole
from dstest.core.errors import ConfigError, Exit
from dstest.core.run_record import RunSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dstest.history.generator.histories import Event
    from dstest.sim.simulate import SimSpec
    from dstest.sim.sweep import SeedResult, Swept


System = Annotated[
    str | None,
    typer.Option(
        help="One that can be simulated, or FILE.py; default: the first of them.",
        autocompletion=completion.simulated_systems,
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        help="What its clients do; default: as for `dstest run`.",
        autocompletion=completion.workloads,
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        metavar="KINDS",
        help="Such as kill,power; none for none.",
        autocompletion=completion.simulated_faults,
    ),
]
Pairs = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        metavar="KEY=VALUE",
        help="Of system or workload.",
        autocompletion=completion.simulated_pairs,
    ),
]


def sim(
    system: System = None,
    workload: Workload = None,
    seeds: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many.")] = 20,
    seed: Annotated[int, typer.Option(min=0, max=1 << 53, help="The first of them.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, max=99, help="Simulated hosts.")] = 3,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Logical clients.")] = 5,
    time_limit: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, help="Seconds of load, of the simulated clock."),
    ] = 15.0,
    faults: Faults = None,
    option: Pairs = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 2,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the history of the first seed that fails there; of a single seed in any "
            "case.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what happened there, of that same seed: 200 bytes of each message, and of "
            "more than 200000 lines the last 100000 or more.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Simulate a system, seed by seed: the same servers, clients, workloads and checkers as on
    nodes, on a simulated network, clock and disk. No root, no nodes. A seed and a version of
    Python give the same events, byte for byte.

    It is not the production path: what is found is real in this code, what is not found proves
    little, and is no more than smoke. Exits with 0 where no seed showed a violation, with 1 where
    one did, with 3 where a seed showed nothing: nothing succeeded, the cluster did not serve, no
    fault landed, a checker could not decide, a server ended that no fault had ended, or the same
    seed gave two simulations."""
    from dstest.core.registry import named_in
    from dstest.sim.simulate import sim_spec_of, simulable_names
    from dstest.sim.world import Profile, kinds_of

    _require_places(log, history)
    kinds = Profile().kinds if faults is None else kinds_of(faults)
    if nodes < 2 and kinds:
        raise ConfigError(
            "one host has nobody to be cut off from", remedy="--faults none, or --nodes 3"
        )
    wanted = sim_spec_of(
        named_in("systems", system) if system else simulable_names()[0],
        named_in("workloads", workload or RunSpec().workload),
        option or [],
        hosts=nodes,
        clients=concurrency,
        time_s=time_limit,
        profile=Profile(kinds=kinds),
    )
    swept, shown = _swept(wanted, range(seed, seed + seeds), min(workers, seeds), json_)
    if not json_:
        _tell(swept)
    _left(wanted, shown, history, log, quiet=json_)
    bad = swept.vacuous or swept.failed
    raise typer.Exit(Exit.FAIL if swept.violated else Exit.NOT_PROVEN if bad else Exit.PASS)


def _left(
    wanted: SimSpec,
    shown: SeedResult | None,
    history: Path | None,
    log: Path | None,
    *,
    quiet: bool,
) -> None:
    """Files of the simulation that is shown; that there are none where no seed failed."""
    files = [path for path in (history, log) if path is not None]
    if shown is not None and files:
        _write(wanted, shown, history, log)
    elif files and not quiet:
        names = " and ".join(map(str, files))
        say(f"nothing was written to {names}: no seed failed; of one alone: --seeds 1")


def _swept(
    wanted: SimSpec, seeds: range, workers: int, json_: bool
) -> tuple[Swept, SeedResult | None]:
    """All seeds, told of as they come, or as one object at the end; and the first that shows a
    violation, or, where there is none, in which something else failed, or which shows nothing. A
    single one is that in any case."""
    import msgspec

    from dstest.sim.sweep import Swept, sweep

    swept, rows = Swept(), list["SeedResult"]()
    for one in sweep(wanted, seeds, workers):
        swept.add(one)
        rows.append(one)
        if not json_ and (one.violated or one.failures):
            say(f"seed {one.seed}: {'; '.join([*_found(one), *one.failures])}")
    if json_:
        told = {
            "seeds": rows,
            "violated": swept.violated,
            "rate": swept.rate,
            "vacuous": swept.vacuous,
            "failed": swept.failed,
            "landed": swept.landed,
        }
        say(msgspec.json.encode(told).decode())
    bad = [one for one in rows if one.violated] or [one for one in rows if one.failures]
    bad = bad or [one for one in rows if one.vacuous] or (rows if len(rows) == 1 else [])
    return swept, bad[0] if bad else None


def _found(one: SeedResult) -> list[str]:
    return [", ".join(one.anomalies) or "violation"] if one.violated else []


def _tell(swept: Swept) -> None:
    landed = (
        ", ".join(f"{count} {kind}" for kind, count in sorted(swept.landed.items())) or "nothing"
    )
    say(f"{swept.seeds} seeds, {swept.ops} operations; faults landed: {landed}", end="")
    say(f"; not landed: {swept.not_landed}" if swept.not_landed else "")
    for why, count in swept.vacuous.items():
        say(f"{count} seeds show nothing: {why}")
    if swept.failed:
        say(f"something failed that no fault had asked for: {len(swept.failed)} seeds")
    if swept.violated:
        low, high = swept.rate.low, swept.rate.high
        say(
            f"{len(swept.violated)} of {swept.seeds} seeds show a violation"
            f" ({low:.0%} to {high:.0%}); again: --seed {swept.violated[0]} --seeds 1"
        )
    elif not swept.vacuous and not swept.failed:
        say("no violation in these seeds: smoke, and no more")


def _require_places(log: Path | None, history: Path | None) -> None:
    require_writable(log, "--log")
    require_writable(history, "--history")


def _write(wanted: SimSpec, seen: SeedResult, history: Path | None, log: Path | None) -> None:
    import msgspec

    from dstest.sim.simulate import simulate
    from dstest.sim.sweep import require_alike

    done = simulate(wanted, seen.seed)
    require_alike(seen.seed, seen.digest, done.digest)
    if log is not None:
        write_whole(log, "\n".join([*done.log, ""]).encode(), "--log")
    if history is not None:
        rows = [done.history.header, *done.history.ops]
        write_whole(history, b"\n".join([*map(msgspec.json.encode, rows), b""]), "--history")


def generate(
    workload: Annotated[
        str, typer.Option(help="list-append, rw-register or register.")
    ] = "list-append",
    txns: Annotated[int, typer.Option(min=0, help="Transactions, without the injected.")] = 1000,
    concurrency: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 10,
    level: Annotated[
        str, typer.Option(help="Isolation level of the store.")
    ] = "strict-serializable",
    inject: Annotated[
        list[str] | None, typer.Option(metavar="NAME:COUNT", help="Anomalies, as in G1c:2.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same history.")] = 0,
    fail_share: Annotated[float, typer.Option(help="Share of transactions that abort.")] = 0.02,
    info_share: Annotated[float, typer.Option(help="Share with an unknown outcome.")] = 0.01,
    format_: Annotated[str, typer.Option("--format", help="jsonl or edn.")] = "jsonl",
    output: Output = None,
    json_: JsonBesideOutput = False,
) -> None:
    """Write a history of a simulated store at a known isolation level."""
    import msgspec

    from dstest.cli.output import require_file, say, writing
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.history.generator.histories import (
        FORMATS,
        Spec,
        events,
        gadget,
        lines,
        parse_injections,
    )

    require_file(output, "a history", json=json_)
    if format_ not in FORMATS:
        raise ConfigError(f"no format {format_!r}", remedy=meant(format_, FORMATS))
    spec = Spec(
        workload=workload,
        txns=txns,
        concurrency=concurrency,
        level=level,
        seed=seed,
        inject=parse_injections(inject or []),
        fail_share=fail_share,
        info_share=info_share,
    )
    seen: Counter[str] = Counter()
    written = lines(_counted(events(spec), seen), spec, format_)
    # The header, and what the first event needs: a spec that is wrong fails before a file is made.
    head = b"".join(islice(written, 2))
    for name in spec.inject:
        gadget(workload, name)
    with writing(output) as file:
        file.write(head)
        file.writelines(written)
    if json_:
        made = {"path": str(output), "format": format_, "seed": seed, "operations": seen["begin"]}
        say(msgspec.json.encode({**made, "injected": spec.inject}).decode())


def _counted(events: Iterable[Event], seen: Counter[str]) -> Iterator[Event]:
    """The events as they are, counted by their kind."""
    for event in events:
        seen[event[0]] += 1
        yield event


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or a history.")],
    fmt: Annotated[
        str,
        typer.Option(
            "--format", "--to", help="edn or json: Jepsen op maps. parquet (dstest[notebook])."
        ),
    ] = "edn",
    output: Output = None,
    keyed: Annotated[
        bool, typer.Option(help="Values as [key value] tuples, as Jepsen's independent workloads.")
    ] = True,
    json_: JsonBesideOutput = False,
) -> None:
    """Write a history as Jepsen op maps, one event per line, or as Parquet, a row per operation.
    Parquet is written while it is read, however large it is. `--format json` has the history in
    JSON, `--json` an object that says what was written."""
    import msgspec

    from dstest.check.source import history_file
    from dstest.cli.output import require_file, say
    from dstest.core.errors import ConfigError
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import is_finished, verify_run

    if fmt not in ("edn", "json", "parquet"):
        raise ConfigError(
            f"--format {fmt}: edn, json or parquet", remedy="--format edn, json or parquet"
        )
    if fmt == "parquet" and output is None:
        raise ConfigError("--to parquet writes a file", remedy="-o FILE.parquet")
    require_file(output, "a history", json=json_)
    if run.is_dir():
        opened = RunDir.open(run)
        if is_finished(opened):
            verify_run(opened)
    file = history_file(run)
    if fmt == "parquet":
        assert output is not None
        count = _parquet(file, output)
    else:
        count = _op_maps(file, fmt, output, keyed)
    if json_:
        made = {"path": str(output), "format": fmt, "history": str(file), "operations": count}
        say(msgspec.json.encode(made).decode())


def _op_maps(file: Path, fmt: str, output: Path | None, keyed: bool) -> int:
    """How many operations were written."""
    from itertools import chain

    from dstest.check.source import require_sound
    from dstest.cli.output import writing
    from dstest.core.errors import HarnessError, HistoryError
    from dstest.history.export import export_lines
    from dstest.history.jsonl import read_history

    history = read_history(file)
    if weak := require_sound(history):
        raise HistoryError(
            f"what op maps cannot tell would be lost: {'; '.join(weak)}",
            remedy="judge the history as it is, with dstest check",
        )
    lines = export_lines(history, fmt, keyed=keyed)
    first: str | None = next(lines, None)  # what cannot be exported is refused beforehand
    every: Iterator[str] = iter(()) if first is None else chain([first], lines)
    with writing(output, refused=HarnessError) as out:
        for line in every:
            out.write(line.encode() + b"\n")
    return len(history.ops)


def _parquet(file: Path, output: Path) -> int:
    """How many operations were written. Nothing is judged: what contradicts itself is written as it
    is, but for operations that the recorder counted and that are not there."""
    from dstest.check.source import require_counts
    from dstest.cli.output import writing
    from dstest.core.errors import HarnessError
    from dstest.history.jsonl import each_op, read_header
    from dstest.notebook.frames import write_parquet

    header = read_header(file)
    with writing(output, refused=HarnessError) as out:
        counted = write_parquet(out, header, lambda: each_op(file))
        require_counts(header, {name: counted[name] for name in ("ok", "fail", "unknown")})
    return counted.total()
