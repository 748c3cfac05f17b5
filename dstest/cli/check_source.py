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

__all__ = ["Asked", "guess", "history_file", "looks_independent"]


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
    "--checker set (final reads), --checker set-full (every read, linearizable), "
    "--workload counter or --model set"
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
    (frozenset({"send", "poll"}), "--workload append-log"),
    (frozenset({"watch"}), "--workload watch"),
    (frozenset({"insert"}), "--workload g2"),
    (frozenset({"bump", "look"}), _VIEW),
    (frozenset({"dump"}), "--workload bank-replicas"),
    (frozenset({"credit", "audit"}), "--workload ledger"),
)

_BY_PREDICATE: Final = ("rp", "insert", "delete")
"""Micro-ops of transactions that read by predicates."""

_REGISTER: Final = frozenset({"read", "write", "cas"})


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
        return Asked("list-append" if "append" in kinds else "rw-register", None)
    for must, may, asked in _CERTAIN:
        if must <= types <= must | may:
            return asked
    if types & {"write", "cas"} and _plain_register(history.ops):
        return Asked("cas-register", None)
    if types <= {"read"}:
        if _plain_register(history.ops):
            return Asked("cas-register", None)
        choices = "--workload bank, --checker set or --workload set"
    elif types <= _REGISTER:
        choices = (
            "--workload long-fork, --workload causal, --workload session, --model multi-register, "
            "or --independent for [key value] tuples of --workload cas-register"
        )
    else:
        choices = next((said for some, said in _CHOICES if some & types), "--workload or --model")
    raise ConfigError(
        f"the history does not tell what its operations ({', '.join(sorted(types))}) must satisfy",
        remedy=choices,
    )
