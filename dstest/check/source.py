"""What `dstest check` is given: which notation, what the file says of itself, what it must hold,
and whether it contradicts itself before any checker is asked.

A file of ours and an export of ours name their workload and model. A foreign one does not: what its
operations can only be is taken for it, what they could be several ways is refused with the choices,
because a guess would accuse the innocent or wave the guilty through.

The lints are those of a run (dstest/judge/lints.py), as far as a file alone can be held to them. A
*corrupt* history is refused as unreadable ones are (HistoryError, exit 2): neither answer about it
would count. A *weak* one can still show a violation, but is never valid.
"""

from __future__ import annotations

import gzip
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from checkers.ops.table import FAIL, OK, UNKNOWN, OpTable, table_of
from checkers.txn.columns import WORKLOADS
from dstest.core.errors import ConfigError, HistoryError, MemorySpent
from dstest.core.formats import AUTO
from dstest.core.history import SCHEMA, Header, History
from dstest.core.op import Op, Outcome
from dstest.core.words import shell_word
from dstest.history.jsonl import require_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dstest.core.check import CheckResult


class Asked(NamedTuple):
    """A workload and the model that it is held to; None stands for the workload's own."""

    workload: str
    model: str | None


_CERTAIN: Final[tuple[tuple[frozenset[str], frozenset[str], Asked], ...]] = (
    # types that must be there, types that may be there, what it is
    (frozenset({"inc"}), frozenset({"read"}), Asked("counter", None)),
    (frozenset({"generate"}), frozenset(), Asked("unique-ids", "unique")),
    (frozenset({"transfer"}), frozenset({"read"}), Asked("bank", "snapshot-isolation")),
)

_QUEUE: Final = (
    "--checker total-queue (nothing lost or doubled), --workload queue (and in order) or "
    "--model fifo-queue (linearizable)"
)
_LOCK: Final = (
    "--workload lock, --workload lease, --model mutex, --model reentrant-mutex, "
    "--model fencing-lock or --model semaphore -o permits=N"
)
_SET: Final = (
    "--checker set (final reads), --checker set-full (every read, linearizable), --checker "
    "set-full --model eventual (may be seen late, and is not lost: broadcast), "
    "--workload counter or --model set"
)

_LOG: Final = (
    "--checker kafka --model kafka (offsets; order within a process) or --workload append-log (and "
    "in real time)"
)

_VIEW: Final = (
    "--workload atomic-view, with --model strict-serializable, serializable, snapshot-isolation, "
    "repeatable-read or monotonic-atomic-view"
)

_CHOICES: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (frozenset({"reject", "collect"}), "--workload dead-letters"),
    (frozenset({"enqueue", "dequeue"}), _QUEUE),
    (frozenset({"acquire", "release"}), _LOCK),
    (frozenset({"add"}), _SET),
    (frozenset({"put", "get"}), "--model kv-map"),
    (frozenset({"append"}), "--checker order --model prefix or --model log"),
    (frozenset({"push"}), "--model stack"),
    (frozenset({"send", "poll", "subscribe", "assign"}), _LOG),
    (frozenset({"read-init"}), "--workload causal"),
    (frozenset({"watch"}), "--workload watch"),
    (frozenset({"insert"}), "--workload g2"),
    (frozenset({"bump", "look"}), _VIEW),
    (frozenset({"dump"}), "--workload bank-replicas"),
    (frozenset({"credit", "audit"}), "--workload ledger"),
)

_ANY: Final = "--workload, or --model: `dstest models --objects` says which knows which operations"

_BY_PREDICATE: Final = ("rp", "insert", "delete")
"""Micro-ops of transactions that read by predicates."""

_REGISTER_OPS: Final = frozenset({"r", "w", "read", "write"})

_REGISTER: Final = frozenset({"read", "write", "cas"})


_HISTORIES: Final = ("history.edn", "history.edn.gz", "history.txt", "history.txt.gz", "jepsen.log")
"""Files of a directory of Jepsen's that hold the history, the best first."""

_NO_HISTORIES: Final = ("results.edn", "test.jepsen", "test.fressian", "options.edn")
"""Files beside them that hold none."""


def is_jepsens(path: Path) -> bool:
    """Is a file called as Jepsen calls its histories?"""
    return path.name in _HISTORIES


def jepsen_file(path: Path) -> Path:
    """The history in a directory of Jepsen's (`store/NAME/TIME`, `store/latest`); any other path
    as it is. Raises HistoryError for a file of such a directory that is no history, ConfigError for
    a directory of several of them."""
    if path.is_dir():
        return _in_directory(path)
    if path.name not in _NO_HISTORIES or not path.exists():
        return path
    there = next((path.parent / n for n in _HISTORIES if (path.parent / n).is_file()), None)
    remedy = "give history.edn, which Jepsen writes beside it"
    raise HistoryError(
        f"{path} is no history: Jepsen keeps other things in it",
        remedy=remedy if there is None else f"dstest check {shell_word(there)}",
    )


