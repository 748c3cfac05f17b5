"""`dstest report`: draw a run's reports again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dstest.cli.check_run import Deep, say_again
from dstest.cli.completion import runs as complete_runs
from dstest.cli.on_github import ON_GITHUB, Github
from dstest.cli.output import Telling

if TYPE_CHECKING:
    from dstest.cli.report_formats import Wanted
    from dstest.results.model import Result
    from dstest.runner.judged_once import JudgedOnce

_Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write junit.xml, results.sarif, metrics.prom, summary.md there."
    ),
]
_Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML there.")]
_Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0 there.")]
_Prometheus = Annotated[
    Path | None,
    typer.Option(metavar="FILE.prom", help="Write metrics there, in the text format."),
]
_Summary = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Append Markdown. With --github by default: $GITHUB_STEP_SUMMARY."
    ),
]
_Otlp = Annotated[
    str | None,
    typer.Option(
        metavar="URL|FILE", help="Traces of OpenTelemetry, sent or written (dstest[otel])."
    ),
]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Runs, sessions, or stores of them.",
            autocompletion=complete_runs,
        ),
    ],
    verify_key: Annotated[
        Path | None,
        typer.Option(
            metavar="ALLOWED_SIGNERS",
            help="Ask for a signature by one of these: a file of lines such as `me@example "
            "ssh-ed25519 AAAA...`, a name and a public key.",
        ),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar="DSTEST_SIGN_KEY",
            help="Sign what was signed again, where a report is drawn anew.",
        ),
    ] = None,
    out: _Out = None,
    junit: _Junit = None,
    sarif: _Sarif = None,
    prometheus: _Prometheus = None,
    summary: _Summary = None,
    otlp: _Otlp = None,
    github: Github = ON_GITHUB,
    deep: Deep = False,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, and no annotations.")
    ] = False,
) -> None:
    """Check a run's files, draw report.html, findings.md, junit.xml and the plots.

    A run is believed where its files are as they were summed up; with --deep it is judged again
    from what it recorded. Of a session every run is checked, and the session judged again from
    them. Exits with the code of the verdict, and with 3 where the files are not what was left. Of
    several runs, or a store, it shows a line each, and exits with the worst code: 1 before 3
    before 0. Formats for CI servers are made of the same, after the same checks (docs/ci.md).
    """
    from dstest.cli.report_formats import Wanted
    from dstest.core.errors import one_lined
    from dstest.runner.judged_once import JudgedOnce

    wanted = Wanted(
        out=out,
        junit=junit,
        sarif=sarif,
        prometheus=prometheus,
        summary=summary,
        otlp=otlp,
        github=github and not json_,
    )
    judged = JudgedOnce("all" if deep else "no", Telling())
    with one_lined():
        try:
            _report(runs, wanted, verify_key, sign_key, judged, json_)
        finally:
            say_again(judged)


def _report(
    runs: list[Path],
    wanted: Wanted,
    verify_key: Path | None,
    sign_key: Path | None,
    judged: JudgedOnce,
    as_json: bool,
) -> NoReturn:
    from dstest.cli.report_formats import clear_places, write_formats
    from dstest.cli.report_one import report_one
    from dstest.store.signing import require_key, signer_of

    clear_places(wanted, runs)
    require_key(sign_key)
    _say_what_is_looked_at(runs)
    one = runs[0] if len(runs) == 1 and not _is_store(runs[0]) else None
    if one is None:
        _no_signatures(verify_key, sign_key)
        _many(write_formats(wanted, runs, judged), as_json)
    if wanted.any:
        if verify_key is not None:
            signer_of(one.resolve(), verify_key)  # nothing is green that they have not signed
        write_formats(wanted, runs, judged)
    report_one(one, verify_key, sign_key, judged, as_json=as_json)


def _say_what_is_looked_at(runs: list[Path]) -> None:
    """Whoever gives a large directory sees at once what is going on."""
    for run in runs:
        if run.is_dir() and not (run / "segments").exists() and not (run / "session.json").exists():
            typer.echo(f"dstest: looking for runs below {run}", err=True)


def _is_store(path: Path) -> bool:
    """A directory that may hold runs, and is none."""
    from dstest.retention.walk import walk
    from dstest.runner.session_file import is_session

    if not path.is_dir() or is_session(path) or (path / "segments").exists():
        return False
    walked = walk(path)
    if any(one.path == path.resolve() for one in walked.odd):
        return False  # what is left of a run
    return bool(walked.places or any(one.why in ("cut", "orphan") for one in walked.odd))


def _no_signatures(verify_key: Path | None, sign_key: Path | None) -> None:
    from dstest.core.errors import ConfigError

    if verify_key is not None:
        raise ConfigError("--verify-key is for one run or session", remedy="give them one by one")
    if sign_key is not None:
        typer.echo("dstest: --sign-key: many runs are shown, nothing is signed", err=True)


def _many(results: list[Result], as_json: bool) -> NoReturn:
    """A line for each, and the worst code."""
    import msgspec

    from dstest.cli.output import say
    from dstest.core.printable import one_line
    from dstest.results.gather import worst
    from dstest.results.model import passed_of

    code = worst(results)
    passed = sum(one.green and one.same_as is None for one in results)
    if as_json:
        rows = [
            {
                "run": str(one.path),
                "verdict": one.word,
                "passed": one.green,
                "headline": one.headline,
                "why": one.sentence,
                "same_as": None if one.same_as is None else str(one.same_as),
            }
            for one in results
        ]
        say(msgspec.json.encode({"runs": rows, "passed": passed, "exit": code}).decode())
        raise typer.Exit(code)
    width = max(len(one.word) for one in results)
    for one in results:
        said = one_line(" ".join(one.sentence.split()))
        say(f"{one.word:{width}}  {one_line(str(one.path))}  {said}")
    say(passed_of(results))
    raise typer.Exit(code)
