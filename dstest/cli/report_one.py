"""`dstest report` of a single run or session: checked, drawn anew, told."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from dstest.cli.sessions import report_session
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.core.errors import ConfigError
    from dstest.core.reproducer import Reproducer
    from dstest.runner.integrity import Verified
    from dstest.runner.judged_once import Verify
    from dstest.store.layout import RunDir


def report_one(
    run: Path, verify_key: Path | None, sign_key: Path | None, judged: Verify, *, as_json: bool
) -> NoReturn:
    """Exits with the code of the verdict; `judged` judges each run again."""
    from dstest.cli.known import known_lines, known_plain
    from dstest.core.errors import EvidenceError
    from dstest.core.printable import one_line
    from dstest.judge.blame import blame
    from dstest.judge.blame_file import read_blame
    from dstest.report.headline import headline_of
    from dstest.report.model import load_report
    from dstest.report.terminal import summary_text
    from dstest.report.write import drawn, outdated, write_texts
    from dstest.retention.identity import misplaced
    from dstest.runner.integrity import finished
    from dstest.runner.session_file import is_session
    from dstest.shrink.record import aside_of as reduced_in
    from dstest.shrink.reread import read_reproducer
    from dstest.store.layout import RunDir
    from dstest.store.signing import signer_of
    from dstest.store.sums import SIGNATURE

    if is_session(run):
        if sign_key is not None:
            typer.echo("dstest: --sign-key: a session is shown, nothing is signed", err=True)
        signer = None if verify_key is None else signer_of(run.resolve(), verify_key)
        report_session(run, signer, as_json, judged)
    opened = RunDir.open(run)
    if not finished(opened):
        raise _not_judged(opened)
    signer = None if verify_key is None else signer_of(opened.path, verify_key)
    checked = judged(opened)
    shown = load_report(opened.path)
    if why := misplaced(opened.path, shown.meta.spec):
        raise EvidenceError(f"{opened.path}: {why}", remedy="take it from where it was made")
    new = outdated(opened.path, drawn(shown))
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
    from dstest.core.reproducer import SCRIPT
    from dstest.judge.blame_file import aside_of
    from dstest.shrink.record import aside_of as reduced_in

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
    from dstest.judge.fingerprint import all_fingerprints

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
    from dstest.cli.lab_of_run import lab_left
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
