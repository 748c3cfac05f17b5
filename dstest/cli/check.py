"""`dstest check`: judge a history, no cluster needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dstest.cli.output import say, write_whole
from dstest.core import limits
from dstest.core.errors import ConfigError, Exit

if TYPE_CHECKING:
    from dstest.core.check import Anomaly, Budget, CheckResult

__all__ = ["check"]

ANOMALIES_SHOWN_MAX = 3
"""More are in --json and --report; a terminal is for the first look."""


def check(
    history: Annotated[
        Path | None, typer.Argument(metavar="HISTORY", help="A history file.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="What the clients did; default: as the history says.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Consistency model, or object: fifo-queue, mutex, ..")
    ] = None,
    checker: Annotated[
        str | None, typer.Option(help="One checker, by name or file, not the workload's.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="auto, dstest, edn, json or log.")
    ] = "auto",
    independent: Annotated[
        bool | None,
        typer.Option(
            "--independent/--no-independent", help="Jepsen values are [key value] tuples."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    budget_s: Annotated[
        float,
        typer.Option(
            "--budget-s", help="Seconds until the answer is unknown, if nothing wrong was found."
        ),
    ] = limits.CHECK_TIME_S,
    budget_mb: Annotated[
        int, typer.Option("--budget-mb", help="Megabytes until the answer is unknown.")
    ] = limits.CHECK_MEMORY_MB,
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", help="key=value: wfr-keys, anomalies, permits, total .."),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="""What the objects start with: 0, or by key '{"x": 0, "y": 1}'."""
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write result.json, witness.txt and drawings there."),
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(metavar="IN.jsonl", help="Judge many small histories, one a line, instead."),
    ] = None,
) -> None:
    """Judge a history: ours, a run directory, Jepsen EDN, Jepsen JSON or a Jepsen log.

    Exit codes: 0 valid, 1 violation, 2 unreadable, corrupt or wrong usage, 3 unknown. With --batch
    that of the worst line: 1 before 3 before 2 before 0; a batch without lines is 2. A finished run
    directory is verified first (3 where its files do not agree), and no better than its verdict."""
    from dstest.cli.check_budget import in_time
    from dstest.cli.check_run import as_the_run, run_at
    from dstest.core.check import Budget

    if not 0 < budget_s < 1e9 or not 0 < budget_mb < 2**40:
        raise ConfigError("a budget is a positive number", remedy="leave it out for the default")
    budget = Budget(time_s=budget_s, memory_mb=budget_mb)
    asked = (history, workload, model, checker, independent, option, report, initial)
    if batch is not None:
        raise typer.Exit(int(_batch(batch, budget, format_ != "auto", asked)))
    if history is None:
        raise ConfigError("need a HISTORY, or --batch with a file", remedy="give one of the two")
    run = run_at(history)
    result = _answer(
        history, workload, model, checker, format_, independent, option or [], budget, initial
    )
    result = as_the_run(in_time(result, budget), run)
    text = _text(history.name or str(history), result)
    if report is not None:
        _write(report, result, text)
    say(_json(result).decode() if json_ else text)
    raise typer.Exit(int(_CODES[result.valid]))


_CODES: Final[dict[Any, Exit]] = {
    True: Exit.PASS,
    False: Exit.FAIL,
    "unknown": Exit.NOT_PROVEN,
}


def _answer(
    history: Path,
    workload: str | None,
    model: str | None,
    checker: str | None,
    format_: str,
    independent: bool | None,
    option: list[str],
    budget: Budget,
    initial: str | None,
) -> CheckResult:
    """The file's history, judged by what its workload asks for; unknown where memory is out."""
    from checkers.lin.catalogue import MODELS
    from checkers.txn.api import WORKLOADS
    from dstest.cli.check_objects import judge_file
    from dstest.cli.check_options import require_no_tuples, transaction_options
    from dstest.cli.check_source import history_file
    from dstest.cli.check_txn import judge_transactions, transactions_in
    from dstest.cli.check_workload import require_fitting
    from dstest.core.errors import MemorySpent
    from dstest.core.plugin_files import named_in
    from dstest.judge.checker_answers import unknown

    workload = None if workload is None else named_in("workloads", workload)
    checker = None if checker is None else named_in("checkers", checker)
    require_fitting(workload, checker)
    path = history_file(history)
    named = checker if checker in WORKLOADS else workload
    if checker is None and named is None and model not in MODELS:
        named = transactions_in(path)
    try:
        if named in WORKLOADS and checker in (None, named):
            require_no_tuples(independent)
            options = transaction_options(option)
            return judge_transactions(path, format_, named, model, budget, options, initial)
        return judge_file(
            path, workload, model, checker, format_, independent, option, budget, initial
        )
    except MemorySpent as spent:
        return unknown(checker or named or "check", model, f"{spent.message}; try {spent.remedy}")


_OWN: Final = (
    *("HISTORY", "--workload", "--model", "--checker", "--independent", "-o", "--report"),
    "--initial",
)


def _batch(path: Path, budget: Budget, named: bool, asked: tuple[Any, ...]) -> Exit:
    """One JSON object per line for each line of the file; the budget is each answer's. The exit
    code of the worst. Raises ConfigError where `asked`, in the order of `_OWN`, or a
    format is given: each line says itself what is asked of it."""
    from checkers.txn.api import check as judge
    from checkers.txn.batch import run_batch
    from dstest.cli.check_budget import in_time

    flags = [flag for flag, value in zip(_OWN, asked, strict=True) if value is not None]
    if flags or named:
        raise ConfigError(
            f"--batch takes no {', '.join([*flags, *['--format'] * named])}",
            remedy='"workload", "models" and "opts" in the lines of the file say what is asked',
        )

    def judged(c: Any, workload: str, models: list[str], opts: dict[str, Any]) -> CheckResult:
        return in_time(judge(c, workload, models, opts, budget), budget)

    worst: set[Exit] = set()
    try:
        with path.open("rb") as lines:
            for answer in run_batch(lines, judged, seen=worst.add):
                say(answer.decode())
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from None
    order = (Exit.FAIL, Exit.NOT_PROVEN, Exit.USAGE, Exit.PASS)
    return next((code for code in order if code in worst), Exit.USAGE)