def _in_directory(path: Path) -> Path:
    if any((path / name).exists() for name in ("history.jsonl", "run.json", "segments")):
        return path
    found = next((path / name for name in _HISTORIES if (path / name).is_file()), None)
    if found is not None:
        return found
    latest = path / "latest"
    inside = next((latest / name for name in _HISTORIES if (latest / name).is_file()), None)
    if any((latest / name).exists() for name in ("history.jsonl", "run.json")):
        return path
    if any((path / name).exists() for name in _NO_HISTORIES):
        raise HistoryError(
            f"{path} is a directory of Jepsen's without its history",
            remedy=f"give one in which {', '.join(_HISTORIES[::2])} lies",
        )
    others = (found for name in _HISTORIES for found in sorted(path.glob(f"*/{name}")))
    inside = inside or next((one for one in others if not (one.parent / "run.json").exists()), None)
    if inside is None:
        return path
    raise ConfigError(
        f"{path} is a store of Jepsen's, with a directory for each test",
        remedy=f"dstest check {shell_word(inside)}, or another of its directories",
    )


def history_file(path: Path) -> Path:
    """The file itself, or the history of a run directory. Raises HistoryError where there is
    none, ConfigError for a directory that is no run."""
    if not path.is_dir():
        return path
    from dstest.history.layout import RunDir

    inside = path / "history.jsonl"
    if not inside.exists():
        RunDir.open(path)
        raise HistoryError(
            f"{path} is a directory without a history.jsonl",
            remedy=f"a run that was cut off is sealed by `dstest recover {shell_word(path)}`",
        )
    return inside


def _scalar(value: object) -> bool:
    return not isinstance(value, list | dict)


def _plain_register(ops: Iterable[Op]) -> bool:
    """Do its reads and writes carry single values?"""
    return all(
        _scalar(op.output) and (op.op_type == "cas" or _scalar(op.input))
        for op in ops
        if op.op_type in _REGISTER
    )


def _whole_values(ops: Iterable[Op]) -> bool:
    """Is one of the written values a map or list that can only be a value as a whole? Writes to a
    part of an object are pairs or lists of micro-operations, all of them."""
    written = [op.input for op in ops if op.op_type == "write" and not _scalar(op.input)]
    return any(
        isinstance(value, dict) or (len(value) != 2 and all(map(_scalar, value)))
        for value in written
    )


def looks_independent(history: History) -> bool:
    """Are the values of a foreign history [key value] tuples that were read as plain values?

    A plain read returns no pair whose first part was asked for.
    """
    reads = [op for op in history.ops if op.op_type == "read" and op.output is not None]
    pairs = [op.output for op in reads if isinstance(op.output, list) and len(op.output) == 2]
    others = [op.input for op in history.ops if op.input is not None]
    tuples = [v for v in others if isinstance(v, list) and len(v) == 2 and _scalar(v[0])]
    simple = {op.op_type for op in history.ops} <= {*_REGISTER, "add", "inc"}
    told = bool(pairs) and len(pairs) == len(reads)
    return simple and bool(tuples) and len(tuples) == len(others) and (told or not reads)


def _micro_ops(history: History) -> set[str]:
    """The functions of what may be micro-ops; whoever reads them says what is none."""
    found: set[str] = set()
    for op in history.ops:
        for mops in (op.input, op.output):
            for mop in mops if isinstance(mops, list | tuple) else ():
                if isinstance(mop, list | tuple) and mop and isinstance(mop[0], str):
                    found.add(mop[0].removeprefix(":"))
    return found


def _tuples_of_micro_ops(history: History) -> bool:
    """Does each transaction say a key, and then its micro-ops?"""
    asked = [op.input for op in history.ops if op.input]
    return bool(asked) and all(
        isinstance(v, list) and len(v) == 2 and _scalar(v[0]) and isinstance(v[1], list)
        for v in asked
    )


def object_of(history: History, pairs: Iterable[str] = ()) -> str | None:
    """The object that a foreign history can only be one of, where no workload judges it as exactly;
    else None. `pairs` are of `-o`: one that only the workload's checkers know asks for these."""
    if any(pair.startswith("counter_start=") for pair in pairs):
        return None
    types = {op.op_type for op in history.ops}
    if "inc" in types and types <= {"inc", "dec", "read"}:
        return "counter"
    if types == {"txn"}:
        kinds = _micro_ops(history)
        return "multi-register" if kinds & {"read", "write"} and kinds <= _REGISTER_OPS else None
    return None


