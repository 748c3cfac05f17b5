"""`dstest check`: judge a history, no cluster needed.

A finished run (`dstest check RUN_DIR`) is believed where its files are as they were summed up, and
what is found in its history ends no better than the run did. `-o key=value` says what is assumed of
the order of versions, as in Elle. What became of the budget is told when all is said: time that was
overrun, memory that did not even suffice for reading.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import typer

from dstest.cli import completion
from dstest.cli.options import Format, Json
from dstest.cli.output import require_folder, require_writable, say, write_whole
from dstest.core import limits
from dstest.core.check import CheckResult, RunVerdict
from dstest.core.errors import ConfigError, Exit
from dstest.core.formats import AUTO

if TYPE_CHECKING:
    from dstest.check.file import Question
    from dstest.core.check import Budget


Deep = Annotated[
    bool,
    typer.Option("--deep", help="Judge a finished run again from what it recorded."),
]

_CODES: Final[dict[Any, Exit]] = {
    True: Exit.PASS,
    False: Exit.FAIL,
    "unknown": Exit.NOT_PROVEN,
}


def say_again(how_long: str) -> None:
    """That runs were judged again, on standard error; nothing where they are believed."""
    if how_long:
        typer.echo(f"dstest: {how_long}", err=True)


def exit_of(result: CheckResult, *, named: bool) -> Exit:
    """The exit code of an answer: never 0 where the run it is about is no pass.

    `named`: was a model, workload or checker asked for by name? Then 1 says that a violation of
    just that was found, and a run that failed otherwise is 3; else the question was the run's own,
    and a run that failed is 1.
    """
    code = _CODES[result.valid]
    if code == Exit.FAIL or not result.of_a_run_without_a_pass:
        return code
    assert isinstance(result.run, RunVerdict)
    failed = result.run.exit == Exit.FAIL
    return Exit.FAIL if failed and not named else Exit.NOT_PROVEN


_Report = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write result.json, witness.txt and drawings of the first witnesses there.",
    ),
]
_Proof = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write an order of transactions that proves the answer there."
    ),
]
_Workload = Annotated[
    str | None,
    typer.Option(
        help="What the clients did; default: as the history says.",
        autocompletion=completion.workloads,
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        help="Of transactions or an object: fifo-queue, .. (`dstest models`).",
        autocompletion=completion.models,
    ),
]
_Checker = Annotated[
    str | None,
    typer.Option(
        help="One checker, by name or file, not the workload's.",
        autocompletion=completion.checkers,
    ),
]
_Initial = Annotated[
    str | None,
    typer.Option(
        metavar="JSON", help="""What the objects start with: 0, or by key '{"x": 0, "y": 1}'."""
    ),
]
_Seconds = Annotated[
    float,
    typer.Option(
        "--budget-s",
        help="Seconds of judging until the answer is unknown, if nothing wrong was found; reading "
        "comes before.",
    ),
]
_Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="list-append larger than memory: judge it as it is read (docs/large-histories.md).",
    ),
]
_Workers = Annotated[
    str | None,
    typer.Option(
        metavar="N|PLACE",
        help="With --batch: on so many workers of this machine, or those at ssh:HOST,HOST or "
        "tcp://ADDRESS:PORT.",
    ),
]
_Batch = Annotated[
    Path | None,
    typer.Option(metavar="IN.jsonl", help="Judge many small histories, one a line, instead."),
]


def check(
    history: Annotated[
        Path | None, typer.Argument(metavar="HISTORY", help="A history file.")
    ] = None,
    workload: _Workload = None,
    model: _Model = None,
    checker: _Checker = None,
    format_: Format = AUTO,
    independent: Annotated[
        bool | None,
        typer.Option(
            "--independent/--no-independent", help="Jepsen values are [key value] tuples."
        ),
    ] = None,
    json_: Json = False,
    budget_s: _Seconds = limits.CHECK_TIME_S,
    budget_mb: Annotated[
        int, typer.Option("--budget-mb", help="Megabytes until the answer is unknown.")
    ] = limits.CHECK_MEMORY_MB,
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", help="key=value: wfr-keys, anomalies, permits, total .."),
    ] = None,
    initial: _Initial = None,
    report: _Report = None,
    proof: _Proof = None,
    stream: _Stream = False,
    batch: _Batch = None,
    workers: _Workers = None,
    deep: Deep = False,
) -> None:
    """Judge a history: ours, a run directory, Jepsen EDN, Jepsen JSON, a Jepsen log, or sessions of
    Plume, DBCop, Cobra or AWDIT, which have no times (docs/reference/formats.md).

    Exit codes: 0 valid, 1 violation, 2 unreadable, corrupt or wrong usage, 3 unknown. With --batch
    that of the worst line: 1 before 3 before 2 before 0; a batch without lines is 2.
    A finished run's sums are compared first (3 where a file differs) and its verdict stands beside
    the answer: never 0 where it is no pass; 1 where it failed; asked by name, 3 without a find."""
    from dstest.check.file import Question

    _remove_old(report, history)
    budget = _budget(budget_s, budget_mb)
    asked = (
        *(history, workload, model, checker, independent, option, report, initial, proof),
        stream or None,
        deep or None,
    )
    if batch is not None:
        from dstest.cli.check_batch import judge_batch

        named = format_ != AUTO
        raise typer.Exit(int(judge_batch(batch, budget, named, asked, workers)))
    if workers is not None:
        raise ConfigError("--workers is for many histories", remedy="--batch IN.jsonl")
    if history is None:
        raise ConfigError("need a HISTORY, or --batch with a file", remedy="give one of the two")
    question = Question(
        history, workload, model, checker, format_, independent, option or [], initial, stream, deep
    )
    raise typer.Exit(int(_judged(question, budget, _Wanted(report, proof, json_))))


def _budget(time_s: float, memory_mb: int) -> Budget:
    from dstest.core.check import Budget

    if not 0 < time_s < 1e9 or not 0 < memory_mb < 2**40:
        raise ConfigError("a budget is a positive number", remedy="leave it out for the default")
    return Budget(time_s=time_s, memory_mb=memory_mb)


class _Wanted(NamedTuple):
    """What is made of the answer: files, and the form that it is printed in."""

    report: Path | None
    proof: Path | None
    json: bool


def _judged(asked: Question, budget: Budget, wanted: _Wanted) -> Exit:
    """Judges, and says what came out."""
    from dstest.check.file import answer, require_format
    from dstest.check.source import jepsen_file, readable_again
    from dstest.cli.check_text import text_of

    require_format(asked.format)
    asked = asked._replace(history=jepsen_file(asked.history))
    name = asked.history.name or str(asked.history)
    if wanted.proof is not None:
        _require_provable(asked, wanted.proof)
        require_writable(wanted.proof, "--proof")
    require_folder(wanted.report, "--report")
    with readable_again(asked.history, budget.memory_mb) as file:
        asked = asked._replace(history=file)
        result = answer(asked, budget, say_again)
        if wanted.proof is not None:
            _prove(asked, result, budget, wanted.proof)
        plain = _json(result, asked) if wanted.json or wanted.report is not None else b""
    text = text_of(name, result)
    if wanted.report is not None:
        _write(wanted.report, result, plain, text)
    say(plain.decode() if wanted.json else text)
    return exit_of(result, named=asked.named)


def _require_provable(asked: Question, file: Path) -> None:
    """Raises ConfigError where an order says nothing of what is asked, or would be written over the
    history, or into a run."""
    if asked.options or asked.checker is not None or asked.independent:
        raise ConfigError(
            "--proof takes no -o, --checker or --independent: an order has the same value whatever "
            "they say",
            remedy="leave them out; --model strong-session-.. counts the order of sessions",
        )
    if asked.stream:
        raise ConfigError("--stream keeps no order to write to --proof", remedy="leave one out")
    place, history = file.resolve(), asked.history.resolve()
    if place == history or (place.parent / "sha256sums").exists():
        raise ConfigError(
            f"--proof {file}: the history, or a run's directory, would be changed",
            remedy="choose another --proof",
        )


def _prove(asked: Question, result: CheckResult, budget: Budget, file: Path) -> None:
    """Writes an order that proves the answer, or says why there is none."""
    from dstest.cli.proof import write_order

    asked_for = asked.history, asked.format, asked.workload, asked.model, asked.initial
    write_order(*asked_for, result, budget, file)


def _json(result: CheckResult, asked: Question) -> bytes:

    from dstest.cli.check_text import headline_in, with_headline

    said = headline_in(result, asked.history, asked.format, asked.independent)
    return msgspec.json.encode(with_headline(result, said))


def _remove_old(folder: Path | None, history: Path | None) -> None:
    """What an earlier check has left there is no answer of this one."""
    if folder is None:
        return
    from dstest.cli.report import remove
    from dstest.report.timeline import names_of_drawings

    names = ["result.json", "witness.txt", *names_of_drawings()]
    remove((folder / name for name in names), "--report", history)


def _write(folder: Path, result: CheckResult, plain: bytes, text: str) -> None:
    """The answer, in words too, and its first witnesses as drawings."""
    from dstest.report.timeline import witness_files

    files = {"result.json": plain + b"\n", "witness.txt": f"{text}\n".encode()}
    files |= {name: drawing.encode() for name, drawing in witness_files(result).items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror}", remedy="choose another --report"
        ) from None
    for name, data in files.items():
        write_whole(folder / name, data, "--report")


def not_read(result: CheckResult) -> bool:
    """Did reading the history alone use up the budget?"""
    return result.ops.total == 0 and result.keys.undecided == ["*"]
