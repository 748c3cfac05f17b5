"""`dstest check`: judge a history, no cluster needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dstest.cli import completion
from dstest.cli.check_run import Deep
from dstest.cli.output import require_folder, require_writable, say, write_whole
from dstest.core import limits
from dstest.core.errors import ConfigError, Exit
from dstest.core.formats import AUTO, FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dstest.core.check import Budget, CheckResult

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
    format_: Annotated[
        str,
        typer.Option("--format", help=f"{', '.join([AUTO, *FORMATS])}."),
    ] = AUTO,
    independent: Annotated[
        bool | None,
        typer.Option(
            "--independent/--no-independent", help="Jepsen values are [key value] tuples."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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
    Plume, DBCop, Cobra or AWDIT, which have no times (docs/formats.md).

    Exit codes: 0 valid, 1 violation, 2 unreadable, corrupt or wrong usage, 3 unknown. With --batch
    that of the worst line: 1 before 3 before 2 before 0; a batch without lines is 2.
    A finished run's sums are compared first (3 where a file differs) and its verdict stands beside
    the answer: never 0 where it is no pass; 1 where it failed; asked by name, 3 without a find."""
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
    question = _Question(
        history, workload, model, checker, format_, independent, option or [], initial, stream, deep
    )
    raise typer.Exit(int(_judged(question, budget, _Wanted(report, proof, json_))))


def _budget(time_s: float, memory_mb: int) -> Budget:
    from dstest.core.check import Budget

    if not 0 < time_s < 1e9 or not 0 < memory_mb < 2**40:
        raise ConfigError("a budget is a positive number", remedy="leave it out for the default")
    return Budget(time_s=time_s, memory_mb=memory_mb)


class _Question(NamedTuple):
    """What is asked, as it was asked."""

    history: Path
    workload: str | None
    model: str | None
    checker: str | None
    format: str
    independent: bool | None
    option: list[str]
    initial: str | None
    stream: bool
    deep: bool


class _Wanted(NamedTuple):
    """What is made of the answer: files, and the form that it is printed in."""

    report: Path | None
    proof: Path | None
    json: bool


def _judged(asked: _Question, budget: Budget, wanted: _Wanted) -> Exit:
    """Judges, and says what came out."""
    from dstest.cli.check_budget import in_time
    from dstest.cli.check_notes import beside_jepsens
    from dstest.cli.check_options import require_format
    from dstest.cli.check_run import exit_of
    from dstest.cli.check_source import jepsen_file
    from dstest.cli.check_text import text_of
    from dstest.cli.spool import readable_again

    require_format(asked.format)
    asked = asked._replace(history=jepsen_file(asked.history))
    given, name = asked.history, asked.history.name or str(asked.history)
    if wanted.proof is not None:
        _require_provable(asked, wanted.proof)
        require_writable(wanted.proof, "--proof")
    require_folder(wanted.report, "--report")
    with readable_again(asked.history, budget.memory_mb) as file:
        asked = asked._replace(history=file)
        result = _believed(asked, lambda: in_time(_answer(asked, budget), budget))
        result = beside_jepsens(result, given)
        if wanted.proof is not None:
            _prove(asked, result, budget, wanted.proof)
        plain = _json(result, asked) if wanted.json or wanted.report is not None else b""
    text = text_of(name, result)
    if wanted.report is not None:
        _write(wanted.report, result, plain, text)
    say(plain.decode() if wanted.json else text)
    return exit_of(result, named=_named(asked))


def _named(asked: _Question) -> bool:
    """Was anything asked but what the history says of itself?"""
    given = asked.workload, asked.model, asked.checker, asked.initial
    return bool(asked.option) or any(value is not None for value in given)


def _require_provable(asked: _Question, file: Path) -> None:
    """Raises ConfigError where an order says nothing of what is asked, or would be written over the
    history, or into a run."""
    if asked.option or asked.checker is not None or asked.independent:
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


def _prove(asked: _Question, result: CheckResult, budget: Budget, file: Path) -> None:
    """Writes an order that proves the answer, or says why there is none."""
    from dstest.cli.proof import write_order

    asked_for = asked.history, asked.format, asked.workload, asked.model, asked.initial
    write_order(*asked_for, result, budget, file)


