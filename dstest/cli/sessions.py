"""Sessions on the command line: lists of seeds and sizes, `dstest resume`, what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.core.tiers import Tier
    from dstest.runner.judged_once import Verify
    from dstest.runner.session_check import SessionFinished


def numbers(flag: str, text: str | None) -> list[int]:
    """`7` or `7,8,9`; empty where nothing was given. Raises ConfigError for anything else."""
    from dstest.core.errors import ConfigError

    if text is None:
        return []
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"{flag} {text!r}: not a whole number, nor several with commas between",
            remedy=f"for example {flag} 3,5",
        ) from None


def tier_of(name: str | None) -> Tier | None:
    """The tier of that name. Raises ConfigError where there is none."""
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.judge.budgets import SHAPES

    for tier in SHAPES:
        if tier == name:
            return tier
    if name is not None:
        raise ConfigError(f"--tier {name!r}: no such tier", remedy=meant(name, SHAPES))
    return None


def no_single_run(*, schedule: Path | None, keep_lab: bool) -> None:
    """Refuse what makes sense for one run alone."""
    from dstest.core.errors import ConfigError

    if schedule is not None:
        raise ConfigError(
            "--schedule is for one seed and one size: a session plans the faults of each arm",
            remedy="one --seed and one size in --nodes, and no --tier above smoke",
        )
    if keep_lab:
        raise ConfigError(
            "--keep-lab is for one run: a session takes down what it brought up",
            remedy="`dstest lab up`, then run with its --lab-id",
        )


def resume(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="A session directory.")],
    sign_key: Annotated[
        Path | None,
        typer.Option(envvar="DSTEST_SIGN_KEY", help="Sign the arms' check sums with this key."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Go on with a session that was stopped or killed, from its first arm that is not done."""
    from dstest.runner.arms import resume as resume_session

    show_session(resume_session(session, sign_key=sign_key), json_)


def report_session(path: Path, signer: str | None, as_json: bool, judged: Verify) -> NoReturn:
    """Check a session's files, judge it again, each run by `judged`, and show it."""
    from dstest.runner.session_check import reread

    done = reread(path, judged)
    if signer is not None:
        typer.echo(f"signed      by {signer}", err=as_json)
    show_session(done, as_json)


def show_session(done: SessionFinished, as_json: bool) -> NoReturn:
    """Print what a session came to, and exit with its code."""
    import sys

    import msgspec

    if as_json:
        from dstest.report.session import headline_of_session

        message = None if done.failure is None else done.failure.message
        verdict = done.verdict
        headline = None if verdict is None else headline_of_session(done.path, verdict)
        shown = {
            "session": str(done.path),
            "exit": int(done.exit_code),
            "ended_by": message,
            "headline": headline,
            "verdict": msgspec.to_builtins(verdict),
        }
        say(msgspec.json.encode(shown).decode())
    elif done.verdict is not None:
        from dstest.report.session import session_text
        from dstest.runner.session_file import SessionDir

        file = SessionDir.open(done.path).read()
        color = sys.stdout.isatty()
        typer.echo(
            session_text(done.path, file.spec, file.options_given, done.verdict, color=color)
        )
    if done.failure is not None:
        typer.echo(f"dstest: {done.failure}", err=True)
    if done.verdict is None:
        typer.echo(f"dstest: the session goes on with `dstest resume {done.path}`", err=True)
    raise typer.Exit(int(done.exit_code))