def _json(result: CheckResult) -> bytes:
    import msgspec

    return msgspec.json.encode(result)


def _write(folder: Path, result: CheckResult, text: str) -> None:
    files = {"result.json": _json(result) + b"\n", "witness.txt": f"{text}\n".encode()}
    for at, drawing in enumerate(_drawings(result)):
        files[f"cycle-{at}.svg"] = drawing.encode()
    for at, drawing in enumerate(_timelines(result)):
        files[f"witness-{at}.svg"] = drawing.encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror}", remedy="choose another --report"
        ) from None
    for name, data in files.items():
        write_whole(folder / name, data, "--report")


def _drawings(result: CheckResult) -> list[str]:
    """The first cycles of transactions as SVG."""
    from dstest.report.cycles import CYCLES_DRAWN_MAX, cycle_svg, is_cycle

    found = [a for group in result.anomalies.values() for a in group if is_cycle(a)]
    return [cycle_svg(anomaly) for anomaly in found[:CYCLES_DRAWN_MAX]]


def _timelines(result: CheckResult) -> list[str]:
    """The witnesses that are no cycles as SVG, one lane per process."""
    from dstest.core.op import Op
    from dstest.report.timeline import timeline_svg

    found = result.anomalies.get("nonlinearizable", [])
    return [timeline_svg([Op(**row) for row in anomaly.witness]) for anomaly in found]


def _cell(value: Any) -> str:
    import json

    return "" if value is None else json.dumps(value, default=repr)


def _row(op: dict[str, Any]) -> list[str]:
    """One operation of a witness; `...` where nobody knows when or whether it took effect."""
    end = op.get("complete_event", op["complete_ts"])
    unknown = op["timeout_marker"] or end is None
    output = _output(op) if not unknown else "?"
    return [
        str(op["op_id"]),
        "" if op["process_id"] is None else str(op["process_id"]),
        _cell(op.get("invoke_event", op["invoke_ts"])),
        "..." if unknown else str(end),
        op["op_type"],
        _cell(op["input"]),
        output,
        op["node_seen"] or "",
        op["fault_epoch"] or "",
    ]


def _output(op: dict[str, Any]) -> str:
    """A read's null is a result and shown; the absent output of a write is not."""
    from dstest.core.op import NULL_IS_RESULT

    return (
        "null" if op["op_type"] in NULL_IS_RESULT and op["output"] is None else _cell(op["output"])
    )


def _table(ops: list[dict[str, Any]]) -> list[str]:
    events = any("invoke_event" in op for op in ops)
    times = ["invoke_event", "complete_event"] if events else ["invoke_ns", "complete_ns"]
    head = ["op", "process", *times, "type", "input", "output", "node", "epoch"]
    rows = [head, *map(_row, ops)]
    used = [c for c in range(len(head)) if any(row[c] for row in rows[1:])]
    widths = {c: max(len(row[c]) for row in rows) for c in used}
    return ["  ".join(row[c].ljust(widths[c]) for c in used).rstrip() for row in rows]


def _is_cycle(anomaly: Anomaly) -> bool:
    return any("edge" in op for op in anomaly.witness)


def _anomaly(anomaly: Anomaly) -> list[str]:
    size = f"{len(anomaly.ops)} operation{'s' if len(anomaly.ops) != 1 else ''}"
    minimal = "none can be left out" if anomaly.minimal else "perhaps not the smallest"
    where = "" if _is_cycle(anomaly) else f" on key {_cell(anomaly.key) or 'null'}"
    lines = ["", f"{anomaly.type}{where}: {size}, {minimal}"]
    lines += [f"  {line}" for line in _table(anomaly.witness)]
    if anomaly.epochs:
        lines.append(f"  during {', '.join(anomaly.epochs)}")
    lines.append(f"  {anomaly.explanation}")
    return lines


def _text(name: str, result: CheckResult) -> str:
    """The answer for people."""
    from dstest.cli.check_budget import not_read

    if not_read(result):
        return f"{name}: unknown, it could not be read\n  {result.reason}"
    word = {True: "valid", False: "VIOLATION", "unknown": "unknown"}[result.valid]
    lines = [f"{name}: {word} under {result.model}"]
    if result.reason:
        lines.append(f"  {result.reason}")
    anomalies = [a for group in result.anomalies.values() for a in group]
    for anomaly in anomalies[:ANOMALIES_SHOWN_MAX]:
        lines += _anomaly(anomaly)
    if len(anomalies) > ANOMALIES_SHOWN_MAX:
        lines += ["", f"{len(anomalies) - ANOMALIES_SHOWN_MAX} more in --json"]
    excluded = "".join(f", {n} {why}" for why, n in sorted(result.ops.excluded.items()))
    counts = (
        f"{result.ops.consumed} of {result.ops.total} operations judged{excluded}; "
        f"{result.keys.decided} of {result.keys.total} keys decided; "
        f"{result.seconds.load:.3f} s load, {result.seconds.check:.3f} s check"
    )
    return "\n".join([*lines, "", counts])