def guess(history: History) -> Asked:
    """What a foreign history was made by. Raises ConfigError with the choices where its operations
    do not tell."""
    types = {op.op_type for op in history.ops}
    if types in ({"txn"}, {"txn", "init"}):
        kinds = _micro_ops(history)
        if kinds & {*_BY_PREDICATE}:
            return Asked("closed-predicate", None)
    if types == {"txn"}:
        if _tuples_of_micro_ops(history):
            raise ConfigError(
                "the transactions are [key value] tuples",
                remedy="--independent with --workload closed-predicate, if that is what they are",
            )
        if kinds & {"send", "poll"}:
            raise ConfigError("the transactions send to logs and poll them", remedy=_LOG)
        return Asked("list-append" if "append" in kinds else "rw-register", None)
    for must, may, asked in _CERTAIN:
        if must <= types <= must | may:
            return asked
    if (
        types & {"write", "cas"}
        and "read-init" not in types
        and (_plain_register(history.ops) or _whole_values(history.ops))
    ):
        return Asked("cas-register", None)
    if types <= {"read"}:
        if _plain_register(history.ops):
            return Asked("cas-register", None)
        choices = "--workload bank, --checker set or --workload set"
    elif types <= _REGISTER:
        choices = (
            "--workload long-fork, --checker causal-reverse, --workload causal, "
            "--workload session, --model multi-register, --model cas-register (values are read as "
            "they were written), "
            "or --independent for [key value] tuples of --workload cas-register"
        )
    else:
        choices = next((said for some, said in _CHOICES if some & types), _ANY)
    raise ConfigError(
        f"the history does not tell what its operations ({', '.join(sorted(types))}) must satisfy",
        remedy=choices,
    )


_OURS: Final = b'{"schema":'
_HEAD_BYTES: Final = 4096
_LOG_HEAD_BYTES: Final = 1 << 16
"""Of a file, to see what it is."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The file, unpacked where it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked


def is_ours(path: Path) -> bool:
    """Does a file begin as histories of ours do? A pipe is not looked at, nor what is packed."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_OURS)) == _OURS
    except OSError:
        return False  # the reader says what is wrong with it


def log_as_edn(path: Path, format_: str, *, first: bool = False) -> str | None:
    """The op maps that a log of Jepsen's tells of, each in its line; some of the `first` where they
    are enough; None where the file is none. Raises HistoryError for a line that cannot be read."""
    from dstest.history.jepsen_order import as_edn, is_log

    if format_ not in (AUTO, "log"):
        return None
    try:
        with opened(path) as file:
            head = file.read(_LOG_HEAD_BYTES)
            told = head.decode("utf-8-sig", "replace")
            if format_ == AUTO and (told[:1] in "{[(#;" or not is_log(told)):
                return None
            if first and (found := as_edn(told[: told.rfind("\n") + 1])).strip():
                return found
            return as_edn((head + file.read()).decode("utf-8-sig"))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return None  # the reader says what is wrong with it


