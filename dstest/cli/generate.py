"""`dstest generate`: seeded histories of a simulated store, with named anomalies."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dstest.generator.histories import Event


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
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Default: stdout. Gzipped where it ends with .gz."),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout; the history goes to -o.")
    ] = False,
) -> None:
    """Write a history of a simulated store at a known isolation level."""
    import msgspec

    from dstest.cli.output import require_file, say, writing
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.generator.gadgets import gadget, parse_injections
    from dstest.generator.histories import Spec, events
    from dstest.generator.writing import FORMATS, lines

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
