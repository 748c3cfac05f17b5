"""`dstest trace`: where the time of requests went, and who asked whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.core.errors import ConfigError, Exit

if TYPE_CHECKING:
    from dstest.traces.of_run import OfRun
    from dstest.traces.spans import Message, Span


def trace(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|FILE...", help="A run directory, or files of spans: JSON lines or OTLP."
        ),
    ],
    which: Annotated[
        str,
        typer.Option(
            "--trace", help="The trace to tell at length, or an operation's id; else the longest."
        ),
    ] = "",
    compare: Annotated[
        str, typer.Option(help="Two spans, A,B: how their vector clocks stand to one another.")
    ] = "",
    skew: Annotated[
        bool, typer.Option(help="Correct clocks of nodes that differ for certain.")
    ] = True,
    mermaid: Annotated[
        Path | None, typer.Option(help="Write the flows between nodes as a Mermaid diagram.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the timeline, one file by itself.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Read traces: the critical path by time, slowest spans, work by node, flows, loops, storms,
    and what does not fit: orphans, several roots, clocks. Of a run each trace is linked to the
    operation of its history. Exit 0, 2 for what cannot be read, 3 where there is no span."""
    import msgspec

    from dstest.cli.output import say, write_whole
    from dstest.core.printable import one_line
    from dstest.traces.look import as_object, look
    from dstest.traces.told import as_mermaid, as_text

    of = _given(paths)
    name = one_line(" ".join(str(path) for path in paths))
    if not of.spans:
        why = of.why or "there is no span in it"
        nothing = {"path": name, "exit": int(Exit.NOT_PROVEN), "traces": 0, "why": why}
        say(msgspec.json.encode(nothing).decode() if json_ else f"{name}: {why}")
        raise typer.Exit(int(Exit.NOT_PROVEN))
    found = look(of.spans, of.nodes, of.operations, wanted=which, correct=skew and not of.exact)
    if compare:
        say(_compared(found.traces.spans, compare, json=json_))
        return
    notes = [f"clocks: {said}" for said in of.clocks]
    if mermaid is not None:
        write_whole(mermaid, as_mermaid(found).encode(), "--mermaid")
    if html is not None:
        from dstest.traces.page import render

        write_whole(html, render(found, name, notes).encode(), "--html")
    if json_:
        say(msgspec.json.encode({**as_object(found, name, notes), "exit": 0}).decode())
        return
    for line in as_text(found, name, notes):
        say(line)


def _given(paths: Sequence[Path]) -> OfRun:
    """A sealed run, or files. Raises ConfigError, EvidenceError, HistoryError."""
    from dstest.cli.logs_given import is_run
    from dstest.runner.integrity import finished, intact
    from dstest.store.layout import RunDir
    from dstest.traces.of_run import OfRun, of_run

    runs = [path for path in paths if path.is_dir()]
    if not runs:
        return OfRun(list(_files(paths)), [], {}, "", [])
    if len(paths) > 1:
        raise ConfigError(
            f"{runs[0]} is a directory, and {len(paths) - 1} more paths are given",
            remedy="one run at a time, or files",
        )
    if not is_run(runs[0]):
        raise ConfigError(
            f"{runs[0]} is no run directory", remedy=f"give its files: {runs[0]}/*.jsonl"
        )
    run = RunDir.open(runs[0])
    if finished(run):
        intact(run)
    return of_run(run.path)


def _files(paths: Sequence[Path]) -> Iterator[Span | Message]:
    from dstest.core.errors import MemorySpent
    from dstest.traces.reading import SPANS_MAX, read_file

    count = 0
    for path in paths:
        for one in read_file(path):
            count += 1
            if count > SPANS_MAX:
                raise MemorySpent(
                    f"more than {SPANS_MAX:,} spans", remedy="give fewer files, or a part of them"
                )
            yield one


def _compared(spans: Iterator[Span], asked: str, *, json: bool) -> str:
    """How two spans stand to one another."""
    import msgspec

    from dstest.traces.vectors import relation

    ids = [part.strip() for part in asked.split(",")]
    if len(ids) != 2 or not all(ids):
        raise ConfigError(f"--compare {asked}: two spans", remedy="--compare SPAN_A,SPAN_B")
    found = {span.id: span for span in spans if span.id in ids}
    for id_ in ids:
        if id_ not in found:
            raise ConfigError(f"--compare {asked}: no span {id_}", remedy="--json lists all spans")
    for id_ in ids:
        if not found[id_].vector:
            raise ConfigError(
                f"span {id_} has no vector clock", remedy="a vectorClock in both: {node: count}"
            )
    word = relation(found[ids[0]].vector, found[ids[1]].vector)
    if json:
        return msgspec.json.encode({"a": ids[0], "b": ids[1], "relation": word}).decode()
    return f"{ids[0]} {word} {ids[1]}" if word.startswith("happens") else f"{asked}: {word}"