def _believed(asked: _Question, answer: Callable[[], CheckResult]) -> CheckResult:
    """The answer; about a finished run, whose sums are compared first, with its verdict beside."""
    history = asked.history
    if not history.is_dir():
        if asked.deep:
            raise ConfigError(
                "--deep is for the directory of a run", remedy=f"leave it out: {history} is a file"
            )
        return answer()
    from dstest.cli.check_run import as_the_run, require_no_store, run_at

    require_no_store(history)
    run = run_at(history, deep=asked.deep)
    return as_the_run(answer(), run, named=_named(asked))


def _answer(asked: _Question, budget: Budget) -> CheckResult:
    """The file's history, judged by what its workload asks for; unknown where memory is out."""
    from checkers.txn.workloads import WORKLOADS
    from dstest.cli.check_source import history_file
    from dstest.core.errors import MemorySpent
    from dstest.core.plugin_files import named_in

    model, format_, initial = asked.model, asked.format, asked.initial
    workload = None if asked.workload is None else named_in("workloads", asked.workload)
    checker = None if asked.checker is None else named_in("checkers", asked.checker)
    _require_fitting(workload, checker)
    asked = asked._replace(workload=workload, checker=checker)
    named: str | None = None
    try:
        if (found := _of_sessions(asked, budget)) is not None:
            return found
        path = history_file(asked.history)
        named = _transactions(asked, path)
        if named in WORKLOADS and checker in (None, named):
            from dstest.cli.check_options import require_no_tuples, transaction_options
            from dstest.cli.check_stream import judge_whole_or_stream

            require_no_tuples(asked.independent)
            options = transaction_options(asked.option)
            question = path, format_, named, model, budget, options, initial
            return judge_whole_or_stream(*question, stream=asked.stream)
        if asked.stream:
            from dstest.cli.check_stream import require_streamable

            require_streamable(path)
            raise ConfigError(
                "--stream judges list-append histories alone", remedy="leave --stream out"
            )
        from dstest.cli.check_objects import judge_file

        return judge_file(
            path, workload, model, checker, format_, asked.independent, asked.option, budget,
            initial,
        )  # fmt: skip
    except MemorySpent as spent:
        from dstest.judge.checker_answers import unknown

        return unknown(checker or named or "check", model, f"{spent.message}; try {spent.remedy}")


def _of_sessions(asked: _Question, budget: Budget) -> CheckResult | None:
    """The answer where the file holds other tools' sessions, else None."""
    from dstest.cli.check_look import is_ours

    if asked.format == "dstest" or (asked.format == AUTO and is_ours(asked.history)):
        return None
    from dstest.cli.check_options import require_no_tuples, transaction_options
    from dstest.cli.check_sessions import judge_sessions, session_format

    fmt = session_format(asked.history, asked.format)
    if fmt is None:
        return None
    require_no_tuples(asked.independent)
    options = transaction_options(asked.option)
    return judge_sessions(
        asked.history, fmt, asked.workload, asked.checker, asked.model, budget, options,
        asked.initial,
    )  # fmt: skip


def _transactions(asked: _Question, path: Path) -> str | None:
    """The workload of a transactional history: asked for, or by the first lines of the file where
    nothing else was asked."""
    from checkers.txn.workloads import WORKLOADS
    from dstest.cli.check_look import transactions_in

    named = asked.checker if asked.checker in WORKLOADS else asked.workload
    if asked.checker is None and named is None and not _of_an_object(asked.model):
        return transactions_in(path, asked.format)
    return named


def _of_an_object(model: str | None) -> bool:
    if model is None:
        return False
    from checkers.lin.catalogue import MODELS

    return model in MODELS


def _require_fitting(workload: str | None, checker: str | None) -> None:
    """Raises ConfigError where a checker is asked for that the workload does not have: one of the
    two would be passed over."""
    if workload is None or checker is None:
        return
    from dstest.cli.check_workload import require_fitting

    require_fitting(workload, checker)


def _json(result: CheckResult, asked: _Question) -> bytes:
    import msgspec

    from dstest.cli.check_headline import headline_in, with_headline

    said = headline_in(result, asked.history, asked.format, asked.independent)
    return msgspec.json.encode(with_headline(result, said))


def _remove_old(folder: Path | None, history: Path | None) -> None:
    """What an earlier check has left there is no answer of this one."""
    if folder is None:
        return
    from dstest.cli.report_targets import remove
    from dstest.report.witness_files import names_of_drawings

    names = ["result.json", "witness.txt", *names_of_drawings()]
    remove((folder / name for name in names), "--report", history)


def _write(folder: Path, result: CheckResult, plain: bytes, text: str) -> None:
    """The answer, in words too, and its first witnesses as drawings."""
    from dstest.report.witness_files import witness_files

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
