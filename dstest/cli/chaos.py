"""`dstest chaos`: faults for plain HTTP services, from proxies in front of them and of what they
need."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dstest.cli.options import Json
from dstest.cli.output import say
from dstest.core.errors import ConfigError, DstestError, Exit

if TYPE_CHECKING:
    from dstest.chaos.outcome import Outcome


chaos_app = typer.Typer(
    no_args_is_help=True,
    help="Faults for plain HTTP services: a seeded proxy, an open-loop load, what failed by itself "
    "and what by a fault.",
)


@chaos_app.command()
def run(
    settings: Annotated[Path, typer.Argument(metavar="CHAOS.toml", help="See docs/chaos.md.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="A new directory, or an empty one.")
    ] = Path("chaos"),
    seed: Annotated[
        int | None, typer.Option(min=0, help="Draw the faults from this seed, not the file's.")
    ] = None,
    json_: Json = False,
) -> None:
    """Load a service through proxies that inject faults, and tell what failed: by itself, by a
    fault, or since others were hit.

    Exit 0 it held; 1 a defect was seen; 3 the run shows too little; 2 wrong settings."""
    import msgspec

    from dstest.chaos.conduct import conduct
    from dstest.chaos.settings import read_chaos

    told = read_chaos(settings)
    if seed is not None:
        told = msgspec.structs.replace(told, seed=seed)
    _emptied(out)
    try:
        with once_interrupted():
            conduct(told, out, lambda text: typer.echo(text, err=True))
    except ConfigError:
        raise
    except (DstestError, KeyboardInterrupt) as error:
        _end(out, json_, cut_off=error)
    _end(out, json_)


@contextmanager
def once_interrupted() -> Iterator[None]:
    """The first Ctrl-C ends the run; more of them do not keep it from being told."""

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is first:
            signal.signal(signal.SIGINT, usual)


def _emptied(out: Path) -> None:
    """A directory for a run. What a start that failed has left there is no run, and goes."""
    from dstest.chaos.records import CONFIG, ENTRIES, HOST, PASSED, PHASES, SERVICE, SERVICE_END

    ours = {CONFIG, ENTRIES, HOST, PASSED, SERVICE, SERVICE_END}
    try:
        out.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in out.iterdir()}
        if CONFIG in there and there <= ours and not (out / PHASES).exists():
            for name in there:
                (out / name).unlink()
        full = any(out.iterdir())
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror}", remedy="--out DIR, a new directory") from None
    if full:
        raise ConfigError(
            f"{out} is not empty: what lies there would be mixed with this run",
            remedy="--out DIR, a new directory",
        )


@chaos_app.command()
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="That a run wrote to.")],
    json_: Json = False,
) -> None:
    """Tell again what a run shows, of its logs: also of one that was killed. Exits as `run`."""
    _end(directory, json_)


@chaos_app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A run's directory.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another, of a later version.")],
    json_: Json = False,
) -> None:
    """Compare two versions under the same chaos: defects that are gone, new and left, shares of
    failures and 95th percentiles, with their intervals.

    Exit 0 improved or the same; 1 worse; 2 they cannot be compared."""
    import msgspec

    from dstest.chaos.diff import diff_of
    from dstest.chaos.outcome import outcome_of

    found = diff_of(outcome_of(before), outcome_of(after))
    if json_:
        say(msgspec.json.encode(found).decode())
    else:
        say(found.verdict)
        for word, lines in (("gone", found.gone), ("new", found.new), ("left", found.left)):
            for line in lines:
                say(f"  {word:<6} {line}")
        for row in found.rows:
            p = f", p = {row.p:.2g}" if row.p is not None else ""
            if row.what != "p95_s":
                text = (
                    f"{_FAILED[row.what]} {row.before:.1%} -> {row.after:.1%}, "
                    f"by {row.low * 100:+.1f} to {row.high * 100:+.1f} points{p}"
                )
            else:
                text = (
                    f"p95 {row.before * 1e3:.0f} -> {row.after * 1e3:.0f} ms, "
                    f"by {row.low * 1e3:+.0f} to {row.high * 1e3:+.0f} ms"
                )
            say(f"  {row.endpoint}: {text}: {row.word}{'' if row.counts else ', handled'}")
    raise typer.Exit(int(Exit.FAIL if found.verdict == "worse" else Exit.PASS))


_FAILED = {"failed": "failed", "unhandled": "failed unhandled"}


def _end(directory: Path, json_: bool, cut_off: BaseException | None = None) -> NoReturn:
    """Write the files, tell what they say, and exit by it. `cut_off` ended the run."""
    from dstest.chaos.outcome import outcome_of
    from dstest.chaos.page import write_files

    outcome = outcome_of(directory)
    try:
        write_files(outcome, directory)
    except OSError as error:
        typer.echo(f"dstest: {directory}: {error.strerror}: the files are not whole", err=True)
        raise typer.Exit(int(Exit.HARNESS)) from None
    code = outcome.exit
    if isinstance(cut_off, KeyboardInterrupt):
        code = Exit.INTERRUPTED
    elif isinstance(cut_off, DstestError):
        typer.echo(f"dstest: {cut_off}", err=True)
        code = cut_off.exit_code
    _tell(outcome, directory, code, json_)
    raise typer.Exit(int(code))


def _tell(outcome: Outcome, directory: Path, code: Exit, json_: bool) -> None:
    import msgspec

    from dstest.chaos.records import REPORT

    if json_:
        told = {
            "exit": int(code),
            "data": outcome.data,
            "why_partial": outcome.why_partial,
            "requests": outcome.requests,
            "ok": outcome.ok,
            "defects": outcome.defects,
            "unshown": outcome.unshown,
            "injected": outcome.injected,
            "proposals": outcome.proposals,
            "report": str(directory / REPORT),
        }
        say(msgspec.json.encode(told).decode())
        return
    words = {Exit.PASS: "it held", Exit.NOT_PROVEN: "nothing is shown"}
    say(words.get(outcome.exit, f"{len(outcome.defects)} defects"))
    for line in outcome.defects:
        say(f"  {line}")
    for line in outcome.unshown:
        say(f"  shows too little: {line}")
    landed = ", ".join(
        f"{one.landed} of {one.injected} {one.kind} ({one.proxy})" for one in outcome.injected
    )
    say(f"requests  {outcome.requests} in {outcome.seconds:.1f} s, {outcome.ok} succeeded")
    say(f"landed    {landed or 'nothing'}")
    for one in outcome.proposals[:3]:
        say(
            f"change    {one.endpoint}: {one.change}"
            + (f" ({one.file}:{one.line})" if one.file else "")
        )
    say(f"report    {directory / REPORT}")
