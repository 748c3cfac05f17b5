"""`dstest report`: runs and sessions checked, drawn again from their files, and told; and what is
written for CI servers and monitoring beside that.

Places for CI servers are emptied before any run is looked at: a green file of yesterday must not
outlive a command that failed today.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from msgspec import Struct

from dstest.cli.check import Deep, say_again
from dstest.cli.completion import runs as complete_runs
from dstest.cli.output import DEVICES, ON_GITHUB, Github, Telling, write_whole
from dstest.cli.run import report_session
from dstest.core import clock
from dstest.core.errors import ConfigError, HarnessError
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.core.reproducer import Reproducer
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import JudgedOnce, Verified, Verify
    from dstest.store.export.formats import Result


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
    from dstest.core.errors import one_lined
    from dstest.runner.integrity import JudgedOnce

    wanted = Wanted(
        out=out,
        junit=junit,
        sarif=sarif,
        prometheus=prometheus,
        summary=summary,
        otlp=otlp,
        github=github and not json_,
    )
    with one_lined(), Telling(f"looking for runs below {runs[0]}") as tell:
        judged = JudgedOnce("all" if deep else "no", tell)
        try:
            _report(runs, wanted, verify_key, sign_key, judged, json_)
        finally:
            say_again(judged.how_long)


def _report(
    runs: list[Path],
    wanted: Wanted,
    verify_key: Path | None,
    sign_key: Path | None,
    judged: JudgedOnce,
    as_json: bool,
) -> NoReturn:
    from dstest.history.sums import require_key, signer_of

    clear_places(wanted, runs)
    require_key(sign_key)
    one = runs[0] if len(runs) == 1 and not _is_store(runs[0]) else None
    if one is None:
        _no_signatures(verify_key, sign_key)
        _many(write_formats(wanted, runs, judged), as_json)
    if wanted.any:
        if verify_key is not None:
            signer_of(one.resolve(), verify_key)  # nothing is green that they have not signed
        write_formats(wanted, runs, judged)
    report_one(one, verify_key, sign_key, judged, as_json=as_json)


def _is_store(path: Path) -> bool:
    """A directory that may hold runs, and is none."""
    from dstest.runner.session_file import is_session
    from dstest.store.inventory import walk

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
    from dstest.core.words import one_line
    from dstest.store.export.formats import passed_text
    from dstest.store.export.gather import worst

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
    width = max(len(one.told) for one in results)
    for one in results:
        said = one_line(" ".join(one.sentence.split()))
        say(f"{one.told:{width}}  {one_line(str(one.path))}  {said}")
    say(passed_text(results))
    raise typer.Exit(code)


OF_OUT: Final[Mapping[str, str]] = {
    "--junit": "junit.xml",
    "--sarif": "results.sarif",
    "--prometheus": "metrics.prom",
    "--summary": "summary.md",
}
"""Flag of a format -> the name of its file in the directory of --out of `dstest report`."""

_OF_A_RUN: Final = ("run.json", "verdict.json")
_APPENDED: Final = "--summary"
"""It is appended to what others have written."""


def clear(
    places: Mapping[str, Path | None],
    runs: Sequence[Path],
    of_out: Collection[str] = tuple(OF_OUT.values()),
) -> None:
    """Remove the old files of these places, by flag; those of `--out` are called as `of_out` has
    it. Raises ConfigError, when all that may be removed is, where one of them lies in evidence, is
    asked for twice, or stays."""
    wrong: list[ConfigError] = []
    seen: dict[Path, str] = {}
    for flag, path in _places_of_flags(places, of_out):
        place = path.resolve()
        own = path.parent.resolve() / path.name  # of a link: it may be evidence by itself
        evidence = _evidence(place, runs) or _evidence(own, runs)
        if evidence is not None:
            wrong.append(
                ConfigError(
                    f"{flag} {path} lies within {evidence}, whose files are evidence",
                    remedy="choose a place beside it",
                )
            )
            continue
        device = path.exists() and not path.is_file()
        if place in seen and not device:
            wrong.append(
                ConfigError(
                    f"{seen[place]} and {flag} are both to be written to {path}",
                    remedy="give each a file of its own",
                )
            )
        seen.setdefault(place, flag)
        if flag != _APPENDED:
            try:
                remove([path], flag)
            except ConfigError as error:
                wrong.append(error)
    if wrong:
        raise wrong[0]


def remove(files: Iterable[Path], flag: str, reads: Path | None = None) -> None:
    """Remove those of these files that are there: of a link the link itself, never what it points
    to. Devices, pipes and links to them stay. Raises ConfigError, naming `flag` as the remedy, for
    the first that stays else, or that the command is yet to read (`reads`)."""
    for path in files:
        try:
            if reads is not None and path.resolve() == reads.resolve():
                raise ConfigError(
                    f"{reads} is read, and would be written over", remedy=f"choose another {flag}"
                )
            device = (path.exists() and not path.is_file()) or path.parent in DEVICES
            if not device and (path.is_symlink() or path.is_file()):
                path.unlink()
        except OSError as error:
            raise ConfigError(
                f"the old {path} cannot be removed: {error.strerror}",
                remedy=f"choose another {flag}",
            ) from None


def _places_of_flags(
    places: Mapping[str, Path | None], of_out: Collection[str]
) -> Iterator[tuple[str, Path]]:
    for flag, path in places.items():
        if path is None:
            continue
        if flag == "--out":
            yield from ((flag, path / name) for name in of_out)
        else:
            yield flag, path


def _evidence(place: Path, runs: Sequence[Path]) -> Path | None:
    """What is asked about and holds this place, or a run or session that does."""
    from dstest.store.inventory import kind_of

    for run in runs:
        if place.is_relative_to(run.resolve()):
            return run
    for above in place.parents:
        if kind_of(above) in ("run", "session") or any((above / n).is_file() for n in _OF_A_RUN):
            return above
    return None


class Wanted(Struct, frozen=True, kw_only=True):
    """The formats that are asked for, and where they go. `summary` is appended to."""

    out: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    prometheus: Path | None = None
    summary: Path | None = None
    otlp: str | None = None
    github: bool = False

    @property
    def any(self) -> bool:
        """Is something asked for?"""
        return self.github or any(
            one is not None
            for one in (self.out, self.junit, self.sarif, self.prometheus, self.summary, self.otlp)
        )


def _files(wanted: Wanted) -> dict[str, Path | None]:
    """The files by flag."""
    otlp = wanted.otlp
    return {
        "--out": wanted.out,
        "--junit": wanted.junit,
        "--sarif": wanted.sarif,
        "--prometheus": wanted.prometheus,
        "--summary": wanted.summary,
        "--otlp": None if otlp is None or "://" in otlp else Path(otlp),
    }


def clear_places(wanted: Wanted, runs: Sequence[Path]) -> None:
    """Remove what an earlier command has left at the places that are to be written. Raises
    ConfigError where one of them cannot be, or what a format needs is not installed: before any of
    them is written."""
    from dstest.store.export.telemetry import require_otlp

    clear(_files(wanted), runs)
    if wanted.otlp is not None:
        require_otlp(wanted.otlp)


def write_formats(wanted: Wanted, runs: Sequence[Path], judged: Verify) -> list[Result]:
    """Judge all runs and sessions below these directories again, each run by `judged`, and write
    what is asked for; its places were cleared before."""
    from dstest.store.export.gather import gather

    results = gather(runs, judged, lambda what: typer.echo(f"dstest: {what}", err=True))
    for flag, path, render in _rendered(wanted, results):
        text = render()
        if flag == "--summary":
            _append(path, text)
        else:
            write_whole(path, text.encode(errors="backslashreplace"), flag)
    if wanted.github:
        from dstest.store.export.formats import annotation_lines

        for line in annotation_lines(results):
            typer.echo(line)
        if wanted.summary is None and (step := os.environ.get("GITHUB_STEP_SUMMARY")):
            from dstest.store.export.formats import render_summary

            _append(Path(step), render_summary(results))
    _send(wanted, results)
    return results


def _rendered(
    wanted: Wanted, results: Sequence[Result]
) -> list[tuple[str, Path, Callable[[], str]]]:
    """Flag, place and text of each file."""
    from dstest.store.export.formats import render_junit, render_summary
    from dstest.store.export.gather import worst
    from dstest.store.export.sarif import render_sarif
    from dstest.store.export.telemetry import render_otlp, render_prometheus

    now_ns = clock.wall_ns()
    texts: dict[str, Callable[[], str]] = {
        "--junit": lambda: render_junit(results),
        "--sarif": lambda: render_sarif(results, worst(results)),
        "--prometheus": lambda: render_prometheus(results, now_ns),
        "--summary": lambda: render_summary(results),
        "--otlp": lambda: render_otlp(results, now_ns),
    }
    rows = [
        (flag, path, texts[flag])
        for flag, path in _files(wanted).items()
        if path is not None and flag in texts
    ]
    if wanted.out is not None:
        _make(wanted.out)
        rows += [("--out", wanted.out / name, texts[flag]) for flag, name in OF_OUT.items()]
    return rows


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make {folder}: {error.strerror}", remedy="choose another --out"
        ) from None


def _append(path: Path, text: str) -> None:
    """To what other steps have said already."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", remedy="choose another --summary"
        ) from None


