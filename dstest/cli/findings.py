"""`dstest findings`: published bugs that are found again, and the controls beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dstest.cli.options import JsonArray, LabId
from dstest.cli.output import say, write_whole
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.campaign.known_bugs.entries.entry import Finding
    from dstest.campaign.known_bugs.measure import Measurements, Trial

_ENDS: Final = {Exit.PASS: "must pass", Exit.FAIL: "must fail", Exit.NOT_PROVEN: "no pass"}


def findings(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Entries to run.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="With so many seeds, from 1 on; one by default.", min=1, max=1000),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Measurements: runs add to them, seeds that are there are not run again; --json "
            "and --markdown tell what they say."
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where run directories go; `store` by default.")
    ] = None,
    lab_id: LabId = None,
    as_json: JsonArray = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page that is docs/findings.md.")
    ] = False,
) -> None:
    """What was published of these systems, one command each; with IDs, run them. Exit 3 where an
    entry does not end as it must."""
    from dstest.campaign.known_bugs.trials import CATALOGUE, markdown

    chosen = [_entry(name) for name in ids or []]
    _refuse_both(as_json, as_markdown, chosen)
    if as_json or not chosen:
        of_runs: dict[str, object] = {"--seeds": seeds, "--store": store, "--lab-id": lab_id}
        told = as_markdown or as_json
        _refuse_unused(of_runs if told else {**of_runs, "--results": results})
    if as_markdown:
        say(markdown(_known(results, must=True)), end="")
    elif as_json:
        say(_array(chosen or list(CATALOGUE), results))
    elif not chosen:
        for row in CATALOGUE:
            ends = _ENDS[row.expect]
            beside = f" (control: {row.control})" if row.control else ""
            typer.echo(f"{row.id:14} {row.system:16} {ends:10} {row.claim}{beside}")
    else:
        _run(chosen, seeds or 1, results, store or Path("store"), lab_id)


def _array(chosen: list[Finding], results: Path | None) -> str:
    """The entries as JSON, with what was measured of each where a file has it."""
    import msgspec

    from dstest.campaign.known_bugs.measure import measurements_of, summary

    rows: list[dict[str, object]] = [msgspec.to_builtins(finding) for finding in chosen]
    if results is not None:
        known = _known(results, must=True)
        for row, finding in zip(rows, chosen, strict=True):
            trials = measurements_of(finding, known).trials
            row["measured"] = summary(finding, trials) if trials else None
    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode()


def _refuse_both(as_json: bool, as_markdown: bool, chosen: list[Finding]) -> None:
    from dstest.core.errors import ConfigError

    if as_markdown and (as_json or chosen):
        raise ConfigError(
            "--markdown prints the page of the whole catalogue",
            remedy="leave the IDs and --json away",
        )


def _refuse_unused(of_runs: dict[str, object]) -> None:
    from dstest.core.errors import ConfigError

    given = [flag for flag, value in of_runs.items() if value is not None]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: nothing is run here",
            remedy="name the IDs to run, without --json; `dstest findings` lists them",
        )


def _entry(name: str) -> Finding:
    from dstest.campaign.known_bugs.trials import CATALOGUE, by_id
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant

    found = by_id(name)
    if found is None:
        near = [row.id for row in CATALOGUE if row.id.casefold() == name.casefold()]
        hint = f"did you mean {near[0]}?" if near else meant(name, [row.id for row in CATALOGUE])
        raise ConfigError(f"no finding is called {name!r}", remedy=hint)
    return found


def _known(path: Path | None, must: bool = False) -> list[Measurements]:
    from dstest.campaign.known_bugs.measure import read

    return read(path) if path is not None and (must or path.exists()) else []


def _run(
    chosen: list[Finding],
    seeds: int,
    results: Path | None,
    store: Path,
    lab_id: str | None,
) -> None:
    from dstest.campaign.known_bugs.measure import (
        as_expected,
        measure,
        measurements_of,
        never_ran,
        with_trial,
    )
    from dstest.core.errors import DstestError

    known = _known(results)
    _keep(known, results)
    missed = 0
    for finding in chosen:
        before = {trial.seed for trial in measurements_of(finding, known).trials}
        todo = [seed for seed in range(1, seeds + 1) if seed not in before]
        for trial in measure(finding, todo, store, lab_id):
            if never_ran(trial):
                raise DstestError(f"{finding.id} seed {trial.seed}: no run began: {trial.why}")
            _tell(finding, trial)
            known = with_trial(known, finding, trial)
            _keep(known, results)
        asked = range(1, seeds + 1)
        trials = [row for row in measurements_of(finding, known).trials if row.seed in asked]
        missed += sum(not as_expected(finding, trial) for trial in trials)
        missed += (lacking := seeds - len(trials))
        if lacking:
            typer.echo(f"{finding.id}: {lacking} of {seeds} seeds were not tried with this version")
    raise typer.Exit(int(Exit.NOT_PROVEN if missed else Exit.PASS))


def _keep(known: list[Measurements], results: Path | None) -> None:
    import msgspec

    if results is not None:
        text = msgspec.json.format(msgspec.json.encode(known), indent=1)
        write_whole(results, text + b"\n", "--results")


def _tell(finding: Finding, trial: Trial) -> None:
    from dstest.campaign.known_bugs.measure import as_expected

    ends = "as expected" if as_expected(finding, trial) else "NOT"
    seen = ", ".join(trial.anomalies) or "no anomaly"
    typer.echo(
        f"{finding.id} seed {trial.seed}: {ends}: exit {trial.exit}, {trial.verdict}, {seen}"
    )
    if trial.why:
        typer.echo(trial.why, err=True)