def transactions_in(path: Path, format_: str = AUTO) -> str | None:
    """The workload of a transactional history that nobody named, by the first lines of the file."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return None  # the reader says what is wrong with it
    if (told := log_as_edn(path, format_, first=True)) is not None:
        head = told.lstrip()[:_HEAD_BYTES].encode()
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if named := re.match(rb'\[?\s*\{[^\n]*"workload"\s*:?\s*"([^"]*)"', head):
        name = named[1].decode(errors="replace")
        return name if name in WORKLOADS else None
    if _other_than_transactions(head):
        return None
    if re.search(rb"\[\s*[:\"](rp|insert|delete)\b", head):
        return None  # transactions with reads by predicate are of a checker of their own
    if re.search(rb"\[\s*[:\"]append\b", head):
        return "list-append"
    if not re.search(rb"\[\s*\[\s*[:\"][rw][\" ]", head):
        return None
    # Reads of groups look alike, and what is no transaction needs the processes to be judged.
    transactions = b"process" in head or re.search(rb"\btxn\b", head) is not None
    return "rw-register" if transactions else None


def _other_than_transactions(head: bytes) -> bool:
    """Do types of operations say so? A look is made of steps that are written as reads are; other
    histories may call their transactions as they like."""
    types = set(re.findall(rb'"op_type"\s*:\s*"([^"]*)"', head))
    calls = set(re.findall(rb'(?:"f"\s*:\s*"|:f\s+[:"]?)([\w-]+)', head))
    return bool(types and b"txn" not in types) or not calls.isdisjoint({b"bump", b"look"})


def _header(text: bytes | mmap) -> Header | None:
    first = text[: max(0, text.find(b"\n"))]
    try:
        require_plain(first, 1)
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, HistoryError):
        return None
    return header if header.schema == SCHEMA else None


def read_table(path: Path, memory_mb: int) -> History | None:
    """The history in a file, its operations as an `OpTable`; None where the file has to be read
    otherwise, or where there is none.

    It is read in C; an operation is made when it is looked at.
    """
    try:
        with path.open("rb") as file:
            text = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError):
        return None
    return history_of(text, memory_mb)


def history_of(text: bytes | mmap, memory_mb: int) -> History | None:
    """The same of what a file holds."""
    header = _header(text)
    table = None if header is None else table_of(text, memory_mb)
    if header is None or table is None:
        return None
    # A sequence of operations, made when they are looked at.
    return History(header=header, ops=table)  # type: ignore[arg-type]


_CHUNK: Final = 1 << 20


@contextmanager
def readable_again(path: Path, limit_mb: int) -> Iterator[Path]:
    """The path itself where it is a file, a directory or nothing; else a file with what came out of
    it, until the end of the block: what looks at the first bytes would take them from who reads.

    Raises HistoryError where it cannot be read, MemorySpent where that is more than the limit.

    Pipes, `/dev/stdin` and what a shell calls `<(..)` can be read once only.
    """
    if path.is_file() or path.is_dir() or not path.exists():
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="dstest-") as copy:
        left = limit_mb << 20
        try:
            with path.open("rb", buffering=0) as source:
                while part := source.read(_CHUNK):
                    left -= len(part)
                    if left < 0:
                        raise MemorySpent(
                            f"more than {limit_mb} MB came out of {path}",
                            remedy="a larger --budget-mb, or a part of the history",
                        )
                    copy.write(part)
            copy.flush()
        except OSError as error:
            raise HistoryError(
                f"cannot read {path}: {error.strerror}", remedy="give a file"
            ) from None
        yield Path(copy.name)


_CORRUPT: Final = frozenset({"H02", "H04", "H05", "H06", "H07", "H09"})
"""What contradicts itself in any history; a foreign one does not name its clock (H03)."""

_WEAK: Final = frozenset({"H04"})
"""What leaves open whether an operation had an end; other weak lints tell a reader of a run
something that no checker asks for."""

_REMEDY: Final = "no verdict about it would count; record it again, or judge the file as it was"


def require_counts(header: Header, counted: Mapping[str, int], weak: Sequence[str] = ()) -> None:
    """Raises HistoryError where the recorder counted other operations than are in the file.

    `counted` are ok, fail and unknown; `weak` is what else is known of the file.
    """
    counters = {**counted, "issued": sum(counted.values())}
    counters["invokes"] = counters["issued"]
    for name, n in counters.items():
        told = header.counters.get(name)
        if told is not None and told != n:
            message = f"the recorder counted {told:,} {name}, the file holds {n:,} (H14)"
            raise HistoryError(
                "; ".join([f"the history is corrupt: {message}", *weak]),
                remedy=_REMEDY,
            )


def _outcomes(ops: Sequence[Op], table: OpTable | None) -> dict[str, int]:
    if table is not None:
        counts = np.bincount(table.outcome, minlength=3).tolist()
        return {
            Outcome.OK: counts[OK],
            Outcome.FAIL: counts[FAIL],
            Outcome.UNKNOWN: counts[UNKNOWN],
        }
    found = Counter(op.outcome for op in ops)
    return {outcome: found[outcome] for outcome in Outcome}


def require_sound(history: History, weak: Sequence[str] = ()) -> list[str]:
    """What is weak about a history. Raises HistoryError where it contradicts itself; `weak` is what
    its reader knows of it already."""
    from dstest.judge.lints import LintContext, lint

    table = history.ops if isinstance(history.ops, OpTable) else None
    # What a table was made of has been looked at for what lints of records find.
    looked_at = history if table is None else replace(history, ops=[])
    lints = lint(looked_at, None, LintContext(needs_node_seen=False))
    ours = history.header.source is None
    corrupt = [f"{said} ({name})" for name, said in lints.corrupt.items() if name in _CORRUPT]
    if ours and history.header.clock is not None and "H03" in lints.corrupt:
        corrupt.append(f"{lints.corrupt['H03']} (H03)")
    if corrupt:
        raise HistoryError(f"the history is corrupt: {'; '.join(corrupt)}", remedy=_REMEDY)
    require_counts(history.header, _outcomes(history.ops, table), weak)
    return [f"{said} ({name})" for name, said in lints.weak.items() if name in _WEAK]


def weakened(result: CheckResult, weak: list[str]) -> CheckResult:
    """The answer about a weak history: a violation stands, nothing else does."""
    if not weak or result.valid is False:
        return result
    said = "; ".join([*weak, *filter(None, [result.reason])])
    return replace(result, valid="unknown", reason=f"the history is weak: {said}")
