"""`dstest findings`: published bugs that are found again, and the controls beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say, write_whole

if TYPE_CHECKING:
    from dstest.findings.entries.finding import Finding
    from dstest.findings.measure import Measured, Trial

__all__ = ["findings"]


def findings(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Entries to run.")] = None,
    seeds: Annotated[int, typer.Option(help="With so many seeds, from 1 on.", min=1, max=1000)] = 1,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Measurements: runs add to them, seeds that are there are not run again."
        ),
    ] = None,
    store: Annotated[Path, typer.Option(help="Where run directories go.")] = Path("store"),
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page that is docs/findings.md.")
    ] = False,
) -> None:
    """What was published of these systems, one command each; with IDs, run them. Exit 3 where an
    entry does not end as it must."""
    from dstest.findings.catalogue import CATALOGUE
    from dstest.findings.page import markdown

    chosen = [_entry(name) for name in ids or []]
    known = _read(results)
    if as_markdown:
        say(markdown(known), end="")
    elif as_json:
        import msgspec

        say(msgspec.json.format(msgspec.json.encode(chosen or CATALOGUE), indent=2).decode())
    elif not chosen:
        for row in CATALOGUE:
            ends = "must fail" if row.expect else "must pass"
            typer.echo(f"{row.id:12} {row.system:16} {ends:10} {row.claim}")
    else:
        _run(chosen, seeds, results, known, store, lab_id)


def _entry(name: str) -> Finding:
    from dstest.core.errors import ConfigError
    from dstest.findings.catalogue import CATALOGUE, by_id

    found = by_id(name)
    if found is None:
        known = ", ".join(row.id for row in CATALOGUE)
        raise ConfigError(f"no finding is called {name!r}", remedy=f"one of {known}")
    return found


def _read(path: Path | None) -> list[Measured]:
    import msgspec

    from dstest.core.errors import ConfigError
    from dstest.findings.measure import Measured

    if path is None or not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Measured])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} has no measurements: {error}", remedy="a file that `--results` has written"
        ) from None


def _run(
    chosen: list[Finding],
    seeds: int,
    results: Path | None,
    known: list[Measured],
    store: Path,
    lab_id: str | None,
) -> None:
    import msgspec

    from dstest.core.errors import Exit
    from dstest.findings.measure import as_expected, measure, measured_of, with_trial

    missed = 0
    for finding in chosen:
        before = {trial.seed for trial in measured_of(finding, known).trials}
        todo = [seed for seed in range(1, seeds + 1) if seed not in before]
        for trial in measure(finding, todo, store, lab_id):
            _tell(finding, trial)
            known = with_trial(known, finding, trial)
            if results is not None:
                text = msgspec.json.format(msgspec.json.encode(known), indent=1)
                write_whole(results, text + b"\n", "--results")
        trials = [row for row in measured_of(finding, known).trials if row.seed <= seeds]
        missed += sum(not as_expected(finding, trial) for trial in trials)
    raise typer.Exit(int(Exit.NOT_PROVEN if missed else Exit.PASS))


def _tell(finding: Finding, trial: Trial) -> None:
    from dstest.findings.measure import as_expected

    ends = "as expected" if as_expected(finding, trial) else "NOT"
    seen = ", ".join(trial.anomalies) or "no anomaly"
    typer.echo(
        f"{finding.id} seed {trial.seed}: {ends}: exit {trial.exit}, {trial.verdict}, {seen}"
    )
