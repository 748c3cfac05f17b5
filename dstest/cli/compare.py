"""`dstest compare`: runs against runs, by what they measured or answer by answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.options import Json
from dstest.cli.output import Telling, say
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.store.compare.intervals import Difference
    from dstest.store.compare.measured import Side
    from dstest.store.compare.streams import StreamResult

Runs = Annotated[
    list[Path],
    typer.Option(help="A run or a session of this side; several by saying it again."),
]


def compare(
    baseline: Runs,
    candidate: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="This metric; several by saying it again. Default: the usual ones."),
    ] = None,
    differing: Annotated[
        list[str] | None,
        typer.Option(help="What is different on purpose, as system_version or options."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="The share by which the candidate may be worse.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")] = 0.95,
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Compare the answers to the same operations, one by one."),
    ] = False,
    least: Annotated[
        float,
        typer.Option(min=0, max=1, help="Of --answers: the share that must have been comparable."),
    ] = 0.9,
    json_: Json = False,
) -> None:
    """Compare runs with runs: rates and latencies with intervals over three runs a side at least,
    or with --answers what two systems, versions or settings answered to one stream of operations.
    Exit 1 where the candidate is worse, or answers differ, 3 where that cannot be told."""
    from dstest.core.errors import ConfigError
    from dstest.store.compare.measured import FACTORS, differences, side_of

    with Telling("reading the runs") as tell:
        sides = (side_of("baseline", baseline, tell), side_of("candidate", candidate, tell))
    strange = [name for name in differing or [] if name not in FACTORS]
    if strange:
        raise ConfigError(f"--differing {strange[0]}: no such thing", remedy=", ".join(FACTORS))
    unfair = differences(sides, differing or [])
    if answers:
        _answers(sides, unfair, least, json_)
    _numbers(sides, unfair, metric or [], tolerance, confidence, json_)


def _numbers(
    sides: tuple[Side, Side],
    unfair: list[str],
    metrics: list[str],
    tolerance: float,
    confidence: float,
    json_: bool,
) -> None:
    import msgspec

    from checkers.slo import METRICS as KNOWN
    from dstest.core.errors import ConfigError
    from dstest.store.compare.measured import METRICS, differences_of

    if strange := [name for name in metrics if name not in KNOWN]:
        raise ConfigError(f"--metric {strange[0]}: no such metric", remedy=", ".join(KNOWN))
    rows = differences_of(*sides, metrics or METRICS, tolerance=tolerance, confidence=confidence)
    worse = any(row.judgement == "worse" for row in rows)
    known = all(row.judgement != "unknown" for row in rows)
    code = Exit.FAIL if worse else Exit.PASS if known else Exit.NOT_PROVEN
    code = Exit.NOT_PROVEN if unfair else code
    if json_:
        shown = {"exit": int(code), "unfair": unfair, "differences": rows}
        say(msgspec.json.encode(shown).decode())
    else:
        for row in rows:
            typer.echo(_row(row, confidence))
        for line in unfair:
            typer.echo(f"not fair: {line}")
    raise typer.Exit(int(code))


def _mean(value: float) -> str:
    return "no value" if value != value else f"{value:,.4g}"


def _row(row: Difference, confidence: float) -> str:
    if row.why:
        means = f"{_mean(row.baseline)} -> {_mean(row.candidate)}: "
        return f"{row.metric:14} {means}{row.judgement}: {row.why}"
    low, high = row.ratio_interval
    return (
        f"{row.metric:14} {row.baseline:,.4g} -> {row.candidate:,.4g}, ratio {row.ratio:.3f}"
        f" ({low:.3f} to {high:.3f} at {confidence:.0%}, {row.runs[0]} and {row.runs[1]} runs):"
        f" {row.judgement}"
    )


def _answers(sides: tuple[Side, Side], unfair: list[str], least: float, json_: bool) -> None:
    import msgspec

    from dstest.core.errors import ConfigError
    from dstest.store.compare.streams import disagreements, would_notice

    left, right = sides
    if len(left.runs) != 1 or len(right.runs) != 1:
        raise ConfigError("--answers compares one run with one run", remedy="name one on each side")
    seeds = [side.runs[0].meta.spec.get("seed") for side in sides]
    if seeds[0] != seeds[1]:
        unfair = [*unfair, f"seed: {seeds[0]} and {seeds[1]}: the operations are not the same"]
    histories = (left.runs[0].history, right.runs[0].history)
    found = disagreements(*histories)
    sound = would_notice(*histories)
    if found.disagreeing and not unfair:
        code = Exit.FAIL
    elif sound and not unfair and found.compared >= least * found.operations:
        code = Exit.PASS
    else:
        code = Exit.NOT_PROVEN
    if json_:
        shown = {"exit": int(code), "unfair": unfair, "noticed": sound, "answers": found}
        say(msgspec.json.encode(shown).decode())
    else:
        _print_answers(found, sound, least)
        for line in unfair:
            typer.echo(f"not fair: {line}")
    raise typer.Exit(int(code))


def _print_answers(found: StreamResult, sound: bool, least: float) -> None:
    typer.echo(
        f"{found.compared:,} of {found.operations:,} operations on {found.keys:,} keys could be"
        f" compared; {found.disagreeing:,} keys disagree"
    )
    if found.compared < least * found.operations:
        typer.echo(f"fewer than the {least:.0%} without which nothing is shown (--least)")
    for why, number in sorted(found.left_off.items()):
        typer.echo(f"{number:,} keys were left at some point: {why}")
    for row in found.shown:
        typer.echo(
            f"key {row.key!r}, operation {row.op_id}: {row.op_type} {row.input!r} gave"
            f" {row.left!r} and {row.right!r}"
        )
    if not found.disagreeing:
        said = "was noticed" if sound else "was NOT noticed: nothing is shown by this"
        typer.echo(f"one answer changed in a copy {said}")