def _send(wanted: Wanted, results: Sequence[Result]) -> None:
    from dstest.store.export.telemetry import endpoint_of, send_otlp

    endpoint = None if wanted.otlp is None else endpoint_of(wanted.otlp)
    if endpoint is None:
        return
    try:
        send_otlp(results, endpoint, clock.wall_ns())
    except OSError as error:
        raise HarnessError(
            f"cannot reach the collector at {endpoint}: {error}", remedy="is it up?"
        ) from None


def report_one(
    run: Path, verify_key: Path | None, sign_key: Path | None, judged: Verify, *, as_json: bool
) -> NoReturn:
    """Exits with the code of the verdict; `judged` judges each run again."""
    from dstest.campaign.shrink.candidate import aside_of as reduced_in
    from dstest.campaign.shrink.reproducer import read_reproducer
    from dstest.cli.kb import known_lines, known_plain
    from dstest.core.errors import EvidenceError
    from dstest.core.words import one_line
    from dstest.history.layout import RunDir
    from dstest.history.sums import SIGNATURE, signer_of
    from dstest.judge.blame import blame, read_blame
    from dstest.report.model import load_report
    from dstest.report.summarize import headline_of
    from dstest.report.terminal import summary_text
    from dstest.report.write import outdated, report_files, write_texts
    from dstest.runner.integrity import is_finished
    from dstest.runner.session_file import is_session
    from dstest.store.verify import misplaced

    if is_session(run):
        if sign_key is not None:
            typer.echo("dstest: --sign-key: a session is shown, nothing is signed", err=True)
        signer = None if verify_key is None else signer_of(run.resolve(), verify_key)
        report_session(run, signer, as_json, judged)
    opened = RunDir.open(run)
    if not is_finished(opened):
        raise _not_judged(opened)
    signer = None if verify_key is None else signer_of(opened.path, verify_key)
    checked = judged(opened)
    shown = load_report(opened.path)
    if why := misplaced(opened.path, shown.meta.spec):
        raise EvidenceError(f"{opened.path}: {why}", remedy="take it from where it was made")
    new = outdated(opened.path, report_files(shown))
    signed = (opened.path / SIGNATURE).exists()
    if new and not os.access(opened.path, os.W_OK):
        names = ", ".join(sorted(new))
        typer.echo(f"dstest: {names}: left as they are, {opened.path} may not be written", err=True)
        new = {}
    if new and (sign_key is not None or not signed):
        write_texts(opened.path, new)
        opened.write_sums(sign_key if signed else None)
    told, small = read_blame(opened.path), read_reproducer(opened.path, checked.verdict)
    blamed = None if told is None else str(blame(shown.evidence, told.probes))
    if as_json:
        reduced = None if small is None else str(reduced_in(opened.path))
        _say_json(
            opened.path,
            checked,
            headline=headline_of(shown),
            blame=blamed,
            reduced=reduced,
            signed_by=signer,
            **(known_plain(opened.path) if shown.state.failed else {}),
        )
    else:
        typer.echo(
            summary_text(
                shown, color=sys.stdout.isatty(), more=None if told is None else told.probes
            )
        )
        for line in _besides(opened.path, blamed, small, signer):
            typer.echo(one_line(line))
        for line in known_lines(opened.path) if shown.state.failed else ():
            typer.echo(one_line(line))
    if message := _of_the_signature(sorted(new), signed, sign_key):
        typer.echo(f"dstest: {message}", err=True)
    raise typer.Exit(int(checked.exit_code))


