"""What `dstest check` is given: which notation, what the file says of itself, what it must hold.

A file of ours and an export of ours name their workload and model. A foreign one does not: what its
operations can only be is taken for it, what they could be several ways is refused with the choices,
because a guess would accuse the innocent or wave the guilty through.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.core.history import History
    from dstest.core.op import Op


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
    from dstest.store.layout import RunDir

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