def _besides(
    path: Path, blamed: str | None, small: Reproducer | None, signer: str | None
) -> Iterator[str]:
    """What was found out about a run since, for people."""
    from dstest import __version__
    from dstest.campaign.shrink.candidate import aside_of as reduced_in
    from dstest.core.reproducer import SCRIPT
    from dstest.judge.blame import aside_of

    if blamed is not None:
        yield f"blame       {blamed}, by the runs in {aside_of(path)}"
    if small is not None:
        yield (
            f"reduced     from {small.before.events} fault events to {small.after.events}, "
            f"comes in {small.rate_after.said}"
        )
        yield f"made again  sh {shell_word(reduced_in(path) / SCRIPT)}"
        if small.dstest != __version__:
            yield (
                f"            by dstest {small.dstest}: whether {SCRIPT} is as that wrote it is "
                f"not known here; `dstest shrink {shell_word(path)}` writes it anew"
            )
    if signer is not None:
        yield f"signed      by {signer}"


def _say_json(path: Path, checked: Verified, **more: Any) -> None:
    """As `dstest run --json`, and what was found out about it since."""
    import msgspec

    from dstest.cli.output import say
    from dstest.judge.symptom import all_fingerprints

    shown = {
        "run": str(path),
        "exit": int(checked.exit_code),
        "fingerprints": all_fingerprints(checked.verdict),
        "verdict": msgspec.to_builtins(checked.verdict),
    }
    say(msgspec.json.encode({**shown, **more}).decode())


def _of_the_signature(new: list[str], signed: bool, sign_key: Path | None) -> str | None:
    """What became of the signature, where there was one or a key was given."""
    if not signed:
        return None if sign_key is None else "--sign-key: the run was not signed, and is not now"
    names = ", ".join(new)
    if sign_key is None:
        return f"{names}: left as signed; --sign-key draws and signs them again" if new else None
    if not new:
        return "--sign-key: nothing had to be drawn anew, the signature stays as it was"
    return f"{names}: drawn anew; the run is now signed with {sign_key} alone"


def _not_judged(run: RunDir) -> ConfigError:
    """Why there is no report of this run, and what to do about it."""
    from dstest.cli.lab_common import lab_left
    from dstest.core.errors import ConfigError
    from dstest.runner.session import alive

    meta = run.read_meta()
    if meta is not None and run.status() == "running" and alive(meta):
        return ConfigError(
            f"{run.path} is still running (pid {meta.pid})", remedy="wait for its end"
        )
    message = (
        f"`dstest recover {shell_word(run.path)}` judges it",
        None if meta is None else lab_left(meta),
    )
    return ConfigError(f"{run.path} was not judged yet", remedy="; ".join(filter(None, message)))
